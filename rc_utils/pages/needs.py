"""What a published statement without a result of ours would take: runs in the paper's setting, and hours on a GPU."""

from __future__ import annotations

import functools

from rc_utils.paper.published_tables import MAIN_NETWORKS, NETWORKS
from rc_utils.paper.verdict import published
from rc_utils.sweep.campaign import list_campaigns, load_campaign
from rc_utils.sweep.cost import hours_at, run_flops

SMALLER = "cifar10-small"
CAMPAIGNS = {"CIFAR-100": "cifar100-paper", "ImageNet": "imagenet-paper"}
DATA = {"CIFAR-100": "the download of CIFAR-100", "ImageNet": "the images of ImageNet"}
EXPERIMENTS = {name: name for name in ("evolution", "mixup", "crop-flip")} | {"Adam": "adam", "Adagrad": "adagrad"}
COMPUTED_BY_A_PAGE = ("theory", "safran", "loukas")
# Tables of mean counts of one network, which page 02 makes beside the paper's.
OF_ONE_NETWORK = ("grid size", "sample size", "range")


def needed(id_: str) -> str:
    """What would test the published statement `id_`: a campaign, networks, runs, and hours on a GPU.

    And the smaller campaign, where its runs test it, as they cannot a level. A campaign that the folder of campaigns
    does not hold is named alone. Raises ValueError for an unknown id.
    """
    statement = published(id_)
    experiment = statement.experiment
    if experiment in COMPUTED_BY_A_PAGE:
        return "its page"
    if experiment == "trees":
        return "python -m rc_utils.forests cifar10"
    parts = id_.split("/")
    column, named = parts[-1], tuple(part for part in parts if part in NETWORKS)
    networks = named or (MAIN_NETWORKS if column == "overall" else ("ResNet18",))
    name = CAMPAIGNS.get(column, "cifar10-paper")
    wanted = EXPERIMENTS.get(experiment) or EXPERIMENTS.get(column)
    if name not in list_campaigns():
        return f"{name}, which is not among the campaigns here"
    number, flops = _runs(name, wanted, networks)
    if experiment in OF_ONE_NETWORK and column != "correlation":
        if statement.kind == "level":
            return f"a {networks[0]} of {name}, {hours_at(flops / number):,.1f} hours on a GPU, and page 02"
        return f"{SMALLER} tests it on a CPU"
    who = networks[0] if len(networks) == 1 else f"{len(networks)} networks"
    text = f"{name}, {who}: {number} runs, {hours_at(flops):,.0f} hours on a GPU"
    if column in DATA:
        return f"{text}; {DATA[column]}"
    smaller = statement.kind != "level" and SMALLER in list_campaigns() and _runs(SMALLER, wanted, networks)[0]
    return text + (f"; {SMALLER} tests it on a CPU" if smaller else "")


@functools.cache
def _runs(name: str, experiment: str | None, networks: tuple[str, ...]) -> tuple[int, float]:
    """Number and floating-point operations of a campaign's runs, of those that train as `[train]` says by default."""
    found = {}
    for asked, network, planned in _entries(name):
        plain = not asked.train and not asked.evolution_epochs
        if network in networks and (asked.name == experiment if experiment else plain):
            found[planned.spec.run_id] = planned
    return len(found), sum(map(run_flops, found.values()))


@functools.cache
def _entries(name: str) -> tuple:
    return tuple(load_campaign(name).entries())
