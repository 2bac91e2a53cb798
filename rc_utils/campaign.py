"""Reading and checking what a campaign asks for: campaigns/<name>/campaign.toml -> `Campaign`.

    title = "..."
    [dataset]                       # arguments of load_dataset
    name = "shapes"
    [train]                         # defaults of TrainConfig for every run
    epochs = 30
    [networks.ResNet18]             # label -> arguments of build_network; architecture defaults to the label
    width = 8
    [counts.main]                   # arguments of region_count; points = "train" or "test"
    num_samples = 300
    [[experiments]]                 # in the order in which they are run
    name = "main"
    networks = ["ResNet18"]
    seeds = [0, 1, 2]
    counts = ["main"]
    measures = ["margin"]
    train = { optimizer = "adam" }  # overrides [train]
    evolution_epochs = [0, 10, 30]  # looked at during training as well,
    evolution_counts = ["main"]     # with these counts,
    evolution_weights = true        # and their networks kept, for pictures of them
    [experiments.grid]              # every combination is a cell
    lr = [0.1, 0.01]
    batch_size = [32, 128]

A run that several experiments ask for is trained once. An unknown key anywhere fails with the nearest valid name.
"""

import inspect
import itertools
import pathlib
import tomllib
import typing
import warnings

from rc_utils.checks import check_keys, check_number, checked_value, require, settings_from_dict, unknown_name
from rc_utils.datasets.load import check_values, load_dataset
from rc_utils.measures import MEASURES
from rc_utils.networks import check_network
from rc_utils.networks.registry import SHAPE_ARGUMENTS
from rc_utils.networks.user_class import source_hash
from rc_utils.paths import campaigns_dir
from rc_utils.regions import make_lattice, region_count
from rc_utils.regions.count import STRATEGIES
from rc_utils.regions.sampling import check_sampling
from rc_utils.specification import RUN_COLUMNS, Campaign, Experiment, canonical_json
from rc_utils.training import TrainConfig

# Keys that are no options of a network, and where they come from.
_NOT_OPTIONS = {
    "name": "the key is architecture",
    **{key: "it comes from the dataset" for key in SHAPE_ARGUMENTS if key != "width"},
}


def list_campaigns():
    """Names of the campaigns that are there."""
    return sorted(path.parent.name for path in campaigns_dir().glob("*/campaign.toml"))


def load_campaigns():
    """Every campaign that can be read; one that cannot is named in a warning and left out."""
    campaigns = []
    for name in list_campaigns():
        try:
            campaigns.append(load_campaign(name))
        except Exception as error:  # whatever a module of the reader's raises
            warnings.warn(f"campaign {name!r} is left out: {error}", stacklevel=2)
    return campaigns


