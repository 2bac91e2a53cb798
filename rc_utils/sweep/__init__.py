"""Campaigns: what is asked for, running it, and the records on disk."""

import lazy_loader

# Imported at their first use: reading records needs no torch.
__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submod_attrs={
    "campaign": [
        "Campaign", "Experiment", "list_campaigns", "load_campaign", "load_campaigns",
        "parse_campaign",
    ],
    "execute": ["check_values", "plan", "sweep", "verify"],
    "records": ["find_records", "freeze", "load_evolution", "load_runs", "missing_runs"],
    "run": ["complete_run", "make_record", "trained_network"],
})  # fmt: skip
