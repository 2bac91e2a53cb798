"""Campaigns: what is asked for, running it, and the records on disk."""

import importlib

_HOMES = {
    "Campaign": "specification",
    "Experiment": "specification",
    "complete_run": "run",
    "freeze": "records",
    "list_campaigns": "campaign",
    "load_campaign": "campaign",
    "missing_runs": "records",
    "parse_campaign": "campaign",
    "plan": "execute",
    "sweep": "execute",
    "trained_network": "run",
}
__all__ = list(_HOMES)


def __getattr__(name):
    """The public functions, imported at their first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
