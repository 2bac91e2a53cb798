"""One estimate, one interval: correlations, slopes and statistics of pairs, over settings (see `settings`)."""

from rc_utils.correlation.estimates import (
    Estimate,
    bootstrap,
    correlate,
    correlation_lead,
    fisher_interval,
    interval_text,
    mean,
    partial_correlation,
    proportion,
    slope,
)
from rc_utils.correlation.settings import (
    HYPERPARAMETERS,
    average_replicates,
    change_per_doubling,
    correlate_settings,
    correlation_table,
    finished,
    require_columns,
    setting_names,
)
from rc_utils.correlation.weighted import weighted_pearson

__all__ = [
    "HYPERPARAMETERS",
    "Estimate",
    "average_replicates",
    "bootstrap",
    "change_per_doubling",
    "correlate",
    "correlate_settings",
    "correlation_lead",
    "correlation_table",
    "finished",
    "fisher_interval",
    "interval_text",
    "mean",
    "partial_correlation",
    "proportion",
    "require_columns",
    "setting_names",
    "slope",
    "weighted_pearson",
]
