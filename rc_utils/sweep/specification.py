"""What is asked for: a campaign's experiments, the runs they come to, and everything that decides a run's result."""

import contextlib
import dataclasses
import functools
import hashlib
import itertools
import json
import pathlib

import numpy as np

from rc_utils.checks import check_name, settings_from_dict
from rc_utils.training import TrainConfig

SCHEMA = 1
TRAIN_DEFAULTS = dataclasses.asdict(TrainConfig())
_RANGES_STREAM = 1  # second entry of the seed of what a run draws from ranges
# What every table of runs has beside the counts and the measures.
RUN_COLUMNS = (
    *("run_id", "campaign", "experiment", "network", "cell", "origin", "status"),
    *(field.name for field in dataclasses.fields(TrainConfig)),
    *("train_accuracy", "test_accuracy", "train_loss", "test_loss", "gap", "interpolates"),
    *("count", "count_std_error", "seconds_train", "seconds_count"),
)


@dataclasses.dataclass(frozen=True)
class RunSpec:
    """Everything that decides the trained network: dataset, network and training, with the seed."""

    dataset: dict
    network: dict
    train: TrainConfig

    @functools.cached_property
    def run_id(self):
        """Sixteen hexadecimal digits of the SHA-256 of the settings.

        Training settings at their default are left out, so that a new setting with a neutral default renames no run.
        """
        train = {k: v for k, v in dataclasses.asdict(self.train).items() if v != TRAIN_DEFAULTS[k]}
        settings = {"schema": SCHEMA, "dataset": self.dataset, "network": self.network, "train": train}
        return hashlib.sha256(canonical_json(settings).encode()).hexdigest()[:16]


@dataclasses.dataclass(frozen=True)
class PlannedRun:
    """A run together with what the campaign wants to know about it.

    counts, measures: taken after training, settings of counts by name. evolution_*: as in the campaign's file.
    frozen: file of the campaign's frozen records, where there may be one of this run.
    """

    spec: RunSpec
    counts: dict
    measures: tuple
    evolution_epochs: tuple = ()
    evolution_counts: dict = dataclasses.field(default_factory=dict)
    evolution_weights: bool = False
    evolution_loss: float | None = None
    evolution_measures: tuple = ()
    per_image: bool = False
    frozen: pathlib.Path | None = None

    def merged(self, other):
        """The same run with the wishes of both; of two names of a count, or two losses to look at, this one's stay."""
        return dataclasses.replace(
            self,
            counts=_union(self.counts, other.counts),
            measures=tuple(dict.fromkeys(self.measures + other.measures)),
            evolution_epochs=tuple(sorted({*self.evolution_epochs, *other.evolution_epochs})),
            evolution_counts=_union(self.evolution_counts, other.evolution_counts),
            evolution_weights=self.evolution_weights or other.evolution_weights,
            evolution_loss=other.evolution_loss if self.evolution_loss is None else self.evolution_loss,
            evolution_measures=tuple(dict.fromkeys(self.evolution_measures + other.evolution_measures)),
            per_image=self.per_image or other.per_image,
        )


def _union(counts, others):
    return counts | {name: settings for name, settings in others.items() if settings not in counts.values()}


@dataclasses.dataclass(frozen=True)
class Experiment:
    """A grid of cells over networks and seeds; one `[[experiments]]` table.

    seeds: a list for all networks, or a list for each of them: {ResNet18 = [0, 1, 2], SENet18 = [0]}.
    grid: training settings, lists of values of which every combination is run.
    ranges: training settings, (low, high) between which every seed draws a value of its own, log-uniformly; a whole
        number where the setting is one.
    own_draw: whether the seed draws the training images too.
    per_image: whether a record keeps which images of the stored dataset the network gets right, all of the test images
        and all that its training images were drawn from, and the accuracy on those of them that it was not trained on.
    dataset, options, train: what the experiment has otherwise than the campaign's dataset, networks, training.
    """

    name: str
    networks: list[str]
    seeds: list[int] | dict[str, list[int]]
    grid: dict = dataclasses.field(default_factory=dict)
    ranges: dict[str, list[float]] = dataclasses.field(default_factory=dict)
    own_draw: bool = False
    dataset: dict = dataclasses.field(default_factory=dict)
    options: dict = dataclasses.field(default_factory=dict)
    train: dict = dataclasses.field(default_factory=dict)
    counts: list[str] = dataclasses.field(default_factory=lambda: ["main"])
    measures: list[str] = dataclasses.field(default_factory=list)
    evolution_epochs: list[int] = dataclasses.field(default_factory=list)
    evolution_counts: list[str] = dataclasses.field(default_factory=list)
    evolution_weights: bool = False
    evolution_loss: float | None = None
    evolution_measures: list[str] = dataclasses.field(default_factory=list)
    per_image: bool = False

    def seeds_of(self, label):
        """The seeds of one network."""
        return self.seeds[label] if isinstance(self.seeds, dict) else self.seeds

    def seeds_and_networks(self):
        """(seed, network label) pairs, all networks of the first seed first."""
        seeds = dict.fromkeys(seed for label in self.networks for seed in self.seeds_of(label))
        return [(seed, label) for seed in seeds for label in self.networks if seed in self.seeds_of(label)]

    def cells(self):
        """One dict of grid values for every combination, the last key running fastest."""
        return [dict(zip(self.grid, values, strict=True)) for values in itertools.product(*self.grid.values())]

    def drawn(self, seed):
        """The values that a seed draws from the ranges, with three digits."""
        rng, values = np.random.default_rng([seed, _RANGES_STREAM]), {}
        for key, (low, high) in self.ranges.items():
            value = low * (high / low) ** rng.random()
            values[key] = round(value) if isinstance(TRAIN_DEFAULTS[key], int) else float(f"{value:.3g}")
        return values


