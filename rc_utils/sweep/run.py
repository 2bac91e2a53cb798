"""One run from its plan to its record: train, measure, count; and the networks that pages show."""

import base64
import contextlib
import dataclasses
import datetime
import functools
import hashlib
import json
import math
import time
import warnings

import numpy as np
import torch

from rc_utils.counting import predict_labels, region_count
from rc_utils.counting.classifier import NonFiniteScores
from rc_utils.datasets import ImageTensor, load_dataset
from rc_utils.evaluation import full_precision, own_random_state
from rc_utils.measures import MEASURES, measure
from rc_utils.networks.registry import NETWORKS, build_network, is_ours
from rc_utils.paths import data_dir, results_dir, write_atomically
from rc_utils.provenance import provenance
from rc_utils.sweep import records
from rc_utils.sweep.campaign import SCHEMA, canonical_json, load_campaign
from rc_utils.training import evaluate, train
from rc_utils.training.loop import check_outputs, training_layout
from rc_utils.validation import check_name, require

NUM_PREDICTIONS = 2000  # test images of which a record keeps the predicted label


@functools.lru_cache(maxsize=3)
def _dataset(settings, device, _file):
    return load_dataset(**json.loads(settings), device=device)


def dataset_of(spec, device="cpu"):
    """The dataset of a run, kept for the next run of this process that uses the same."""
    path = data_dir() / f"{spec.dataset['name']}.npz"
    changed_at = path.stat().st_mtime_ns if path.is_file() else 0  # a new file is another dataset
    return _dataset(canonical_json(spec.dataset), str(device), (path, changed_at))


def network_of(spec, data):
    """The untrained network of a run, on the device of its data."""
    shape = {name: getattr(data, name) for name in ("num_classes", "in_channels", "image_size")}
    network = build_network(**spec.network, **shape, seed=spec.train.seed).to(data.device)
    return network.to(memory_format=training_layout(network, data.x_train, data.device))


