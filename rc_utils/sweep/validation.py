"""What a campaign asks of datasets, networks, counts and measures: refused here, before a run would fail for it."""

import inspect
import typing

from rc_utils.checks import check_keys, check_name, check_number, checked_value, require
from rc_utils.counting import make_lattice, region_count
from rc_utils.counting.count import check_strategy
from rc_utils.counting.sampling import check_sampling
from rc_utils.datasets.load import check_values, load_dataset
from rc_utils.measures import MEASURES
from rc_utils.networks import check_network
from rc_utils.networks.registry import SHAPE_ARGUMENTS
from rc_utils.sweep.specification import canonical_json, naming

# Keys that are no options of a network: the dataset says them.
_OF_DATASET = tuple(key for key in SHAPE_ARGUMENTS if key != "width")


def check_campaign(campaign):
    """Raise ValueError for what `campaign` asks for and its runs cannot have; the message says what is valid."""
    _check_dataset(campaign.dataset, f"{campaign.name}, [dataset]")
    for label, network in campaign.networks.items():
        _check_network(network, f"{campaign.name}, [networks.{label}]")
    for label, settings in campaign.counts.items():
        _check_count(settings, f"{campaign.name}, [counts.{label}]")
    for experiment in campaign.experiments:
        where = f"{campaign.name}, experiment {experiment.name!r}"
        for kind in ("measure", "evolution_measure"):
            for name in getattr(experiment, f"{kind}s"):
                check_name(f"{kind} in {where}", name, MEASURES)
        _check_overrides(campaign, experiment, where)


def _check_dataset(settings, where):
    # What names a place on this machine is no part of a run.
    check_keys(where, settings, _arguments(load_dataset) - {"device", "data_dir", "root"})
    require("name" in settings, f"{where} has no 'name'")
    _check_types(load_dataset, settings, where)
    with naming(where):
        check_values(**{key: value for key, value in settings.items() if key in _arguments(check_values)})


def _check_network(network, where):
    options = {key: value for key, value in network.items() if key not in ("name", "source_sha256")}
    for key, value in options.items():
        require(key not in _OF_DATASET, f"{where}.{key} cannot be set here: it comes from the dataset")
        require(key != "seed", f"{where}.seed cannot be set here: it is the seed of the run")
        with naming(f"{where}.{key} cannot be kept in a record"):  # such as a date or NaN
            canonical_json(value)
    with naming(where):
        check_network(network["name"], **options)


def _check_count(settings, where):
    check_keys(where, settings, (_arguments(region_count) - {"model", "batch_size", "progress"}) | {"points"})
    check_name(f"points in {where}", settings["points"], ("train", "test"))
    options = {key: value for key, value in settings.items() if key != "points"}
    _check_types(region_count, options, where)
    with naming(where):
        _check_values(**options)


def _check_values(
    dim=1, num_samples=100, sampling="pairs", seed=0, direction_length=None, strategy="grid",
    padding=0.0, resolution=None, adjacency="face", **lattice,
):  # fmt: skip
    """Raise ValueError for what `region_count` would refuse once a network is trained."""
    check_sampling(sampling, dim, num_samples, seed, direction_length)
    check_strategy(strategy, make_lattice(dim, resolution, adjacency=adjacency, **lattice))
    check_number("padding", padding, 0)


def _check_overrides(campaign, experiment, where):
    if experiment.own_draw:
        require("seed" not in experiment.dataset, f"{where}: dataset.seed is the run's seed with own_draw")
    _check_dataset(campaign.dataset | experiment.dataset, f"{where}, dataset")
    for label in experiment.networks:
        require("name" not in experiment.options, f"{where}: options cannot exchange the network")
        _check_network(campaign.networks[label] | experiment.options, f"{where}, [networks.{label}]")


def _check_types(function, settings, where):
    """Raise ValueError for a setting of another type than the argument of `function` has."""
    hints = typing.get_type_hints(function)
    for key, value in settings.items():
        checked_value(value, hints[key], f"{where}.{key}")


def _arguments(function):
    parameters = inspect.signature(function).parameters.values()
    return {p.name for p in parameters if p.kind is not p.VAR_KEYWORD}
