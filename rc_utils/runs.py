"""One run from its plan to its record: train, measure, count."""

import contextlib
import dataclasses
import datetime
import functools
import hashlib
import time
import traceback

import numpy as np
import torch

from rc_utils import ledger
from rc_utils.checks import require
from rc_utils.datasets import load_dataset
from rc_utils.files import write_atomically
from rc_utils.measures import MEASURES, UNTRAINED, measure
from rc_utils.networks import build_network
from rc_utils.networks.user_class import source_hash
from rc_utils.provenance import provenance
from rc_utils.regions import region_count
from rc_utils.regions.classifier import NonFiniteScores
from rc_utils.specification import SCHEMA, PlannedRun, canonical_json
from rc_utils.training import StopTraining, evaluate, train, training_layout


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
            f"{ledger.weights_path(spec.run_id)} is missing, damaged, not of the network that was counted, or without "
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
    ledger.check_writable()
    run_id = planned.spec.run_id
    record, _ = ledger.find_records([run_id], planned.frozen).get(run_id, (None, None))
    if record is None or not _can_extend(record, planned, device) or (weights and _kept_weights(record) is None):
        # Another machine may make another network: it is measured and counted as the one on record was.
        planned = planned if record is None else planned.merged(_wishes(record))
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


def _wishes(record):
    """What a record holds, as a plan that asks for it."""
    counts = [c for point in record["evolution"] for c in point["counts"]]
    counts, during = (
        {canonical_json(c["settings"]): c["settings"] for c in entries} for entries in (record["counts"], counts)
    )
    measures = tuple(name for name in record["measures"] if name in MEASURES)
    return PlannedRun(None, counts, measures, tuple(point["epoch"] for point in record["evolution"]), during)


def keep_record(record, weights=None):
    """Write a record to its place, with what lies there of the same network and it has not; returns what was written.

    Another process may have finished the same run in the meantime, for other counts. weights: bytes of its file.
    """
    with ledger.records_lock():
        old = _record_on_disk(record["run_id"])
        record = record if old is None else ledger.merge_records(record, old)
        if weights is not None:
            write_atomically(ledger.weights_path(record["run_id"]), weights)
        ledger.write_record(record)
    return record


def _record_on_disk(run_id):
    """The record of a run made on this machine, or None if there is none or a corrupt one."""
    path = ledger.record_path(run_id)
    try:
        return ledger.read_record(path) if path.exists() else None
    except ledger.CorruptRecord:
        return None


def _kept_weights(record):
    """State dicts of a record's network by epoch, None for the end; None where they are not on this machine, damaged,
    or another network's.

    A record has the hash of its weights; one of an older version that has none must be of the network of the record
    on this machine, with which they were written.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load

    path = ledger.weights_path(record["run_id"])
    live = _record_on_disk(record["run_id"])
    if not path.is_file() or (live is not None and not ledger.same_network(live, record)):
        return None
    content, expected = path.read_bytes(), record["provenance"].get("weights_sha256")
    if live is None if expected is None else expected != _sha256(content):
        return None
    try:
        tensors = load(content)
    except SafetensorError:
        return None
    states = {}
    for key, value in tensors.items():
        # Modules may have a slash in their names, parameters of an epoch begin with its number.
        epoch, slash, name = key.partition("/")
        of_epoch = slash and epoch.isdigit()
        states.setdefault(int(epoch) if of_epoch else None, {})[name if of_epoch else key] = value
    return states


def _sha256(content):
    return hashlib.sha256(content).hexdigest()


def _extend(record, planned, device):
    """The record with the counts and measures that it lacks, none of which needs training."""
    data = dataset_of(planned.spec, device)
    initial = network = network_of(planned.spec, data).to(device)
    if _needs_weights(record, planned):
        network = _network_with(_kept_weights(record)[None], planned.spec, device)
    new = {name: _finite(measure(name, network, initial, data)) for name in _missing_measures(record, planned)}
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
    return [s for s in planned.counts.values() if ledger.find_count(record["counts"], s) is None]


def _needs_training(record, planned):
    if record["status"] != "ok":
        return False
    by_epoch = {point["epoch"]: point["counts"] for point in record["evolution"]}
    return any(
        ledger.find_count(by_epoch.get(epoch, []), settings) is None
        for epoch in planned.evolution_epochs
        for settings in planned.evolution_counts.values()
    )


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
    return ledger.data_sha256(record) in (None, dataset_of(planned.spec, device).provenance["sha256"])


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
        return _evolution_point(network, epoch, data, planned.evolution_counts)

    run = train(
        network_of(spec, data), data, spec.train, device=device, should_stop=should_stop,
        measure=look, measure_epochs=planned.evolution_epochs, **execution,
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
    if run.status != "ok":
        return record, None
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


def _measured(network, planned, data, device):
    initial = network_of(planned.spec, data).to(device) if planned.measures else None
    return {
        "measures": {name: _finite(measure(name, network, initial, data)) for name in planned.measures},
        "counts": [count_regions(network, data, settings) for settings in planned.counts.values()],
    }


def count_regions(network, data, settings):
    """One entry of a record's list of counts: settings, the count of every simplex, evaluations, seconds."""
    started = time.perf_counter()
    arguments = {k: tuple(v) if isinstance(v, list) else v for k, v in settings.items() if k != "points"}
    points = data.x_test if settings["points"] == "test" else data.x_train
    count = region_count(network, points, **arguments)
    return {
        "settings": settings,
        "counts": np.asarray(count.counts).tolist(),
        "num_evaluations": int(count.num_evaluations),
        "seconds": round(time.perf_counter() - started, 3),
    }


def _evolution_point(network, epoch, data, counts):
    train_accuracy = evaluate(network, data.x_train, data.y_train)[1]
    test_accuracy = evaluate(network, data.x_test, data.y_test)[1]
    entries = [count_regions(network, data, settings) for settings in counts.values()]
    return {
        "epoch": epoch,
        "train_accuracy": train_accuracy,
        "test_accuracy": test_accuracy,
        "counts": entries,
    }


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