@contextlib.contextmanager
def torch_threads(number):
    """Inside the block torch uses `number` threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def complete_run(planned, device="cpu", *, compile=False):
    """Record of a planned run, which is made and its record written unless a complete one is there.

    A run whose record lacks something is made again with all that the record held, since other
    campaigns may need it. compile: as in `train`. Raises filelock.Timeout if another process is at
    this run, ValueError if the record is of another network of the same name, or was counted at
    another `evolution_loss`.
    """
    from filelock import FileLock
    from safetensors.torch import save

    run_id = planned.spec.run_id
    lock = results_dir() / "locks" / f"{run_id}.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(lock, timeout=0):
        old, _ = records.find_records({run_id: planned}).get(run_id, (None, None))
        if old is not None:
            check_start(old)
            if records.is_complete(old, planned):
                return old
            planned = with_held(planned, old)
        asked = planned.asked
        looks = len(asked["evolution_weights"]) * (2 + len(asked["evolution_epochs"]))
        state = network_of(planned.spec, dataset_of(planned.spec)).state_dict() if looks else {}
        records.check_writable(looks * sum(tensor.nbytes for tensor in state.values()))
        record, states = make_record(planned, device, compile=compile)
        # The record of a diverged run is complete: one that lacks something is of an ok run.
        kept = f"run {run_id} meets scores that are not finite now; its record is kept as it was"
        require(old is None or record["status"] == "ok", kept)
        if asked["evolution_weights"] and record["status"] == "ok":
            content = save(states)
            write_atomically(weights_path(run_id), content)
            record["provenance"]["weights_sha256"] = hashlib.sha256(content).hexdigest()
        records.write_record(record)
    return record


def with_held(planned, record):
    """The planned run with all that its record holds; warns of measures that are unknown now."""
    held = records.held(record)
    for key in ("measures", "evolution_measures"):
        unknown = [name for name in held[key] if name not in MEASURES]
        if unknown:
            lost = f"the record of run {record['run_id']} is made again and loses {unknown}"
            warnings.warn(f"{lost}: no such measure is known here", stacklevel=3)
        held[key] = [name for name in held[key] if name in MEASURES]
    return planned.also(held)


@torch_threads(1)
def make_record(planned, device="cpu", *, compile=False, progress=False):
    """Train, measure and count one run in one torch thread, without writing anything.

    progress: show a bar over the epochs on stderr. Returns the record, and if the plan asks for
    weights the network's tensors, of its looks and the last epoch, by "<epoch>/<name>".
    """
    spec, asked, states = planned.spec, planned.asked, {}
    started = datetime.datetime.now(datetime.UTC)
    data = dataset_of(spec, device)
    network = network_of(spec, data)
    record = {"schema": SCHEMA, "run_id": spec.run_id, "spec": dataclasses.asdict(spec)}

    def taken(counts, measures):
        initial = network_of(spec, data) if measures else None
        with own_random_state(data.device, spec.train.seed):
            values = {name: _as_json(measure(name, network, initial, data)) for name in measures}
        entries = [count_regions(network, data, settings) for settings in counts]
        return {"measures": values, "counts": entries}

    def look(network, epoch):
        if asked["evolution_weights"]:
            states.update(_state_of(network, epoch))
        train_loss, train_accuracy = evaluate(network, data.x_train, data.y_train)
        _, test_accuracy = evaluate(network, data.x_test, data.y_test)
        seen = {"epoch": epoch, "train_loss": _as_json(train_loss)}
        seen |= {"train_accuracy": train_accuracy, "test_accuracy": test_accuracy}
        return seen | taken(asked["evolution_counts"], asked["evolution_measures"])

    loss = next(iter(asked["evolution_loss"]), None)
    when = {"measure_epochs": asked["evolution_epochs"], "measure_loss": loss}
    is_readers = not is_ours(NETWORKS.get(spec.network["name"]))
    if is_readers:
        check_outputs(network, data)
        record["start"] = start_of(spec)  # its code may change under its name
        fault = "one seed builds different networks: draw by torch, np.random.* or random.*"
        require(record["start"] == start_of(spec), f"network {spec.network['name']!r}: {fault}")
    # What cannot be measured or counted says so before the training.
    names = asked["measures"] + asked["evolution_measures"]
    names = [name for name in names if is_readers or not is_ours(MEASURES[name])]
    small = {"num_samples": 1, "resolution": 2}
    counts = [count | small for count in asked["counts"] + asked["evolution_counts"]]
    distinct = [count for i, count in enumerate(counts) if count not in counts[:i]]
    for tried in [(distinct, []), *(([], [name]) for name in names)]:
        with contextlib.suppress(NonFiniteScores, ArithmeticError):  # trained, it may have a value
            taken(*tried)
    run = train(network, data, spec.train, measure=look, compile=compile, progress=progress, **when)
    results = {name: _as_json(getattr(run, name)) for name in records.RESULTS}
    record |= {"status": run.status, "results": results, "measures": {}, "counts": []}
    record["evolution"] = list(run.measurements.values())
    record["provenance"] = provenance(data, device, started, run.seconds, compile)
    if loss is not None:
        record["reached"] = {"loss": loss, "epoch": run.reached_epoch}
    if run.status != "ok":
        return record, states
    if asked["evolution_weights"]:
        states |= _state_of(network, spec.train.epochs)
    try:
        if data.y_train_true is not None:
            _, accuracy = evaluate(network, data.x_train, data.y_train_true)
            results["train_accuracy_true_labels"] = accuracy
        if asked["per_image"]:
            record["per_image"], results["unused_accuracy"] = _right_images(network, spec, data)
        # Records show how networks disagree. One character per label: "0" to "9", then those that
        # follow "9" in Unicode.
        labels = predict_labels(network, data.x_test[:NUM_PREDICTIONS]).tolist()
        record["predictions"] = "".join(chr(ord("0") + label) for label in labels)
        record |= taken(asked["counts"], asked["measures"])
    except NonFiniteScores:
        record["status"] = "diverged"
    return record, states


def _right_images(network, spec, data):
    """Bits, in base64, of the stored images that are right, and the accuracy on unused ones."""
    drawn = ("n_train", "n_test", "label_noise")
    whole = {key: value for key, value in spec.dataset.items() if key not in drawn}
    stored = dataset_of(dataclasses.replace(spec, dataset=whole))
    mean, std = data.x_train.mean.cpu(), data.x_train.std.cpu()
    right, bits = {}, {}
    parts = {"test": (stored.x_test, stored.y_test), "pool": (stored.x_train, stored.y_train)}
    for name, (images, labels) in parts.items():
        predicted = predict_labels(network, ImageTensor(images.raw, mean, std))
        right[name] = predicted == labels.numpy()
        bits[name] = base64.b64encode(np.packbits(right[name])).decode()
    used = {image.tobytes() for image in data.x_train.raw.cpu().numpy()}
    unused = [image.tobytes() not in used for image in stored.x_train.raw.numpy()]
    accuracy = float(right["pool"][unused].mean()) if any(unused) else np.nan
    return bits, _as_json(accuracy)


def count_regions(network, data, settings):
    """Region count with the settings of a campaign, as an entry of a record."""
    started, options = time.perf_counter(), dict(settings)
    points = data.x_test if options.pop("points") == "test" else data.x_train
    count = region_count(network, points, **options)
    return {
        "settings": settings,
        "counts": count.counts.tolist(),
        "num_evaluations": count.num_evaluations,
        "seconds": round(time.perf_counter() - started, 3),
    }


def _as_json(value):
    """The value as JSON takes it: a number that is not finite becomes a text."""
    if isinstance(value, list):
        return [_as_json(number) for number in value]
    return value if np.isfinite(value) else str(value)


def start_of(spec):
    """Fingerprint of a run's untrained network, which shows whether its code has changed.

    Scores (12, 10 or fewer) of four fixed images in evaluation, training and, for the momentum of
    running statistics, evaluation mode again; the sum of the norms of the parameters' gradients in
    training mode; and of each parameter its name, shape, and whether it is trained.
    """
    # The seed does not change the shape of the images: one dataset does for runs with own draws.
    unseeded = {key: value for key, value in spec.dataset.items() if key != "seed"}
    data = dataset_of(dataclasses.replace(spec, dataset=unseeded))
    network = network_of(spec, data)
    images = np.random.default_rng(0).normal(size=(4, *data.x_train.shape[1:]))
    batch = torch.from_numpy(images).float()
    scores = []
    with own_random_state(seed=0), full_precision():
        for name, weight in network.named_parameters():
            # Weights of 0 would hide the layers before them; biases may well be 0.
            is_weight = weight.ndim > 1 or not name.endswith("bias")
            if is_weight and weight.is_floating_point() and not weight.any():
                weight.data.normal_(std=0.1)
        for is_training in (False, True, False):
            with torch.set_grad_enabled(is_training):
                found = network.train(is_training)(batch)
            scores.append(found.detach()[:, :10].double().nan_to_num())
            if found.requires_grad:
                labels = torch.zeros(len(batch), dtype=torch.long)
                torch.nn.functional.cross_entropy(found, labels).backward()
    norms = [float(w.grad.norm()) for w in network.parameters() if w.grad is not None]
    weights = [[name, list(w.shape), w.requires_grad] for name, w in network.named_parameters()]
    gradient = float(np.nan_to_num(sum(norms)))
    return {"scores": torch.cat(scores).tolist(), "gradient": gradient, "parameters": weights}


def check_start(record):
    """Raise ValueError if the network of that name is no longer the one of the record."""
    if "start" not in record:
        return
    spec = records.spec_of(record)
    was, now = record["start"], start_of(spec)
    before, after = np.array(was["scores"]), np.array(now["scores"])
    close = before.shape == after.shape and np.allclose(before, after, rtol=1e-3, atol=1e-4)
    gradients = was.get("gradient", math.nan), now["gradient"]
    close = close and math.isclose(*gradients, rel_tol=1e-2, abs_tol=1e-6)
    same = close and was.get("parameters") == now["parameters"]
    fault = f"network {spec.network['name']!r} is not the one that run {spec.run_id} was made with"
    advice = "give the edited one another name, or delete the records of all its runs, as"
    require(same, f"{fault}: {advice} {records.record_path(spec.run_id)} or a line in runs.jsonl")


def weights_path(run_id):
    """File of the trained weights of a run made on this machine."""
    return results_dir() / "weights" / f"{run_id}.safetensors"


def _state_of(network, epoch):
    # Cloned, because training goes on, and safetensors refuses parameters that share memory.
    state = network.state_dict().items()
    return {f"{epoch}/{name}": value.detach().cpu().clone().contiguous() for name, value in state}


def kept_weights(record):
    """Tensors of a record's network, by "<epoch>/<name>"; {} unless a file has their SHA-256."""
    from safetensors.torch import load

    path = weights_path(record["run_id"])
    content = path.read_bytes() if path.is_file() else b""
    is_known = hashlib.sha256(content).hexdigest() == record["provenance"].get("weights_sha256")
    return load(content) if is_known else {}


