"""One run from its plan to its record: train, measure, count."""

import contextlib
import dataclasses
import datetime
import functools
import hashlib
import itertools
import time
import traceback

import numpy as np
import torch

from rc_utils.checks import require
from rc_utils.datasets import load_dataset
from rc_utils.files import write_atomically
from rc_utils.measures import MEASURES, UNTRAINED, measure_all
from rc_utils.networks import build_network
from rc_utils.networks.user_class import source_hash
from rc_utils.regions import predict_labels, region_count, sample_vertices
from rc_utils.regions.classifier import NonFiniteScores
from rc_utils.sweep import records
from rc_utils.sweep.provenance import provenance
from rc_utils.sweep.specification import SCHEMA, PlannedRun, canonical_json
from rc_utils.training import StopTraining, evaluate, train
from rc_utils.training.loop import training_layout

NUM_PREDICTIONS = 2000  # test images of which a record keeps the predicted label


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a planned run ended: status "done" with its record, "late", or "failed" with the error's text."""

    run_id: str
    status: str
    record: dict | None = None
    error: str = ""


@dataclasses.dataclass(frozen=True)
class Job:
    """What a process does with one planned run.

    deadline: time.time() after which no run is begun and a run in progress is given up; None for no limit.
    execution: `compile` of `train`.
    """

    device: str = "cpu"
    threads: int = 1
    deadline: float | None = None
    execution: dict = dataclasses.field(default_factory=dict)

    def __call__(self, planned):
        """The Outcome of the run; an error in it is an outcome, too."""
        run_id = planned.spec.run_id
        if self._late():
            return Outcome(run_id, "late")
        try:
            with torch_threads(self.threads):
                return Outcome(run_id, "done", complete_run(planned, self.device, self._late, **self.execution))
        except StopTraining:
            return Outcome(run_id, "late")
        except Exception:
            settings = canonical_json(planned.spec.as_dict())
            return Outcome(run_id, "failed", error=f"{traceback.format_exc()}settings: {settings}")

    def _late(self):
        return self.deadline is not None and time.time() > self.deadline


@contextlib.contextmanager
def torch_threads(number):
    """So many torch threads inside the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@functools.lru_cache(maxsize=2)
def _dataset(settings, device):
    return load_dataset(**dict(settings), device=device)


def dataset_of(spec, device="cpu"):
    """The dataset of a run, kept for the next run of this process that uses the same."""
    settings = {k: tuple(v) if isinstance(v, list) else v for k, v in spec.dataset.items()}
    return _dataset(tuple(sorted(settings.items())), str(device))


def network_of(spec, data):
    """The untrained network of a run. Raises ValueError if it is a user's and its file is not the one of the plan."""
    asked_for = spec.network.get("source_sha256")
    require(
        asked_for is None or source_hash(spec.network["name"]) == asked_for,
        f"the file of network {spec.network['name']!r} is not the one that the campaign was loaded with: load it again",
    )
    options = {k: v for k, v in spec.network.items() if k not in ("name", "source_sha256")}
    network = build_network(
        spec.network["name"],
        num_classes=data.num_classes,
        in_channels=data.in_channels,
        image_size=data.image_size,
        seed=spec.train.seed,
        **options,
    )
    return network.to(memory_format=training_layout(network, data.x_train, data.y_train.device))


def trained_network(spec, device="cpu"):
    """The trained network of a run that was made on this machine, from its kept weights.

    Raises FileNotFoundError if they are missing, damaged, or not those of the run's record.
    """
    return networks_during_training(spec, [None], device)[None]


def networks_during_training(spec, epochs, device="cpu"):
    """{epoch: network} from the weights kept of a run that was made on this machine, with `evolution_weights`.

    epochs: None stands for the end. Raises FileNotFoundError as `trained_network`, where a run diverged, and where an
    epoch is not kept.
    """
    record = _record_on_disk(spec.run_id) or {"run_id": spec.run_id, "provenance": {}}
    if record.get("status") == "diverged":
        raise FileNotFoundError(f"run {spec.run_id} diverged: no weights of it are kept")
    states = _kept_weights(record) or {}
    if not set(epochs) <= set(states):
        raise FileNotFoundError(
            f"{records.weights_path(spec.run_id)} is missing, damaged, not of the network that was counted, or without "
            f"one of the epochs: complete_run(planned, weights=True) trains run {spec.run_id} again"
        )
    return {epoch: _network_with(states[epoch], spec, device) for epoch in epochs}


