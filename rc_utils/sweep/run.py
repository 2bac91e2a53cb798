"""One run from its plan to its record: train, measure, count."""

import dataclasses
import datetime
import functools
import hashlib
import time

import numpy as np

from rc_utils.checks import require
from rc_utils.counting import predict_labels, region_count
from rc_utils.counting.classifier import NonFiniteScores
from rc_utils.datasets import load_dataset
from rc_utils.measures import measure_all
from rc_utils.networks import build_network
from rc_utils.networks.user_class import source_hash
from rc_utils.sweep import records
from rc_utils.sweep.knowledge import data_sha256, find_count, is_complete, needs_training, wishes
from rc_utils.sweep.provenance import provenance
from rc_utils.sweep.specification import SCHEMA
from rc_utils.sweep.weights import keep_record, kept_weights, packed_weights, record_on_disk, state_of
from rc_utils.training import evaluate, train
from rc_utils.training.loop import training_layout

NUM_PREDICTIONS = 2000  # test images of which a record keeps the predicted label


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
    record = record_on_disk(spec.run_id) or {"run_id": spec.run_id, "provenance": {}}
    if record.get("status") == "diverged":
        raise FileNotFoundError(f"run {spec.run_id} diverged: no weights of it are kept")
    states = kept_weights(record) or {}
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


def complete_run(planned, device="cpu", should_stop=None, *, weights=False, compile=False):
    """Make what is missing of a planned run and return its record, written to its place.

    A new count or measure of a network whose weights are kept is taken without training; anything else that is missing
    trains again, which on the same kind of CPU gives the same network. What is known of the run already, on
    this machine or from the campaign's frozen records, stays. Where a measure or a count of a new run raises an error,
    its training is kept.
    weights: train again where the weights are not kept, even if the record lacks nothing.
    compile: of `train`.
    """
    run_id = planned.spec.run_id
    record, _ = records.find_records([run_id], planned.frozen).get(run_id, (None, None))
    if record is None:
        _check_space(planned, device)
        new, content = train_run(planned, device, should_stop, rescue=keep_record, compile=compile)
        return keep_record(new, content)
    if is_complete(record, planned) and not (weights and kept_weights(record) is None):
        return keep_record(record)
    if not needs_training(record, planned) and has_same_data(record, planned, device):
        states = kept_weights(record)
        if states is not None:
            network = _network_with(states[None], planned.spec, device)
            return keep_record(_extended(record, network, planned, dataset_of(planned.spec, device)))
    # Another machine may make another network: it is measured and counted as the one on record was.
    planned = planned.merged(wishes(record))
    _check_space(planned, device)
    new, content = train_run(planned, device, should_stop, compile=compile)
    if record["status"] == "ok" != new["status"]:
        raise RuntimeError(
            f"run {run_id} diverged when it was trained again on this machine: its record is kept, and what it "
            "lacks can be made on a machine like the one that it names"
        )
    return keep_record(new, content)


def _check_space(planned, device):
    """Raise OSError where the weights of a run will not fit on the disk."""
    tensors = network_of(planned.spec, dataset_of(planned.spec, device)).state_dict().values()
    kept = 1 + len(planned.evolution_epochs) * planned.evolution_weights
    records.check_writable(kept * sum(tensor.nbytes for tensor in tensors))


def _extended(record, network, planned, data):
    """The record with the measures and the counts of its trained network that `planned` asks for and it lacks."""
    names = [name for name in planned.measures if name not in record["measures"]]
    wanted = [settings for settings in planned.counts.values() if find_count(record["counts"], settings) is None]
    measures = _measures(network, names, planned.spec, data)
    counts = [count_regions(network, data, settings) for settings in wanted]
    return record | {"measures": record["measures"] | measures, "counts": record["counts"] + counts}


def has_same_data(record, planned, device="cpu"):
    """Whether the data of a run are, by their hash, those that its record was made with; True if it does not say."""
    return data_sha256(record) in (None, dataset_of(planned.spec, device).provenance["sha256"])


def train_run(planned, device="cpu", should_stop=None, *, rescue=None, compile=False):
    """Train, measure and count one run without writing anything.

    Returns its record and the bytes of its file of weights, None for a diverged run.
    rescue: called with the two, the record as training left it, where a measure or a count raises an error.
    """
    spec, started = planned.spec, datetime.datetime.now(datetime.UTC)
    data, states = dataset_of(spec, device), {}

    def look(network, epoch):
        if planned.evolution_weights:
            states[epoch] = state_of(network)
        return _evolution_point(network, epoch, data, planned)

    run = train(
        network_of(spec, data), data, spec.train, device=device, should_stop=should_stop, measure=look,
        measure_epochs=planned.evolution_epochs, measure_loss=planned.evolution_loss, compile=compile,
    )  # fmt: skip
    execution = {"compile": True} if compile else {}
    record = _trained_record(planned, run) | {"provenance": provenance(data, device, started, run.seconds, execution)}
    if run.status != "ok":
        return record, None
    if data.y_train_true is not None:
        accuracy = evaluate(run.network, data.x_train, data.y_train_true)[1]
        record["results"]["train_accuracy_true_labels"] = accuracy
    # How networks disagree can be told from records.
    record["predictions"] = _as_text(predict_labels(run.network, data.x_test[:NUM_PREDICTIONS]).tolist())
    weights = packed_weights(states | {None: state_of(run.network)})
    trained = record | {"provenance": record["provenance"] | {"weights_sha256": hashlib.sha256(weights).hexdigest()}}
    try:
        return _extended(trained, run.network, planned, data), weights
    except NonFiniteScores:
        return record | {"status": "diverged"}, None
    except Exception:
        if rescue is not None:
            rescue(trained, weights)
        raise


def _trained_record(planned, run):
    """What a record says of a `TrainRun` alone."""
    record = {
        "schema": SCHEMA,
        "run_id": planned.spec.run_id,
        "spec": dataclasses.asdict(planned.spec),
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
    }
    if planned.evolution_loss is not None:
        record["reached"] = {"loss": planned.evolution_loss, "epoch": run.reached_epoch}
    return record


def _as_text(labels):
    """A character for each label: the digits, and after 9 those that follow them in Unicode."""
    return "".join(chr(ord("0") + label) for label in labels)


def _measures(network, names, spec, data):
    """Values of measures by name, as JSON takes them."""
    initial = network_of(spec, data).to(data.device) if names else None
    values = measure_all(names, network, initial, data)
    return {name: _finite(value) for name, value in values.items()}


def count_regions(network, data, settings):
    """One entry of a record's list of counts: settings, the count of every simplex, evaluations, seconds."""
    started = time.perf_counter()
    arguments = {k: tuple(v) if isinstance(v, list) else v for k, v in settings.items() if k != "points"}
    # What a campaign's counts mean without a word on it; `region_count` has another default.
    arguments.setdefault("adjacency", "face")
    count = region_count(network, data.x_test if settings["points"] == "test" else data.x_train, **arguments)
    return {
        "settings": settings,
        "counts": np.asarray(count.counts).tolist(),
        "num_evaluations": int(count.num_evaluations),
        "seconds": round(time.perf_counter() - started, 3),
    }


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
        point["measures"] = _measures(network, planned.evolution_measures, planned.spec, data)
    return point


def _finite(value):
    """JSON has no infinities: a value that is not finite becomes its name."""
    return value if not isinstance(value, float) or np.isfinite(value) else str(value)