def load_campaign(name):
    """The campaign of that name, or of the folder that holds a campaign.toml, whose path is then its name.

    Raises ValueError for an unknown campaign, key or value; the message says which and what is valid.
    """
    name = str(pathlib.Path(name))
    folder = pathlib.Path(name) if pathlib.Path(name, "campaign.toml").is_file() else campaigns_dir() / name
    if not (folder / "campaign.toml").is_file():
        raise unknown_name("campaign", name, list_campaigns())
    try:
        table = tomllib.loads((folder / "campaign.toml").read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{folder / 'campaign.toml'} is not valid TOML: {error}") from error
    return parse_campaign(table, name, folder)


def parse_campaign(table, name, folder=pathlib.Path()):
    """Campaign from the parsed TOML `table`, every name and value checked."""
    sections = {"title", "note", "choice", "dataset", "train", "networks", "counts", "experiments"}
    check_keys(f"campaign {name}", table, sections)
    for section in ("title", "dataset", "networks", "counts", "experiments"):
        require(section in table, f"campaign {name} has no {section!r}")
    for section, kind in {"title": str, "note": str, "choice": str, "dataset": dict, "networks": dict, "counts": dict,
                          "train": dict, "experiments": list}.items():  # fmt: skip
        require(
            isinstance(table.get(section, kind()), kind),
            f"campaign {name}: {section} must be a {kind.__name__}",
        )
    require(table["experiments"], f"campaign {name} has no experiments")
    _check_dataset(table["dataset"], f"{name}, [dataset]")
    settings_from_dict(TrainConfig, table.get("train", {}), f"{name}, [train]")
    campaign = Campaign(
        name=name,
        title=table["title"],
        note=table.get("note", ""),
        choice=table.get("choice", "").strip(),
        dataset=table["dataset"],
        networks={label: _network(label, options, name) for label, options in table["networks"].items()},
        counts={label: _count(label, options, name) for label, options in table["counts"].items()},
        experiments=tuple(
            settings_from_dict(Experiment, e, f"{name}, [[experiments]] {i}")
            for i, e in enumerate(table["experiments"])
        ),
        train=table.get("train", {}),
        folder=folder,
    )
    _check_experiments(campaign)
    return campaign


def _check_dataset(settings, where):
    # What names a place on this machine is no part of a run.
    check_keys(where, settings, _arguments(load_dataset) - {"device", "data_dir", "root"})
    require("name" in settings, f"{where} has no 'name'")
    _check_types(load_dataset, settings, where)
    try:
        check_values(**{key: value for key, value in settings.items() if key in _arguments(check_values)})
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error
    require(settings.get("classes") != [], f"{where}.classes is empty; expected at least two names, or leave it out")


def _network(label, options, campaign):
    where = f"{campaign}, [networks.{label}]"
    require(isinstance(options, dict), f"{where} must be a table")
    for key, value in options.items():
        require(key not in _NOT_OPTIONS, f"{where}.{key} cannot be set here: {_NOT_OPTIONS.get(key)}")
        _check_json(value, f"{where}.{key}")
    checked_value(options.get("architecture", label), str, f"{where}.architecture")
    network = {"name": options.get("architecture", label)}
    network |= {k: v for k, v in options.items() if k != "architecture"}
    try:
        check_network(network["name"], **{k: v for k, v in network.items() if k != "name"})
    except (ValueError, TypeError, ImportError, AttributeError) as error:
        raise ValueError(f"{where}: {error}") from error
    if ":" in network["name"]:
        # An edited network is another network.
        network["source_sha256"] = source_hash(network["name"])
    return network


def _count(label, options, campaign):
    where = f"{campaign}, [counts.{label}]"
    require(isinstance(options, dict), f"{where} must be a table")
    check_keys(where, options, (_arguments(region_count) - {"model", "batch_size"}) | {"points"})
    points = options.get("points", "train")
    if points not in ("train", "test"):
        raise unknown_name(f"points in {where}", points, ("train", "test"))
    _check_types(region_count, {k: v for k, v in options.items() if k != "points"}, where)
    try:
        _check_count(**options)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error
    return {"points": points} | options


def _check_count(
    points="train", dim=1, num_samples=100, sampling="pairs", seed=0, direction_length=None, strategy="grid",
    padding=0.0, resolution=None, **lattice,
):  # fmt: skip
    """Raise ValueError for what `region_count` would refuse once a network is trained."""
    check_sampling(sampling, dim, num_samples, seed, direction_length)
    make_lattice(dim, resolution, **lattice)
    check_number("padding", padding, 0)
    if strategy not in STRATEGIES:
        raise unknown_name("strategy", strategy, STRATEGIES)


def _check_types(function, settings, where):
    """Raise ValueError for a setting of another type than the argument of `function` has."""
    hints = typing.get_type_hints(function)
    for key, value in settings.items():
        checked_value(value, hints[key], f"{where}.{key}")


def _check_json(value, where):
    """Raise ValueError for a value that no record can hold, such as a date or NaN."""
    try:
        canonical_json(value)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{where} cannot be kept in a record: {error}") from error


def _check_experiments(campaign):
    seen = set()
    for experiment in campaign.experiments:
        where = f"{campaign.name}, experiment {experiment.name!r}"
        require(experiment.name not in seen, f"{where} is there twice")
        seen.add(experiment.name)
        for kind, names, valid in (
            ("network", experiment.networks, campaign.networks),
            ("count", experiment.counts, campaign.counts),
            ("evolution_count", experiment.evolution_counts, campaign.counts),
            ("measure", experiment.measures, MEASURES),
        ):
            for name in names:
                if name not in valid:
                    raise unknown_name(f"{kind} in {where}", name, valid)
        taken = [name for name in experiment.measures if name in RUN_COLUMNS or name.startswith("count_")]
        require(not taken, f"{where}: measure {taken and taken[0]!r} has the name of another column: give it its own")
        if isinstance(experiment.seeds, dict):
            missing = set(experiment.networks) ^ set(experiment.seeds)
            require(not missing, f"{where}: seeds must list each of its networks once, see {sorted(missing)}")
        seeds = [experiment.seeds_of(label) for label in experiment.networks]
        require(seeds and all(seeds), f"{where} needs at least one network and one seed")
        for seed in itertools.chain(*seeds):
            require(0 <= seed < 2**63, f"{where}: seeds must be in 0..2^63 - 1, got {seed}")
        kept = not experiment.evolution_weights or experiment.evolution_epochs
        require(kept, f"{where}: evolution_weights keeps the networks of evolution_epochs, of which there are none")
        in_between = not experiment.evolution_counts or experiment.evolution_epochs
        require(in_between, f"{where}: evolution_counts are taken at evolution_epochs, of which there are none")
        for key, values in experiment.grid.items():
            require(isinstance(values, list) and values, f"{where}: grid.{key} must be a non-empty list")
        lists = {"networks": experiment.networks, **{f"grid.{k}": v for k, v in experiment.grid.items()}}
        lists |= {f"seeds of {label}": experiment.seeds_of(label) for label in experiment.networks}
        for key, values in lists.items():
            twice = [v for i, v in enumerate(values) if v in values[:i]]
            require(not twice, f"{where}: {key} has {twice and twice[0]!r} twice")
        require(
            "seed" not in campaign.train | experiment.train | experiment.grid,
            f"{where}: 'seed' cannot be set here, use seeds",
        )
    # Builds every TrainConfig, which checks every value of every grid.
    for experiment, _, planned in campaign.entries():
        epochs = planned.spec.train.epochs
        outside = [epoch for epoch in planned.evolution_epochs if not 0 <= epoch <= epochs]
        require(
            not outside,
            f"{campaign.name}, experiment {experiment.name!r}: evolution_epochs {outside} are not within 0..{epochs}",
        )


def _arguments(function):
    parameters = inspect.signature(function).parameters.values()
    return {p.name for p in parameters if p.kind is not p.VAR_KEYWORD}