def _network_with(state, spec, device):
    network = network_of(spec, dataset_of(spec, device))
    network.load_state_dict(state)
    return network.to(device).eval()


def complete_run(planned, device="cpu", should_stop=None, *, weights=False, **execution):
    """Make what is missing of a planned run and return its record, written to its place.

    A new count or measure of a network whose weights are kept is taken without training; anything else that is missing
    trains again, which on the same kind of CPU gives the same network. What is known of the run already, on
    this machine or from the campaign's frozen records, stays. Where a measure or a count of a new run raises an error,
    its training is kept.
    weights: train again where the weights are not kept, even if the record lacks nothing.
    execution: `compile` of `train`.
    """
    records.check_writable()
    run_id = planned.spec.run_id
    record, _ = records.find_records([run_id], planned.frozen).get(run_id, (None, None))
    if record is None or not _can_extend(record, planned, device) or (weights and _kept_weights(record) is None):
        # Another machine may make another network: it is measured and counted as the one on record was.
        planned = planned if record is None else planned.merged(_wishes(record))
        check_before_training(planned, device)
        rescue = keep_record if record is None else None
        new, content = train_run(planned, device, should_stop, rescue, **execution)
        if record is not None and record["status"] == "ok" != new["status"]:
            raise RuntimeError(
                f"run {run_id} diverged when it was trained again on this machine: its record is kept, and what it "
                "lacks can be made on a machine like the one that it names"
            )
        return keep_record(new, content)
    if not is_complete(record, planned):
        record = _extend(record, planned, device)
    return keep_record(record)


def check_before_training(planned, device="cpu"):
    """Raise ValueError for a count that the data do not allow, OSError where the weights will not fit on the disk."""
    data = dataset_of(planned.spec, device)
    for name, settings in [*planned.counts.items(), *planned.evolution_counts.items()]:
        draw = {key: settings[key] for key in ("dim", "sampling", "seed", "direction_length") if key in settings}
        try:
            sample_vertices(_points(data, settings), num_samples=1, **draw)
        except ValueError as error:
            raise ValueError(f"count {name!r}: {error}") from error
    tensors = network_of(planned.spec, data).state_dict().values()
    kept = 1 + len(planned.evolution_epochs) * planned.evolution_weights
    records.check_writable(kept * sum(tensor.numel() * tensor.element_size() for tensor in tensors))


def _wishes(record):
    """What a record holds, as a plan that asks for it."""
    reached = record.get("reached") or {}
    during = [count for point in record["evolution"] for count in point["counts"]]
    return PlannedRun(
        spec=None,
        counts=_by_settings(record["counts"]),
        measures=_known_measures(record),
        evolution_epochs=tuple(p["epoch"] for p in record["evolution"] if p["epoch"] != reached.get("epoch")),
        evolution_counts=_by_settings(during),
        evolution_loss=reached.get("loss"),
        evolution_measures=tuple(dict.fromkeys(itertools.chain(*map(_known_measures, record["evolution"])))),
    )


def _by_settings(entries):
    return {canonical_json(entry["settings"]): entry["settings"] for entry in entries}


def _known_measures(record):
    """Names of the measures in a record, or at one of its epochs, that this version can take."""
    return tuple(name for name in record.get("measures", ()) if name in MEASURES)


def keep_record(record, weights=None):
    """Write a record to its place, with what lies there of the same network and it has not; returns what was written.

    Another process may have finished the same run in the meantime, for other counts. weights: bytes of its file.
    """
    with records.records_lock():
        old = _record_on_disk(record["run_id"])
        record = record if old is None else records.merge_records(record, old)
        if weights is not None:
            write_atomically(records.weights_path(record["run_id"]), weights)
        records.write_record(record)
    return record


def _record_on_disk(run_id):
    """The record of a run made on this machine, or None if there is none or a corrupt one."""
    path = records.record_path(run_id)
    try:
        return records.read_record(path) if path.exists() else None
    except records.CorruptRecord:
        return None


