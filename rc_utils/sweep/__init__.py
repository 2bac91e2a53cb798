"""Campaigns: what is asked for, running it, and the records on disk."""

import importlib

_HOMES = {
    "campaign": (
        "Campaign", "Experiment", "list_campaigns", "load_campaign", "load_campaigns",
        "parse_campaign",
    ),
    "execute": ("check_values", "plan", "sweep", "verify"),
    "records": ("find_records", "freeze", "load_evolution", "load_runs", "missing_runs"),
    "run": ("complete_run", "make_record", "trained_network"),
}  # fmt: skip
__all__ = sorted(name for names in _HOMES.values() for name in names)


def __getattr__(name):
    """The public functions, imported at their first use: reading records needs no torch."""
    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
