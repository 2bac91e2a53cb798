"""Reading and checking what a campaign asks for: campaigns/<name>/campaign.toml -> `Campaign`.

    title = "..."
    [dataset]                       # arguments of load_dataset
    name = "shapes"
    [train]                         # defaults of TrainConfig for every run
    epochs = 30
    [networks.ResNet18]             # label -> arguments of build_network; architecture defaults to the label
    width = 8
    [counts.main]                   # arguments of region_count; points = "train" or "test"; default adjacency "face"
    num_samples = 300
    [[experiments]]                 # in the order in which they are run
    name = "main"
    networks = ["ResNet18"]
    seeds = [0, 1, 2]
    counts = ["main"]
    measures = ["margin"]
    train = { optimizer = "adam" }  # overrides [train]; dataset = { ... } overrides [dataset],
    options = { width = 16 }        # and this the options of its networks
    own_draw = true                 # the seed of a run draws its training images too
    per_image = true                # which images are right is kept, of all that the dataset has
    evolution_epochs = [0, 10, 30]  # looked at during training as well,
    evolution_loss = 0.01           # and when the training loss first falls below this,
    evolution_counts = ["main"]     # with these counts
    evolution_measures = ["margin"] # and measures,
    evolution_weights = true        # and their networks kept, for pictures of them
    [experiments.grid]              # every combination is a setting
    lr = [0.1, 0.01]
    batch_size = [32, 128]
    [experiments.ranges]            # or every seed draws its own, log-uniformly
    lr = [0.001, 0.1]

A run that several experiments ask for is trained once. An unknown key anywhere fails with the nearest valid name.
"""

import collections
import dataclasses
import errno
import pathlib
import tomllib
import warnings

from rc_utils.checks import (
    campaigns_dir,
    check_keys,
    check_name,
    check_number,
    checked_value,
    require,
    settings_from_dict,
    unknown_name,
)
from rc_utils.sweep.specification import RUN_COLUMNS, Campaign, Experiment, naming
from rc_utils.training import TrainConfig


def list_campaigns():
    """Names of the campaigns that are there."""
    return sorted(path.parent.name for path in campaigns_dir().glob("*/campaign.toml"))


def reference_campaigns():
    """The campaigns but for the studies of the protocol, which only their own page looks at, and when complete."""
    return [campaign for campaign in load_campaigns() if not campaign.name.startswith("study-")]


def load_campaigns():
    """Every campaign that can be read; one that cannot is named in a warning and left out."""
    campaigns = []
    for name in list_campaigns():
        try:
            campaigns.append(read_campaign(name))
        except Exception as error:  # whatever a module of the reader's raises
            warnings.warn(f"campaign {name!r} is left out: {error}", stacklevel=2)
    return campaigns


def load_campaign(name):
    """The campaign of that name, or of the folder that holds a campaign.toml, whose path is then its name.

    Raises ValueError for an unknown campaign, key or value; the message says which and what is valid.
    """
    return _checked(read_campaign(name))


def read_campaign(name):
    """`load_campaign` for a reader of records, without a look at what datasets, networks, counts and measures take.

    So that it imports no torch, unless a network is a class of the reader's own.
    """
    name = str(pathlib.Path(name))
    for path in (pathlib.Path(name, "campaign.toml"), campaigns_dir() / name / "campaign.toml"):
        try:
            table = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG):
                raise ValueError(f"{path} cannot be read: {error}") from error
            continue
        except ValueError as error:
            raise ValueError(f"{path} is not valid TOML: {error}") from error
        return _campaign(table, name, path.parent)
    raise unknown_name("campaign", name, list_campaigns())


def parse_campaign(table, name, folder=pathlib.Path()):
    """Campaign from the parsed TOML `table`, every name and value checked."""
    return _checked(_campaign(table, name, folder))


def _checked(campaign):
    from rc_utils.sweep.validation import check_campaign

    check_campaign(campaign)
    return campaign


