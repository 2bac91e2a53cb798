"""One run from its plan to its record: train, measure, count; and the networks that pages show."""

import base64
import copy
import dataclasses
import datetime
import functools
import hashlib
import time
import warnings

import numpy as np
import torch

from rc_utils.checks import require
from rc_utils.counting import predict_labels, region_count
from rc_utils.counting.classifier import NonFiniteScores
from rc_utils.counting.evaluation import evaluation_mode, full_precision, own_random_state
from rc_utils.datasets import ImageTensor, load_dataset
from rc_utils.measures import measure_all
from rc_utils.networks import NETWORKS, build_network
from rc_utils.paths import results_dir, write_atomically
from rc_utils.provenance import provenance
from rc_utils.sweep import records
from rc_utils.sweep.campaign import SCHEMA
from rc_utils.training import evaluate, train
from rc_utils.training.loop import training_layout

NUM_PREDICTIONS = 2000  # test images of which a record keeps the predicted label
START_IMAGES, START_SCORES = 4, 10  # on which a reader's network is known again, of how many classes


@functools.lru_cache(maxsize=3)
def _dataset(settings, device):
    return load_dataset(**dict(settings), device=device)


def dataset_of(spec, device="cpu"):
    """The dataset of a run, kept for the next run of this process that uses the same."""
    settings = {k: tuple(v) if isinstance(v, list) else v for k, v in spec.dataset.items()}
    return _dataset(tuple(sorted(settings.items())), str(device))


def network_of(spec, data):
    """The untrained network of a run."""
    shape = {name: getattr(data, name) for name in ("num_classes", "in_channels", "image_size")}
    network = build_network(**spec.network, **shape, seed=spec.train.seed)
    return network.to(memory_format=training_layout(network, data.x_train, data.y_train.device))


# From a plan to a record ----------------------------------------------------------------------


def complete_run(planned, device="cpu", should_stop=None, *, compile=False, wait=True):
    """Record of a planned run; the run is made, and its record written, unless it is there.

    A record that lacks a count, a measure or a look during training is made again as a whole; what
    another campaign asked of the same run stays in it.
    should_stop, compile: as in `train`. wait: for another process that is at this run; otherwise
    filelock.Timeout is raised.

    Raises ValueError where the record was made with another network of the same name.
    """
    from filelock import FileLock

    run_id = planned.spec.run_id
    lock = results_dir() / "locks" / f"{run_id}.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(lock, timeout=-1 if wait else 0):
        found = records.find_records({run_id: planned}, planned.frozen)
        old = found[run_id][0] if found else None
        if old is not None:
            check_start(old, planned.spec)
            if records.is_complete(old, planned):
                return old
        record, states = make_record(planned, device, should_stop, compile=compile)
        if planned.evolution_weights and record["status"] == "ok":
            content = _pack_weights(states)
            record["provenance"]["weights_sha256"] = hashlib.sha256(content).hexdigest()
            write_atomically(weights_path(run_id), content)
        if old is not None and _same_network(old, record):
            # Campaigns that share a run would otherwise take turns in making it.
            record["measures"] = old["measures"] | record["measures"]
            more = [e for e in old["counts"] if records.find_count(record["counts"], e["settings"]) is None]
            record["counts"] += more
            looks = {point["epoch"]: point for point in old["evolution"] + record["evolution"]}
            record["evolution"] = [looks[epoch] for epoch in sorted(looks)]
        records.write_record(record)
    return record


def _same_network(old, new):
    """Whether two records have equal results on equal data, as far as the new one has results."""
    shared = {key: old["results"].get(key, value) for key, value in new["results"].items()}
    same_data = records.data_sha256(old) == records.data_sha256(new)
    return old["status"] == new["status"] == "ok" and same_data and shared == new["results"]


