from .campaign import (
    Campaign,
    Experiment,
    list_campaigns,
    load_campaign,
    parse_campaign,
)
from .execute import check_values, plan, sweep, verify
from .records import find_records, freeze, load_evolution, load_runs, missing_runs
from .run import complete_run, make_record, trained_network

__all__ = [
    "Campaign",
    "Experiment",
    "check_values",
    "complete_run",
    "find_records",
    "freeze",
    "list_campaigns",
    "load_campaign",
    "load_evolution",
    "load_runs",
    "make_record",
    "missing_runs",
    "parse_campaign",
    "plan",
    "sweep",
    "trained_network",
    "verify",
]