@dataclasses.dataclass(frozen=True)
class Campaign:
    """A named set of runs; the text of `rc_utils.sweep.campaign` describes its file, whose keys are these fields.

    note: one line that pages show beside every result of the campaign, for instance on the origin of its data.
    choice: how its settings were chosen, and on what; the page of the main results shows it.
    whole: the campaign of which this one has some of the experiments.
    """

    name: str
    title: str
    dataset: dict
    networks: dict[str, dict]
    counts: dict[str, dict]
    experiments: tuple
    train: dict = dataclasses.field(default_factory=dict)
    note: str = ""
    choice: str = ""
    folder: pathlib.Path = pathlib.Path()
    whole: "Campaign | None" = None

    def entries(self):
        """(experiment, network label, PlannedRun) of everything asked for, in order: all cells of a seed first."""
        return iter(self._entries)

    @functools.cached_property
    def _entries(self):
        return tuple(
            (experiment, label, self._plan(experiment, label, cell | experiment.drawn(seed) | {"seed": seed}))
            for experiment in self.experiments
            for (seed, label), cell in itertools.product(experiment.seeds_and_networks(), experiment.cells())
        )

    def runs(self):
        """The distinct runs, by run id, in the order in which they should be done."""
        return dict(self._runs)

    @functools.cached_property
    def _runs(self):
        runs = {}
        for _, _, planned in self.entries():
            key = planned.spec.run_id
            runs[key] = runs[key].merged(planned) if key in runs else planned
        return runs

    def restricted(self, names):
        """The campaign with the experiments of these names alone, and what they ask for."""
        known = {experiment.name: experiment for experiment in self.experiments}
        for name in names:
            check_name(f"experiment of campaign {self.name}", name, known)
        chosen = tuple(e for e in self.experiments if e.name in names)
        return dataclasses.replace(self, experiments=chosen, whole=self.whole or self)

    def to_train(self, run_id):
        """The plan of a run that has to be trained: what else the whole campaign counts during its training is counted
        at once, which later would take another training."""
        planned, everything = self.runs()[run_id], (self.whole or self).runs()[run_id]
        during = [field.name for field in dataclasses.fields(planned) if field.name.startswith("evolution_")]
        return dataclasses.replace(planned, **{name: getattr(everything, name) for name in during})

    def _plan(self, experiment, label, cell):
        train = settings_from_dict(
            TrainConfig, self.train | experiment.train | cell, f"{self.name}, experiment {experiment.name!r}"
        )
        dataset = self.dataset | experiment.dataset
        if experiment.own_draw:
            dataset = dataset | {"seed": cell["seed"]}
        if experiment.per_image and dataset["name"] in ("shapes", "digits", "imagenet"):
            raise ValueError(
                f"{self.name}, experiment {experiment.name!r}: per_image needs a dataset that is stored as a file, "
                f"{dataset['name']!r} is drawn or read from folders"
            )
        return PlannedRun(
            spec=RunSpec(dataset, self.networks[label] | experiment.options, train),
            counts={name: self.counts[name] for name in experiment.counts},
            measures=tuple(experiment.measures),
            evolution_epochs=tuple(experiment.evolution_epochs),
            evolution_counts={name: self.counts[name] for name in experiment.evolution_counts},
            evolution_weights=experiment.evolution_weights,
            evolution_loss=experiment.evolution_loss,
            evolution_measures=tuple(experiment.evolution_measures),
            per_image=experiment.per_image,
            frozen=self.folder / "runs.jsonl",
        )


def canonical_json(value):
    """JSON text that is the same for equal values."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


@contextlib.contextmanager
def naming(where):
    """An error of what is asked for becomes a ValueError that says where it stands."""
    try:
        yield
    except (ValueError, TypeError, ImportError, AttributeError) as error:
        raise ValueError(f"{where}: {error}") from error