def lr_pair(name, network=""):
    """Two runs that differ in the learning rate only, the smallest and the largest there is.

    They are from the first experiment that counts during training and have its largest batch size,
    which trains fastest. network: by default the first of the experiment. Raises ValueError unless
    there are two such runs that did not diverge.
    """
    campaign = load_campaign(name)
    counted = [e for e in campaign.experiments if e.evolution_epochs and e.evolution_counts]
    require(counted, f"campaign {name!r} counts at no epoch in training: choose shapes-quick, say")
    chosen = counted[0]
    network = network or chosen.networks[0]
    check_name(f"network of experiment {chosen.name!r}", network, chosen.networks)
    runs = [p for e, label, p in campaign.entries() if e is chosen and label == network]
    runs.sort(key=lambda p: (-p.spec.train.batch_size, p.spec.train.lr))
    first = runs[0].spec.train
    alike = [p for p in runs if dataclasses.replace(p.spec.train, lr=first.lr) == first]
    found = records.find_records({p.spec.run_id: p for p in alike})
    diverged = {run_id for run_id, (record, _) in found.items() if record["status"] != "ok"}
    alike = [p for p in alike if p.spec.run_id not in diverged]
    where = f"experiment {chosen.name!r} of campaign {name!r} has no two runs of {network!r}"
    require(len(alike) > 1, f"{where} that differ in lr only and did not diverge")
    return alike[0], alike[-1]


