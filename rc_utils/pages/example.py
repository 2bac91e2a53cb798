"""Networks that pages show: which run of a campaign, its trained network."""

from __future__ import annotations

from torch import nn

from rc_utils.correlation import finished
from rc_utils.datasets import Dataset
from rc_utils.sweep import run
from rc_utils.sweep.campaign import PlannedRun, read_campaign
from rc_utils.sweep.records import load_runs


def example_run(name: str, network: str = "", experiment: str = "") -> PlannedRun:
    """The planned run whose network a page shows: of the runs of `network` (default: the first one) with a record that
    interpolates, the one with the best test accuracy; the first planned run where there is none. `experiment` narrows
    the choice to one experiment."""
    campaign = read_campaign(name)
    label = network or next(iter(campaign.networks))
    if label not in campaign.networks:
        raise ValueError(f"campaign {name!r} has no network {label!r}; it has {', '.join(campaign.networks)}")
    wanted = [p.spec.run_id for e, other, p in campaign.entries() if other == label and experiment in ("", e.name)]
    runs = finished(load_runs(campaign))
    runs = runs[runs["run_id"].isin(wanted)].sort_values(
        ["interpolates", "test_accuracy"], ascending=False, kind="stable"
    )
    # The whole plan: an experiment of another name may want more of the same run.
    return campaign.runs()[runs["run_id"].iloc[0] if len(runs) else wanted[0]]


def example_network(planned: PlannedRun, device: str = "cpu") -> tuple[nn.Module, Dataset]:
    """(network, dataset) of a planned run; trained again where its weights are not kept here."""
    record = run.complete_run(planned, device, weights=True)
    if record["status"] != "ok":
        lr, batch_size = planned.spec.train.lr, planned.spec.train.batch_size
        setting = f"{planned.spec.network['name']}, lr {lr:g}, batch size {batch_size}"
        raise ValueError(f"the network to be shown diverged ({setting}); choose another")
    network = run.trained_network(planned.spec, device)
    return network, run.dataset_of(planned.spec, device)