def make_record(planned, device="cpu", should_stop=None, *, compile=False):
    """Train, measure and count one run without writing anything.

    Returns its record and the state dicts of its network: {None: at the end}, and by epoch where
    the plan asks for them.
    """
    spec, started, states = planned.spec, datetime.datetime.now(datetime.UTC), {}
    data = dataset_of(spec, device)
    network = network_of(spec, data)
    record = {"schema": SCHEMA, "run_id": spec.run_id, "spec": dataclasses.asdict(spec)}
    if _is_foreign(spec):
        record["start"] = describe_start(network, data.x_train.shape[1:])

    def look(network, epoch):
        if planned.evolution_weights:
            states[epoch] = _state_of(network)
        train_loss, train_accuracy = evaluate(network, data.x_train, data.y_train)
        _, test_accuracy = evaluate(network, data.x_test, data.y_test)
        accuracies = {"train_accuracy": train_accuracy, "test_accuracy": test_accuracy}
        taken = _taken(network, planned.evolution_counts, planned.evolution_measures, spec, data)
        return {"epoch": epoch, "train_loss": _as_json(train_loss)} | accuracies | taken

    looks = {"measure_epochs": planned.evolution_epochs, "measure_loss": planned.evolution_loss}
    options = {"device": device, "should_stop": should_stop, "compile": compile}
    run = train(network, data, spec.train, measure=look, **looks, **options)
    losses = {"train_loss": _as_json(run.train_loss), "test_loss": _as_json(run.test_loss)}
    accuracies = {"train_accuracy": run.train_accuracy, "test_accuracy": run.test_accuracy}
    execution = {"compile": True} if compile else {}
    record |= {"status": run.status, "results": accuracies | losses, "measures": {}, "counts": []}
    record["evolution"] = list(run.measurements.values())
    record["provenance"] = provenance(data, device, started, run.seconds, execution)
    if planned.evolution_loss is not None:
        record["reached"] = {"loss": planned.evolution_loss, "epoch": run.reached_epoch}
    if run.status == "ok":
        states[None] = _state_of(run.network)
        try:
            _take_at_the_end(record, run.network, planned, data)
        except NonFiniteScores:
            record["status"] = "diverged"
    return record, states


def _take_at_the_end(record, network, planned, data):
    results = record["results"]
    if data.y_train_true is not None:
        _, accuracy = evaluate(network, data.x_train, data.y_train_true)
        results["train_accuracy_true_labels"] = accuracy
    if planned.per_image:
        stored = {k: v for k, v in planned.spec.dataset.items() if k in ("name", "image_size", "classes")}
        whole = dataset_of(dataclasses.replace(planned.spec, dataset=stored))
        record["per_image"], results["unused_accuracy"] = _right_images(network, data, whole)
    # How networks disagree can be told from records. A character per label: 0 to 9, and after 9 those
    # that follow it in Unicode.
    labels = predict_labels(network, data.x_test[:NUM_PREDICTIONS]).tolist()
    record["predictions"] = "".join(chr(ord("0") + label) for label in labels)
    record |= _taken(network, planned.counts, planned.measures, planned.spec, data)


def _right_images(network, data, whole):
    """Which images of the stored dataset are classified right, and the accuracy on unused ones.

    Returns {"test", "pool"}, bits in the stored order, eight a byte, as base64 text
    (`numpy.packbits`): of all test images and of all images that the training images of `data` were
    drawn from; and the accuracy on images of the pool that are none of these. All are standardised
    as the training images are.
    """
    right = {}
    splits = {"test": (whole.x_test, whole.y_test), "pool": (whole.x_train, whole.y_train)}
    for name, (images, labels) in splits.items():
        standardised = ImageTensor(images.raw, data.x_train.mean.cpu(), data.x_train.std.cpu())
        right[name] = np.asarray(predict_labels(network, standardised)) == labels.numpy()
    used = {image.tobytes() for image in data.x_train.raw.cpu().numpy()}
    unused = np.array([image.tobytes() not in used for image in whole.x_train.raw.numpy()])
    bits = {name: base64.b64encode(np.packbits(values)).decode() for name, values in right.items()}
    return bits, float(right["pool"][unused].mean())


def _taken(network, counts, measures, spec, data):
    initial = network_of(spec, data).to(data.device) if measures else None
    values = measure_all(measures, network, initial, data)
    return {
        "measures": {name: _as_json(value) for name, value in values.items()},
        "counts": [count_regions(network, data, settings) for settings in counts.values()],
    }


def count_regions(network, data, settings):
    """Region count with the settings of a campaign, as an entry of a record.

    Returns settings, the count of every simplex, evaluations, seconds.
    """
    started = time.perf_counter()
    arguments = {k: tuple(v) if isinstance(v, list) else v for k, v in settings.items()}
    points = data.x_test if arguments.pop("points") == "test" else data.x_train
    count = region_count(network, points, **arguments)
    return {
        "settings": settings,
        "counts": np.asarray(count.counts).tolist(),
        "num_evaluations": int(count.num_evaluations),
        "seconds": round(time.perf_counter() - started, 3),
    }


def _as_json(value):
    """The value as JSON takes it: a number that is not finite becomes its name."""
    if isinstance(value, list):
        return [_as_json(number) for number in value]
    return value if not isinstance(value, float) or np.isfinite(value) else str(value)


# Networks of the reader's, whose code may have been edited ------------------------------------


def _is_foreign(spec):
    """Whether the network is the reader's: "module:Class", or registered elsewhere."""
    module = getattr(NETWORKS.get(spec.network["name"]), "__module__", "")
    return not module.startswith("rc_utils.")


