"""Campaign files, campaigns/<name>/campaign.toml, as `Campaign`, and the runs that they ask for.

book/guide/extend.md shows how to write one. A run that several experiments ask for is trained once.
"""

import dataclasses
import functools
import hashlib
import itertools
import json
import os
import pathlib
import tomllib

import numpy as np

from rc_utils.paths import campaigns_dir, project_root
from rc_utils.training.config import TrainConfig
from rc_utils.validation import check_name, naming, require, settings_from_dict, unknown_name

SCHEMA = 1
TRAIN_DEFAULTS = dataclasses.asdict(TrainConfig())


def canonical_json(value):
    """JSON text that is the same for equal values."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


@dataclasses.dataclass(frozen=True)
class RunSpec:
    """Everything that decides the trained network: dataset, network and training, with the seed."""

    dataset: dict
    network: dict
    train: TrainConfig

    @functools.cached_property
    def run_id(self):
        """Sixteen hexadecimal digits of the SHA-256 of the settings.

        Training settings at their default are left out, so that a new one renames no run.
        """
        changed = {k: v for k, v in vars(self.train).items() if v != TRAIN_DEFAULTS[k]}
        settings = {**vars(self), "schema": SCHEMA, "train": changed}
        return hashlib.sha256(canonical_json(settings).encode()).hexdigest()[:16]


@dataclasses.dataclass(frozen=True)
class PlannedRun:
    """A run with what its record has to hold.

    asked: a list for each thing that an experiment may ask for, empty if it does not; counts are
        asked for by their settings. `records.held` has the same keys.
    frozen: file of the campaign's committed records.
    """

    spec: RunSpec
    asked: dict[str, list]
    frozen: pathlib.Path

    def also(self, asked):
        """The run with what another experiment asks of it, or a record holds, as well."""
        both = {}
        for key, items in self.asked.items():
            both[key] = items + [item for item in asked[key] if item not in items]
        losses = both["evolution_loss"]
        fault = f"run {self.spec.run_id} is asked for evolution_loss {losses}, and keeps one"
        require(len(losses) < 2, f"{fault}: give one, or delete the record that has the other")
        return dataclasses.replace(self, asked=both)


@dataclasses.dataclass(frozen=True)
class Experiment:
    """Settings of a grid for some networks and seeds; one `[[experiments]]` table.

    Attributes:
        seeds: a list for all networks, or one for each, {MLP = [0, 1], VGG19 = [0]}; kept as the
            latter.
        grid: lists of training settings, of which every combination is run.
        ranges: training settings, [low, high] between which every seed draws a value of its own,
            log-uniformly; a whole number where the setting is one.
        own_draw: whether the seed of a run draws its images too, training and test images.
        dataset, options, train: what differs from the campaign's dataset, networks, training.
        counts, measures: taken of the trained network, by their names.
        per_image: whether a record keeps which images of the stored dataset are classified right,
            all test images and all that the training images were drawn from, and the accuracy on
            those of them that were not trained on.
        evolution_epochs, evolution_loss: when to look at the network during training: after these
            epochs, and when the training loss first falls below this.
        evolution_counts, evolution_measures: taken then, by their names.
        evolution_weights: whether the networks of these epochs are kept, too.
    """

    name: str
    networks: list[str]
    seeds: list[int] | dict[str, list[int]]
    grid: dict[str, list] = dataclasses.field(default_factory=dict)
    ranges: dict[str, list[float]] = dataclasses.field(default_factory=dict)
    own_draw: bool = False
    dataset: dict = dataclasses.field(default_factory=dict)
    options: dict = dataclasses.field(default_factory=dict)
    train: dict = dataclasses.field(default_factory=dict)
    counts: list[str] = dataclasses.field(default_factory=lambda: ["main"])
    measures: list[str] = dataclasses.field(default_factory=list)
    per_image: bool = False
    evolution_epochs: list[int] = dataclasses.field(default_factory=list)
    evolution_loss: float | None = None
    evolution_counts: list[str] = dataclasses.field(default_factory=list)
    evolution_measures: list[str] = dataclasses.field(default_factory=list)
    evolution_weights: bool = False

    def __post_init__(self):
        if not isinstance(self.seeds, dict):
            object.__setattr__(self, "seeds", dict.fromkeys(self.networks, self.seeds))
        different = sorted(set(self.networks) ^ set(self.seeds))
        require(not different, f"seeds must list each of its networks once, see {different}")
        require("name" not in self.options, "options.name: another network needs a label")
        can_be_met = self.evolution_loss is None or self.evolution_loss > 0
        require(can_be_met, "evolution_loss is not above 0")
        require("seed" not in self.ranges, "ranges.seed cannot be drawn: give it in seeds")
        for key, ends in self.ranges.items():
            fits = len(ends) == 2 and 0 < ends[0] <= ends[1]
            require(fits, f"ranges.{key} is no [low, high] above 0")
        given = {"seed", *self.ranges} & set(self.grid)
        require(not given, f"{given} in grid is set by seeds or ranges")
        lists = {"networks": self.networks}
        lists |= {f"seeds of {label}": values for label, values in self.seeds.items()}
        lists |= {f"grid.{key}": values for key, values in self.grid.items()}
        for where, values in lists.items():
            require(values, f"{where} is empty")
            for i, value in enumerate(values):  # 1 and 1.0 are equal
                require(value not in values[:i], f"{where} has {value!r} twice")
        # Said now, and not after days of training without a look.
        asked = self.evolution_counts or self.evolution_measures or self.evolution_weights
        looks = self.evolution_epochs or self.evolution_loss or not asked
        require(looks, "what evolution_* ask for needs evolution_epochs or evolution_loss")

    def settings(self):
        """(network label, training settings) of every run, all networks of a seed first."""
        seeds = dict.fromkeys(itertools.chain(*self.seeds.values()))
        for seed, label, *values in itertools.product(seeds, self.networks, *self.grid.values()):
            if seed in self.seeds[label]:
                yield label, dict(zip(self.grid, values, strict=True)) | self.drawn(seed)

    def drawn(self, seed):
        """The seed, and the values that it draws from the ranges, rounded to three digits."""
        rng, values = np.random.default_rng([abs(seed), 1]), {"seed": seed}  # TrainConfig checks it
        for key, (low, high) in self.ranges.items():
            value = low * (high / low) ** rng.random()
            is_whole = isinstance(TRAIN_DEFAULTS.get(key), int)
            values[key] = round(value) if is_whole else float(f"{value:.3g}")
        return values


@dataclasses.dataclass(frozen=True)
class Campaign:
    """A named set of runs; the fields but the last three are the keys of its file.

    Attributes:
        experiments: tables in the file, each an `Experiment` once `parse_campaign` has read it.
        note: one line that pages show beside its results, for instance on the origin of its data.
        choice: how its settings were chosen, and on what.
        only: names of the experiments whose runs are meant; empty for all.
    """

    title: str
    dataset: dict
    networks: dict[str, dict]
    counts: dict[str, dict]
    experiments: list[dict]
    train: dict = dataclasses.field(default_factory=dict)
    note: str = ""
    choice: str = ""
    name: str = ""
    folder: pathlib.Path = pathlib.Path()
    only: tuple | list = ()

    def entries(self):
        """(experiment, network label, PlannedRun) of everything asked for, in order."""
        return [entry for entry in self._entries if not self.only or entry[0].name in self.only]

    @functools.cached_property
    def _entries(self):
        entries = []
        for experiment in self.experiments:
            with naming(f"{self.name}, experiment {experiment.name!r}"):
                for label, setting in experiment.settings():
                    network = self.networks[label] | experiment.options
                    planned = self._plan(experiment, network, setting)
                    last = planned.spec.train.epochs
                    outside = sorted({*experiment.evolution_epochs} - {*range(last + 1)})
                    require(not outside, f"evolution_epochs {outside} are not within 0..{last}")
                    entries.append((experiment, label, planned))
        return entries

    def runs(self):
        """The distinct runs by run id, in the order in which they should be done.

        Each asks for all that any experiment asks of it, so that it need not be made twice.
        """
        runs = {}
        for _, _, planned in self._entries:
            key = planned.spec.run_id
            runs[key] = runs[key].also(planned.asked) if key in runs else planned
        return {p.spec.run_id: runs[p.spec.run_id] for _, _, p in self.entries()}

    def experiment(self, name=""):
        """The experiment of that name, by default the first that is meant; else a ValueError."""
        known = {experiment.name: experiment for experiment in self.experiments}
        name = name or [*self.only, *known][0]
        check_name(f"experiment of campaign {self.name}", name, known)
        return known[name]

    def restricted(self, names):
        """The campaign with the runs of the experiments of these names alone."""
        return dataclasses.replace(self, only=[self.experiment(name).name for name in names])

    def plan_network(self, network, experiment="", seed=0, **setting):
        """PlannedRun of another network in place of those of an experiment, by default the first.

        network: arguments of build_network, with its name; they override the experiment's options.
        setting: fields of TrainConfig; those that the grid varies have its first value by default.
        Dataset, training, counts and measures are the experiment's, taken after training alone.
        """
        chosen = self.experiment(experiment)
        first = {key: values[0] for key, values in chosen.grid.items()}
        with naming(f"{self.name}, network {network['name']!r}"):
            setting = first | chosen.drawn(seed) | setting
            planned = self._plan(chosen, chosen.options | network, setting)
        at_the_end = {k: [] if k.startswith("evolution") else v for k, v in planned.asked.items()}
        return dataclasses.replace(planned, asked=at_the_end)

    def _plan(self, experiment, network, setting):
        where = "the training settings (train, grid, ranges)"
        usual = self.train | experiment.train
        require("seed" not in usual, "train.seed has no effect: give it in seeds")
        train = settings_from_dict(TrainConfig, usual | setting, where)
        dataset = self.dataset | experiment.dataset
        if experiment.own_draw:
            require("seed" not in dataset, "dataset.seed has no effect beside own_draw")
            dataset = dataset | {"seed": train.seed}
        asked = {
            "counts": [self.counts[label] for label in experiment.counts],
            "measures": experiment.measures,
            "per_image": [True] if experiment.per_image else [],
            "evolution_epochs": experiment.evolution_epochs,
            "evolution_loss": [experiment.evolution_loss] if experiment.evolution_loss else [],
            "evolution_counts": [self.counts[label] for label in experiment.evolution_counts],
            "evolution_measures": experiment.evolution_measures,
            "evolution_weights": [True] if experiment.evolution_weights else [],
        }
        return PlannedRun(RunSpec(dataset, network, train), asked, self.folder / "runs.jsonl")


def list_campaigns():
    """Names of the campaigns that are there."""
    return sorted(path.parent.name for path in campaigns_dir().glob("*/campaign.toml"))


def load_campaign(name):
    """The campaign of that name, or of the folder that holds a campaign.toml; needs no torch.

    What RC_CAMPAIGNS lacks is looked up in the repository. Raises ValueError for an unknown
    campaign, key or name and a value of a wrong type; the message says which and what is valid.
    """
    given, name, shipped = str(name), str(pathlib.Path(name)), project_root() / "campaigns"
    for folder in (pathlib.Path(name).absolute(), campaigns_dir() / name, shipped / name):
        path = folder / "campaign.toml"
        if os.path.isfile(path):  # pathlib's raises for a name that is too long
            with naming(f"{path} cannot be read as TOML"):
                table = tomllib.loads(path.read_text(encoding="utf-8-sig"))
            return parse_campaign(table, name, folder)
    of_repository = [path.parent.name for path in shipped.glob("*/campaign.toml")]
    raise unknown_name("campaign", given, sorted({*list_campaigns(), *of_repository}))


def parse_campaign(table, name, folder=pathlib.Path()):
    """Campaign from the parsed TOML `table`; raises ValueError as `load_campaign`."""
    own = {"name": name, "folder": folder, "only": ()}
    given = settings_from_dict(Campaign, table, f"campaign {name}", **own)
    networks, counts, experiments = {}, {}, {}
    for label, options in given.networks.items():
        others = {key: value for key, value in options.items() if key != "architecture"}
        require("name" not in others, f"networks.{label}: the key for 'name' is 'architecture'")
        for key, value in options.items():
            with naming(f"networks.{label}, {key}"):
                canonical_json(value)  # no infinity, no date
        network = {"name": options.get("architecture", label)} | others
        require(network not in networks.values(), f"networks.{label}: it is there twice")
        networks[label] = network
    for label, count in given.counts.items():
        taken = f"counts.{label} has the name of a column of standard errors: give it another"
        require(not label.endswith("std_error"), taken)
        defaults, dim = {"points": "train"}, count.get("dim", 1)
        if dim != 1:  # named, so that records stay valid if the default of `region_count` changes
            defaults["adjacency"] = "linear" if dim in (2, 3, 4, 5) else "simplex"
        counts[label] = defaults | count
        for key, value in counts[label].items():
            with naming(f"counts.{label}, {key}"):
                counts[label][key] = json.loads(canonical_json(value))  # as records have it
    require(given.experiments, f"campaign {name}: there are no experiments")
    for values in given.experiments:
        with naming(f"{name}, experiment {values.get('name', len(experiments))!r}"):
            experiment = settings_from_dict(Experiment, values, "experiments")
            require(experiment.name not in experiments, "experiments: the name is there twice")
            known = {"networks": networks, "counts": counts, "evolution_counts": counts}
            for key, names in known.items():
                for label in getattr(experiment, key):
                    check_name(f"name in {key}", label, names)
            made = {canonical_json(networks[n] | experiment.options) for n in experiment.networks}
            same = f"options make one network of several of {experiment.networks}: keep one"
            require(len(made) == len(experiment.networks), same)
        experiments[experiment.name] = experiment
    changes = {"networks": networks, "counts": counts, "experiments": list(experiments.values())}
    return dataclasses.replace(given, choice=given.choice.strip(), **changes)