def _kept_weights(record):
    """State dicts of a record's network by epoch, None for the end; None where they are not on this machine, damaged,
    or another network's.

    A record has the hash of its weights; one of an older version that has none must be of the network of the record
    on this machine, with which they were written.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load

    path = records.weights_path(record["run_id"])
    live = _record_on_disk(record["run_id"])
    if not path.is_file() or (live is not None and not records.same_network(live, record)):
        return None
    content, expected = path.read_bytes(), record["provenance"].get("weights_sha256")
    if expected is None and live is None:
        return None
    if expected is not None and expected != _sha256(content):
        return None
    try:
        tensors = load(content)
    except SafetensorError:
        return None
    states = {}
    for key, value in tensors.items():
        # Modules may have a slash in their names, parameters of an epoch begin with its number.
        epoch, slash, name = key.partition("/")
        if slash and epoch.isdigit():
            states.setdefault(int(epoch), {})[name] = value
        else:
            states.setdefault(None, {})[key] = value
    return states


def _sha256(content):
    return hashlib.sha256(content).hexdigest()


def _extend(record, planned, device):
    """The record with the counts and measures that it lacks, none of which needs training."""
    data = dataset_of(planned.spec, device)
    initial = network = network_of(planned.spec, data).to(device)
    if _needs_weights(record, planned):
        network = _network_with(_kept_weights(record)[None], planned.spec, device)
    values = measure_all(_missing_measures(record, planned), network, initial, data)
    new = {name: _finite(value) for name, value in values.items()}
    counts = [count_regions(network, data, settings) for settings in missing_counts(record, planned)]
    return record | {"measures": record["measures"] | new, "counts": record["counts"] + counts}


def is_complete(record, planned):
    """Whether `record` holds everything that `planned` asks for."""
    return not (
        missing_counts(record, planned) or _missing_measures(record, planned) or _needs_training(record, planned)
    )


def missing_counts(record, planned):
    """Settings of the counts that `planned` asks for and `record` does not have; none for a diverged run."""
    if record["status"] != "ok":
        return []
    return [s for s in planned.counts.values() if records.find_count(record["counts"], s) is None]


def _needs_training(record, planned):
    if record["status"] != "ok":
        return False
    epochs, reached = list(planned.evolution_epochs), record.get("reached") or {}
    if planned.evolution_loss is not None:
        if reached.get("loss") != planned.evolution_loss:
            return True
        epochs += [reached["epoch"]] if reached["epoch"] is not None else []
    points = {point["epoch"]: point for point in record["evolution"]}
    return any(_lacks(points.get(epoch, {}), planned) for epoch in epochs)


def _lacks(point, planned):
    """Whether an epoch of a record lacks a count or a measure that `planned` asks for during training."""
    counts = [records.find_count(point.get("counts", []), settings) for settings in planned.evolution_counts.values()]
    return None in counts or not set(planned.evolution_measures) <= set(point.get("measures", ()))


def _needs_weights(record, planned):
    return bool(missing_counts(record, planned)) or not set(_missing_measures(record, planned)) <= set(UNTRAINED)


def _missing_measures(record, planned):
    if record["status"] != "ok":
        return []
    return [name for name in planned.measures if name not in record["measures"]]


def _can_extend(record, planned, device):
    if _needs_training(record, planned):
        return False
    if not _needs_weights(record, planned):
        return True
    return _kept_weights(record) is not None and has_same_data(record, planned, device)


def has_same_data(record, planned, device="cpu"):
    """Whether the data of a run are, by their hash, those that its record was made with; True if it does not say."""
    return records.data_sha256(record) in (None, dataset_of(planned.spec, device).provenance["sha256"])


def train_run(planned, device="cpu", should_stop=None, rescue=None, **execution):
    """Train, measure and count one run without writing anything.

    Returns its record and its weights, the bytes of a safetensors file in which a name begins with "<epoch>/" where it
    is not of the end; None for a diverged run.
    rescue: called with the two, the record as training left it, where a measure or a count raises an error.
    """
    spec, started = planned.spec, datetime.datetime.now(datetime.UTC)
    data, states = dataset_of(spec, device), {}

    def look(network, epoch):
        if planned.evolution_weights:
            states[epoch] = _state(network)
        return _evolution_point(network, epoch, data, planned)

    run = train(
        network_of(spec, data), data, spec.train, device=device, should_stop=should_stop, measure=look,
        measure_epochs=planned.evolution_epochs, measure_loss=planned.evolution_loss, **execution,
    )  # fmt: skip
    record = {
        "schema": SCHEMA,
        "run_id": spec.run_id,
        "spec": spec.as_dict(),
        "status": run.status,
        "results": {
            "train_accuracy": run.train_accuracy,
            "test_accuracy": run.test_accuracy,
            "train_loss": _finite(run.train_loss),
            "test_loss": _finite(run.test_loss),
        },
        "history": [{k: _finite(v) for k, v in row.items()} for row in run.history],
        "measures": {},
        "counts": [],
        "evolution": list(run.measurements.values()),
        "provenance": provenance(data, device, started, run.seconds, execution),
    }
    if planned.evolution_loss is not None:
        record["reached"] = {"loss": planned.evolution_loss, "epoch": run.reached_epoch}
    if run.status != "ok":
        return record, None
    record["results"] |= _true_accuracy(run.network, data)
    record["predictions"] = _predictions(run.network, data)
    weights = _weights(states | {None: _state(run.network)})
    trained = record | {"provenance": record["provenance"] | {"weights_sha256": _sha256(weights)}}
    try:
        return trained | _measured(run.network, planned, data, device), weights
    except NonFiniteScores:
        return record | {"status": "diverged"}, None
    except Exception:
        if rescue is not None:
            rescue(trained, weights)
        raise


def _true_accuracy(network, data):
    """The accuracy on the labels before label noise, where there is some."""
    if data.y_train_true is None:
        return {}
    return {"train_accuracy_true_labels": evaluate(network, data.x_train, data.y_train_true)[1]}


def _predictions(network, data):
    """The predicted labels of the first test images, as text: how networks disagree can be told from records."""
    return _as_text(predict_labels(network, data.x_test[:NUM_PREDICTIONS]).tolist())


def _as_text(labels):
    """A character for each label: the digits, and after 9 those that follow them in Unicode."""
    return "".join(chr(ord("0") + label) for label in labels)


def _measured(network, planned, data, device):
    return {
        "measures": _measures(network, planned.measures, planned.spec, data, device),
        "counts": [count_regions(network, data, settings) for settings in planned.counts.values()],
    }


def _measures(network, names, spec, data, device):
    initial = network_of(spec, data).to(device) if names else None
    values = measure_all(names, network, initial, data)
    return {name: _finite(value) for name, value in values.items()}


def count_regions(network, data, settings):
    """One entry of a record's list of counts: settings, the count of every simplex, evaluations, seconds.

    labels: of segments, the labels of each one's regions as text, a character a region.
    """
    started = time.perf_counter()
    arguments = {k: tuple(v) if isinstance(v, list) else v for k, v in settings.items() if k != "points"}
    # What a campaign's counts mean without a word on it; `region_count` has another default.
    arguments.setdefault("adjacency", "face")
    count = region_count(network, _points(data, settings), **arguments)
    labels = {} if count.labels is None else {"labels": [_as_text(of.tolist()) for of in count.labels]}
    return {
        "settings": settings,
        "counts": np.asarray(count.counts).tolist(),
        "num_evaluations": int(count.num_evaluations),
        "seconds": round(time.perf_counter() - started, 3),
        **labels,
    }


def _points(data, settings):
    return data.x_test if settings["points"] == "test" else data.x_train


def _evolution_point(network, epoch, data, planned):
    train_loss, train_accuracy = evaluate(network, data.x_train, data.y_train)
    test_accuracy = evaluate(network, data.x_test, data.y_test)[1]
    point = {
        "epoch": epoch,
        "train_accuracy": train_accuracy,
        "test_accuracy": test_accuracy,
        "train_loss": _finite(train_loss),
        "counts": [count_regions(network, data, settings) for settings in planned.evolution_counts.values()],
    }
    if planned.evolution_measures:
        point["measures"] = _measures(network, planned.evolution_measures, planned.spec, data, data.device)
    return point


def _state(network):
    # Cloned, because training goes on, and safetensors refuses parameters that share memory.
    return {name: value.detach().cpu().clone().contiguous() for name, value in network.state_dict().items()}


def _weights(states):
    from safetensors.torch import save

    prefixes = {epoch: "" if epoch is None else f"{epoch}/" for epoch in states}
    return save({prefixes[epoch] + name: value for epoch, state in states.items() for name, value in state.items()})


def _finite(value):
    """JSON has no infinities: a value that is not finite becomes its name."""
    return value if not isinstance(value, float) or np.isfinite(value) else str(value)
