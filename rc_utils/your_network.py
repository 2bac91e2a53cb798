"""A network of the reader's own on a small grid, counted as a campaign counts its networks."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable

import numpy as np
import pandas as pd
import torch
from torch import nn

from rc_utils.campaign import load_campaign
from rc_utils.checks import require, settings_from_dict
from rc_utils.ledger import INTERPOLATES
from rc_utils.networks import build_network, check_network
from rc_utils.networks.user_class import find_user_network
from rc_utils.regions.classifier import NonFiniteScores
from rc_utils.runs import count_regions, dataset_of
from rc_utils.specification import Campaign
from rc_utils.training import TrainConfig, train


def corner_cells(grid: dict) -> list[dict]:
    """The corners of a grid in its first two keys with several values: at most four cells; other keys' first values.

    Numbers take their smallest and largest value, anything else the first and last.
    """
    varied = [key for key, values in grid.items() if len(set(values)) > 1][:2]
    ends = {}
    for key, values in grid.items():
        numbers = all(isinstance(v, int | float) for v in values)
        low, high = (min(values), max(values)) if numbers else (values[0], values[-1])
        ends[key] = (low, high) if key in varied else (values[0],)
    return [dict(zip(ends, values, strict=True)) for values in itertools.product(*ends.values())]


def instantiate(network: str | Callable[..., nn.Module], data, *, width: float = 0, seed: int = 0) -> nn.Module:
    """An untrained network for `data`: of a name ("ResNet18", "my_module:MyNet") or of a class or function.

    A class gets those of num_classes, in_channels, image_size and width that its signature names. width 0 is the
    network's own default. The random state of the caller is untouched. Raises TypeError for something else.
    """
    given = {"num_classes": data.num_classes, "in_channels": data.in_channels, "image_size": data.image_size}
    require(width >= 0, f"width={width!r}; expected a positive number, or 0 for the network's own")
    options = {"width": width} if width else {}
    if isinstance(network, str) and ":" not in network:
        check_network(network, **options)
        return build_network(network, **given, seed=seed, **options)
    if isinstance(network, str):
        network = find_user_network(network)
    require_callable(network)
    named = inspect.signature(network).parameters
    require(
        "width" in named or not width, f"{_name_of(network)} takes no width: name it in its signature, or give none"
    )
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        module = network(**{key: value for key, value in (given | options).items() if key in named})
    if not isinstance(module, nn.Module):
        raise TypeError(f"{_name_of(network)} made a {type(module).__name__}; expected a torch.nn.Module")
    return module


def _name_of(network: Callable[..., nn.Module]) -> str:
    return getattr(network, "__name__", None) or getattr(getattr(network, "func", None), "__name__", "network")


def require_callable(network) -> None:
    """Raise TypeError unless `network` is a class or function."""
    if isinstance(network, nn.Module) or not callable(network):
        raise TypeError(
            f"network is {network!r}; expected a class derived from torch.nn.Module, a function that returns one, or "
            'a name such as "ResNet18" or "my_module:MyNet"'
        )


def run_small_grid(
    network: str | Callable[..., nn.Module],
    campaign: str,
    experiment: str = "main",
    *,
    width: float = 0,
    epochs: int = 0,
    num_samples: int = 0,
    device: str = "cpu",
    seed: int = 0,
) -> pd.DataFrame:
    """Train a network on the corners of a campaign's grid and count its regions as the campaign does.

    The data, training settings and count `main` are the campaign's; `num_samples` takes the first so many of its
    segments, 0 all of them; `epochs` 0 keeps its number. One row a cell with the columns of `load_runs` that
    correlations and figures read, network = its name, told apart from a network of the campaign. A diverged run has
    status "diverged" and no count. Raises ValueError for an unknown campaign or experiment, a campaign without count
    `main`, and what the network raises.
    """
    chosen = load_campaign(campaign)
    planned = [(e, p) for e, _, p in chosen.entries() if e.name == experiment]
    names = ", ".join(e.name for e in chosen.experiments)
    require(bool(planned), f"campaign {campaign!r} has no experiment {experiment!r}; it has {names}")
    require("main" in chosen.counts, f"campaign {campaign!r} has no [counts.main]; expected one to count with")
    setting, data = planned[0][0], dataset_of(planned[0][1].spec, device)
    if not isinstance(network, str):
        require_callable(network)
    name = network.split(":")[-1] if isinstance(network, str) else _name_of(network)
    name += " (yours)" if name in chosen.networks else ""
    rows = []
    for cell in corner_cells(setting.grid):
        own = {"seed": seed} | ({"epochs": epochs} if epochs else {})
        config = settings_from_dict(TrainConfig, chosen.train | setting.train | cell | own, f"a cell of {campaign}")
        module = instantiate(network, data, width=width, seed=seed)
        run = train(module, data, config, device=device)
        row = {"campaign": chosen.name, "experiment": experiment, "network": name, "seed": seed, "status": run.status}
        row |= {
            "cell": ", ".join(f"{k}={v}" for k, v in cell.items()),
            "lr": config.lr,
            "batch_size": config.batch_size,
        }
        row |= {"train_accuracy": run.train_accuracy, "test_accuracy": run.test_accuracy, "gap": run.gap}
        row |= {"interpolates": run.train_accuracy >= INTERPOLATES, "seconds": run.seconds}
        rows.append(row | _count(run, data, chosen, num_samples))
    return pd.DataFrame(rows)


def _count(run, data, campaign: Campaign, num_samples: int) -> dict:
    nothing = {"status": "diverged", "count": float("nan"), "count_std_error": float("nan")}
    if run.status != "ok":
        return nothing
    settings = dict(campaign.counts["main"])
    if num_samples:
        settings["num_samples"] = min(num_samples, settings.get("num_samples", num_samples))
    try:
        counts = np.array(count_regions(run.network, data, settings)["counts"])
    except NonFiniteScores:
        return nothing
    error = counts.std(ddof=1) / len(counts) ** 0.5 if len(counts) > 1 else float("nan")
    return {"count": counts.mean(), "count_std_error": error}