def trained_network(planned, device="cpu", progress=False):
    """Trained network of a planned run, in evaluation mode; see `networks_during_training`."""
    last = planned.spec.train.epochs
    return networks_during_training(planned, [last], device, progress)[last]


def networks_during_training(planned, epochs, device="cpu", progress=False):
    """{epoch: network} of a planned run, from kept weights, else trained again.

    progress: show a bar over the epochs. Raises ValueError if the run diverges, or if the record is
    of another network of the same name. Warns if its last test accuracy is not that on record.
    """
    spec, states, last = planned.spec, {}, planned.spec.train.epochs
    record, _ = records.find_records({spec.run_id: planned}).get(spec.run_id, (None, None))
    if record is not None:
        check_start(record)
        states = kept_weights(record)
    data = dataset_of(spec, device)
    names, every = network_of(spec, data).state_dict(), {*epochs, last}
    threads = record["provenance"]["threads"] if record else 1
    if is_new := any(f"{epoch}/{name}" not in states for epoch in every for name in names):
        with torch_threads(threads):
            options = {"measure": _state_of, "measure_epochs": every, "progress": progress}
            run = train(network_of(spec, data), data, spec.train, **options)
        require(run.status == "ok", f"run {spec.run_id} diverged: it has no trained network")
        for state in run.measurements.values():
            states |= state
    networks = {}
    for epoch in every:
        networks[epoch] = network = network_of(spec, data).eval()
        network.load_state_dict({name: states[f"{epoch}/{name}"] for name in names})
    if record is not None and (is_new or not is_ours(NETWORKS.get(spec.network["name"]))):
        was = record["results"]["test_accuracy"]
        with torch_threads(threads):
            _, now = evaluate(networks[last], data.x_test, data.y_test)
        fault = f"this is not the network on record, {spec.run_id}: its test accuracy is"
        if now != was:  # another machine, or state outside of a `state_dict`
            warnings.warn(f"{fault} {now}, not {was}", stacklevel=3)
    return {epoch: networks[epoch] for epoch in epochs}