def describe_start(network, image_shape):
    """Parameters of an untrained network by shape, and its scores on fixed images.

    network: a module on any device. image_shape: (C, H, W). Returns plain JSON values: `parameters`,
    names with shapes, and `scores`, first in evaluation mode, then in training mode with a fixed
    seed, so that an edit of either shows.
    """
    network = copy.deepcopy(network).cpu()
    images = np.random.default_rng(0).normal(size=(START_IMAGES, *image_shape))
    batch = torch.from_numpy(images).float()
    with own_random_state(torch.device("cpu")), full_precision(), torch.no_grad():
        torch.default_generator.manual_seed(0)
        with evaluation_mode(network):
            scores = network(batch)
        both = torch.cat([scores, network.train()(batch)])[:, :START_SCORES]
    parameters = {name: list(value.shape) for name, value in network.named_parameters()}
    return {"parameters": parameters, "scores": both.double().nan_to_num().tolist()}


def check_start(record, spec):
    """Raise ValueError where a record is of another network than the one of that name now.

    Scores may differ by rounding.
    """
    if "start" not in record:
        return
    data, was = dataset_of(spec), record["start"]
    now = describe_start(network_of(spec, data), data.x_train.shape[1:])
    same = was["parameters"] == now["parameters"]
    same = same and np.shape(was["scores"]) == np.shape(now["scores"])
    require(
        same and np.allclose(was["scores"], now["scores"], rtol=1e-3, atol=1e-4),
        f"network {spec.network['name']!r} is not the one that run {spec.run_id} was made with, its "
        "code has changed: give the edited one another name, or delete "
        f"{records.record_path(spec.run_id)} and the other records of its runs",
    )


def check_networks(plans):
    """Raise ValueError where records of planned runs are of other networks of the same names."""
    checked = []
    for run_id, planned in plans.items():
        if _is_foreign(planned.spec) and planned.spec.network not in checked:
            record = records.live_record(run_id)
            if record is not None:
                check_start(record, planned.spec)
                checked.append(planned.spec.network)


# Weights of trained networks ------------------------------------------------------------------


def weights_path(run_id):
    """File of the trained weights of a run made on this machine."""
    return results_dir() / "weights" / f"{run_id}.safetensors"


def _state_of(network):
    # Cloned, because training goes on, and safetensors refuses parameters that share memory.
    state = network.state_dict()
    return {name: value.detach().cpu().clone().contiguous() for name, value in state.items()}


def _pack_weights(states):
    """Bytes of state dicts by epoch, None for the end; names begin with "<epoch>/" or "end/"."""
    from safetensors.torch import save

    named = {}
    for epoch, state in states.items():
        prefix = "end" if epoch is None else epoch
        named |= {f"{prefix}/{name}": value for name, value in state.items()}
    return save(named)


def kept_weights(record):
    """State dicts of a record's network by epoch, None for the end.

    {} where they are not on this machine, or not of this record by their SHA-256.
    """
    from safetensors.torch import load

    path = weights_path(record["run_id"])
    content = path.read_bytes() if path.is_file() else b""
    if hashlib.sha256(content).hexdigest() != record["provenance"].get("weights_sha256"):
        return {}
    states = {}
    for key, value in load(content).items():
        prefix, _, name = key.partition("/")
        states.setdefault(None if prefix == "end" else int(prefix), {})[name] = value
    return states


def trained_network(spec, device="cpu"):
    """Trained network of a run, in evaluation mode: from its kept weights, else trained again."""
    return networks_during_training(spec, [None], device)[None]


def networks_during_training(spec, epochs, device="cpu"):
    """{epoch: network} of a run, from kept weights, else trained again; the epoch None is the end.

    Raises ValueError where the run diverges, and where the code of the network has changed since its
    record was made. Warns where what is trained again is not the network on record.
    """
    record, data, networks = records.live_record(spec.run_id), dataset_of(spec, device), {}
    states = {}
    if record is not None:
        check_start(record, spec)
        states = kept_weights(record)
    if not set(epochs) <= set(states):
        looks = {"measure": lambda network, epoch: _state_of(network)}
        looks["measure_epochs"] = set(epochs) - {None}
        run = train(network_of(spec, data), data, spec.train, device=device, **looks)
        require(run.status == "ok", f"run {spec.run_id} diverged: it has no trained network")
        states = run.measurements | {None: _state_of(run.network)}
        if record is not None and record["results"]["test_accuracy"] != run.test_accuracy:
            warnings.warn(
                f"run {spec.run_id}, trained again here, is not the network on record: its test "
                f"accuracy is {run.test_accuracy}, not {record['results']['test_accuracy']}",
                stacklevel=3,
            )
    for epoch in epochs:
        networks[epoch] = network_of(spec, data).to(device).eval()
        networks[epoch].load_state_dict(states[epoch])
    return networks
