"""One run from its plan to its record: train, measure, count."""

import dataclasses
import datetime
import functools
import platform
import subprocess
import time
import traceback

import numpy as np
import torch

from rc_utils import ledger
from rc_utils.campaign import SCHEMA, canonical_json
from rc_utils.datasets import load_dataset
from rc_utils.measures import UNTRAINED, measure
from rc_utils.networks import build_network
from rc_utils.paths import project_root
from rc_utils.regions import region_count
from rc_utils.training import StopTraining, evaluate, train


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
        torch.set_num_threads(self.threads)
        try:
            return Outcome(run_id, "done", complete_run(planned, self.device, self._late, **self.execution))
        except StopTraining:
            return Outcome(run_id, "late")
        except Exception:
            settings = canonical_json(planned.spec.as_dict())
            return Outcome(run_id, "failed", error=f"{traceback.format_exc()}settings: {settings}")

    def _late(self):
        return self.deadline is not None and time.time() > self.deadline


@functools.lru_cache(maxsize=2)
def _dataset(settings, device):
    return load_dataset(**dict(settings), device=device)


def dataset_of(spec, device="cpu"):
    """The dataset of a run, kept for the next run of this process that uses the same."""
    settings = {k: tuple(v) if isinstance(v, list) else v for k, v in spec.dataset.items()}
    return _dataset(tuple(sorted(settings.items())), str(device))


def network_of(spec, data):
    """The untrained network of a run."""
    options = {k: v for k, v in spec.network.items() if k not in ("name", "source_sha256")}
    network = build_network(
        spec.network["name"],
        num_classes=data.num_classes,
        in_channels=data.in_channels,
        image_size=data.image_size,
        seed=spec.train.seed,
        **options,
    )
    return network.to(memory_format=torch.channels_last)


def trained_network(spec, device="cpu"):
    """The trained network of a run that was made on this machine, from its kept weights.

    Raises FileNotFoundError if the weights are not there; `python -m rc_utils.sweep` makes them.
    """
    from safetensors.torch import load_file

    path = ledger.weights_path(spec.run_id)
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing: run the sweep of a campaign that has run {spec.run_id}")
    network = network_of(spec, dataset_of(spec, device))
    network.load_state_dict(load_file(path))
    return network.to(device).eval()


def complete_run(planned, device="cpu", should_stop=None, **execution):
    """Make what is missing of a planned run and return its record, written to its place.

    A new count of a trained network whose weights are kept is taken without training again; anything else that is
    missing trains again, which on the same kind of CPU gives the same network.
    execution: `compile` of `train`.
    """
    ledger.check_writable()
    record = _record_on_disk(planned.spec.run_id)
    if record is None or not _can_extend(record, planned):
        record = train_run(planned, device, should_stop, **execution)
    elif not is_complete(record, planned):
        record = _extend(record, planned, device)
    return keep_record(record)


def keep_record(record):
    """Write a record to its place, with the counts that lie there and it has not; returns what was written.

    Another process may have finished the same run in the meantime, for other counts.
    """
    record = _merge(_record_on_disk(record["run_id"]), record)
    ledger.write_record(record)
    return record


def _record_on_disk(run_id):
    """The record of a run made on this machine, or None if there is none or a corrupt one."""
    path = ledger.record_path(run_id)
    try:
        return ledger.read_record(path) if path.exists() else None
    except ledger.CorruptRecord:
        return None


def _extend(record, planned, device):
    """The record with the counts and measures that it lacks, none of which needs training."""
    data = dataset_of(planned.spec, device)
    measures = record["measures"] | {
        name: measure(name, network_of(planned.spec, data), None, data) for name in _missing_measures(record, planned)
    }
    counts = list(record["counts"])
    if missing := missing_counts(record, planned):
        network = trained_network(planned.spec, device)
        counts += [count_regions(network, data, settings) for settings in missing]
    return record | {"measures": measures, "counts": counts}


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
    epochs = any(
        ledger.find_count(by_epoch.get(epoch, []), settings) is None
        for epoch in planned.evolution_epochs
        for settings in planned.evolution_counts.values()
    )
    return epochs or any(name not in UNTRAINED for name in _missing_measures(record, planned))


def _missing_measures(record, planned):
    if record["status"] != "ok":
        return []
    return [name for name in planned.measures if name not in record["measures"]]


def _can_extend(record, planned):
    return not _needs_training(record, planned) and (
        not missing_counts(record, planned) or ledger.weights_path(planned.spec.run_id).exists()
    )


def _merge(old, new):
    """The new record with the counts of the old one that it does not have."""
    if old is None or old["status"] != "ok" or new["status"] != "ok":
        return new
    kept = [c for c in old["counts"] if ledger.find_count(new["counts"], c["settings"]) is None]
    return new | {"counts": new["counts"] + kept, "measures": old["measures"] | new["measures"]}


def train_run(planned, device="cpu", should_stop=None, **execution):
    """Train, measure and count one run; returns its record without writing it. The weights are kept on this machine."""
    spec, started = planned.spec, datetime.datetime.now(datetime.UTC)
    data = dataset_of(spec, device)
    run = train(
        network_of(spec, data), data, spec.train, device=device, should_stop=should_stop,
        measure=functools.partial(_evolution_point, data=data, counts=planned.evolution_counts),
        measure_epochs=planned.evolution_epochs, **execution,
    )  # fmt: skip
    ok = run.status == "ok"
    initial = network_of(spec, data).to(device) if planned.measures else None
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
        "measures": {name: measure(name, run.network, initial, data) for name in planned.measures} if ok else {},
        "counts": [count_regions(run.network, data, settings) for settings in planned.counts.values()] if ok else [],
        "evolution": list(run.measurements.values()),
        "provenance": _provenance(data, device, started, run.seconds, execution),
    }
    if ok:
        _keep_weights(run.network, spec.run_id)
    return record


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


def _keep_weights(network, run_id):
    from safetensors.torch import save

    state = {name: value.detach().cpu().contiguous() for name, value in network.state_dict().items()}
    ledger.write_atomically(ledger.weights_path(run_id), save(state))


def _finite(value):
    """JSON has no infinities: a value that is not finite becomes its name."""
    return value if not isinstance(value, float) or np.isfinite(value) else str(value)


def _provenance(data, device, started, seconds, execution):
    return {
        "started": started.isoformat(timespec="seconds"),
        "seconds_train": round(seconds, 3),
        "device": str(device),
        "hardware": hardware(device),
        "threads": torch.get_num_threads(),
        "git_revision": git_revision(),
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": np.__version__,
        },
        "execution": execution,
        "data": data.provenance,
    }


def hardware(device="cpu"):
    """Name of the processor or of the graphics card."""
    if torch.device(device).type == "cuda":
        return torch.cuda.get_device_name(device)
    return _processor()


@functools.cache
def _processor():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


@functools.cache
def git_revision():
    """Revision of the code, with a plus when tracked files differ from it; "unknown" outside a repository."""
    command = ["git", "-C", str(project_root()), "describe", "--always", "--abbrev=12", "--dirty=+"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