def _campaign(table, name, folder):
    """Campaign from `table`, its keys, names and numbers checked as far as that needs no torch."""
    where = f"campaign {name}"
    keys = {field.name for field in dataclasses.fields(Campaign)} - {"name", "folder", "whole"}
    check_keys(where, table, keys)
    asked = settings_from_dict(Campaign, table | {"name": name, "folder": folder}, where)
    require(asked.experiments, f"{where} has no experiments")
    settings_from_dict(TrainConfig, asked.train, f"{name}, [train]")
    campaign = dataclasses.replace(
        asked,
        choice=asked.choice.strip(),
        networks={label: _network(label, options, name) for label, options in asked.networks.items()},
        counts={label: {"points": "train"} | settings for label, settings in asked.counts.items()},
        experiments=tuple(
            settings_from_dict(Experiment, e, f"{name}, [[experiments]] {i}") for i, e in enumerate(asked.experiments)
        ),
    )
    for experiment in campaign.experiments:
        _check_experiment(campaign, experiment, f"{name}, experiment {experiment.name!r}")
    # Builds every TrainConfig, which checks every value of every grid.
    losses = {}
    for experiment, _, planned in campaign.entries():
        loss, epochs = planned.evolution_loss, planned.spec.train.epochs
        outside = [epoch for epoch in planned.evolution_epochs if not 0 <= epoch <= epochs]
        where = f"{name}, experiment {experiment.name!r}"
        require(not outside, f"{where}: evolution_epochs {outside} are not within 0..{epochs}")
        first = loss if loss is None else losses.setdefault(planned.spec.run_id, loss)
        require(loss == first, f"{where}: evolution_loss {loss} of a run of which another experiment asks for {first}")
    return campaign


def _network(label, options, campaign):
    where = f"{campaign}, [networks.{label}]"
    require("name" not in options, f"{where}.name cannot be set here: the key is architecture")
    name = checked_value(options.get("architecture", label), str, f"{where}.architecture")
    network = {"name": name} | {key: value for key, value in options.items() if key != "architecture"}
    if ":" in name:
        from rc_utils.networks.user_class import source_hash

        with naming(where):
            network["source_sha256"] = source_hash(name)  # An edited network is another network.
    return network


def _check_experiment(campaign, experiment, where):
    require([e.name for e in campaign.experiments].count(experiment.name) == 1, f"{where} is there twice")
    for kind, names, valid in (
        ("network", experiment.networks, campaign.networks),
        ("count", experiment.counts, campaign.counts),
        ("evolution_count", experiment.evolution_counts, campaign.counts),
    ):
        for name in names:
            check_name(f"{kind} in {where}", name, valid)
    for name in experiment.measures + experiment.evolution_measures:
        taken = name in RUN_COLUMNS or name.startswith("count_")
        require(not taken, f"{where}: measure {name!r} has the name of another column: give it its own")
    _check_seeds(experiment, where)
    looked_at = experiment.evolution_epochs or experiment.evolution_loss is not None
    for key in ("evolution_weights", "evolution_counts", "evolution_measures"):
        needless = getattr(experiment, key) and not looked_at
        require(not needless, f"{where}: {key} goes with evolution_epochs or evolution_loss, and there is neither")
    if experiment.evolution_loss is not None:
        check_number(f"{where}: evolution_loss", experiment.evolution_loss, 0, above=True)
    check_keys(f"{where}: grid", experiment.grid, [field.name for field in dataclasses.fields(TrainConfig)])
    for key, values in experiment.grid.items():
        require(isinstance(values, list) and values, f"{where}: grid.{key} must be a non-empty list")
        _check_distinct(values, f"{where}: grid.{key}")
    _check_distinct(experiment.networks, f"{where}: networks")
    settings = campaign.train | experiment.train | experiment.grid | experiment.ranges
    require("seed" not in settings, f"{where}: 'seed' cannot be set here, use seeds")
    _check_ranges(experiment, where)


def _check_seeds(experiment, where):
    if isinstance(experiment.seeds, dict):
        missing = set(experiment.networks) ^ set(experiment.seeds)
        require(not missing, f"{where}: seeds must list each of its networks once, see {sorted(missing)}")
    seeds_of = {label: experiment.seeds_of(label) for label in experiment.networks}
    require(seeds_of and all(seeds_of.values()), f"{where} needs at least one network and one seed")
    for label, seeds in seeds_of.items():
        require(min(seeds) >= 0 and max(seeds) < 2**63, f"{where}: seeds must be in 0..2^63 - 1")
        _check_distinct(seeds, f"{where}: seeds of {label}")


def _check_distinct(values, where):
    value, number = collections.Counter(map(repr, values)).most_common(1)[0]
    require(number == 1, f"{where} has {value} twice")


def _check_ranges(experiment, where):
    numbers = {f.name for f in dataclasses.fields(TrainConfig) if isinstance(f.default, int | float)}
    check_keys(f"{where}: ranges", experiment.ranges, numbers)
    for key, ends in experiment.ranges.items():
        rising = len(ends) == 2 and 0 < ends[0] < ends[1]
        require(rising, f"{where}: ranges.{key} must be [low, high] with 0 < low < high, got {ends!r}")
        require(key not in experiment.grid, f"{where}: {key} is in grid and in ranges")
