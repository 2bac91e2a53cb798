"""What `benchmarks.gpu` does on a card, one step a process: `python -m benchmarks.gpu_steps STEP`.

Every finding is a line of JSON, printed as soon as it is known. A check has "ok"; a rate has images per second.
"""

import argparse
import copy
import functools
import importlib.util
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import time
from unittest import mock

import numpy as np
import torch
from torch.nn import functional as F

import rc_utils as rc
from rc_exact import exact_segment
from rc_utils.counting.evaluation import full_precision
from rc_utils.datasets.cache import data_folder
from rc_utils.measures import MEASURES, measure_all
from rc_utils.networks import NETWORKS
from rc_utils.paths import campaigns_dir, project_root
from rc_utils.provenance import hardware
from rc_utils.sweep.records import data_sha256, read_frozen
from rc_utils.training import StopTraining

BATCH_SIZES = (256, 512, 1024)  # of the three processes of the campaign
WINDOW = 10  # seconds in which all of them are timed together
PAPERS = {"width": 64, "image_size": 32}
# More than a process may hold of the card's memory in `out_of_memory`.
SMALL_SHARE = 0.02
SLOW_MEASURES = ("linear_pieces",)


def versions(device, tiny):
    """The machine: its card, its versions, and which packages it lacks."""
    names = ("pandas", "scipy", "sklearn", "safetensors", "filelock", "tqdm", "pytest", "hypothesis", "PIL")
    yield {
        "hardware": hardware(device),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
        "cores": os.cpu_count(),
        "missing": [name for name in names if importlib.util.find_spec(name) is None],
    }


def data(device, tiny):
    """Unpack CIFAR-10, and compare the subset of `cifar10-small` with the one in its records."""
    unpacker = project_root() / "data" / "unpack.py"
    if not (data_folder() / "cifar10.npz").exists() and unpacker.exists():
        subprocess.run([sys.executable, unpacker, "--out", data_folder(), "cifar10"], check=True, stdout=sys.stderr)
    if tiny:
        yield {"check": "data", "ok": len(_images(tiny).x_train) > 0}
        return
    subset = rc.load_dataset("cifar10", n_train=3000, n_test=5000, image_size=16).provenance["sha256"]
    recorded = {data_sha256(record) for record in read_frozen(campaigns_dir() / "cifar10-small/runs.jsonl").values()}
    yield {"check": "data", "ok": subset in recorded, "sha256": subset}


def checks(device, tiny):
    """Whether results on the card are those of the CPU, each check by itself."""
    for check in (convolution, twenty_steps, other_networks, counts, exact_boundaries, measures, out_of_memory):
        started = time.perf_counter()
        try:
            found = check(device, tiny)
        except Exception as error:  # whatever a card does that none of us has seen
            found = {"ok": False, "error": f"{type(error).__name__}: {error}"[:500]}
        yield {"check": check.__name__, **found, "seconds": round(time.perf_counter() - started, 2)}


def convolution(device, tiny):
    """float32 is full: a convolution is as near to float64 as float32 is."""
    x, weight = torch.randn(16, 64, 32, 32, device=device), torch.randn(64, 64, 3, 3, device=device)
    with full_precision():
        exact = F.conv2d(x.double(), weight.double())
        error = float((F.conv2d(x, weight) - exact).abs().max() / exact.abs().max())
    return {"ok": error < 1e-5, "error_of_float32": error}


def twenty_steps(device, tiny):
    """Twenty steps of training end at the same loss."""
    losses = [_trained(there, tiny, steps=20).history[-1]["train_loss"] for there in ("cpu", device)]
    difference = abs(losses[0] - losses[1]) / losses[0]
    return {"ok": difference < 1e-2, "difference_of_loss": difference}


def other_networks(device, tiny):
    """Each architecture trains an epoch in bfloat16."""
    names = ["ResNet18", "VGG19"] if tiny else [name for name in NETWORKS if name != "MLP"]
    width = 4 if tiny else 64
    status = {name: _trained(device, tiny, 4, name, width=width, precision="bfloat16").status for name in names}
    return {"ok": set(status.values()) == {"ok"}, "status": status}


def counts(device, tiny):
    """The same network has the same counts on nearly all segments, and on most simplices of more dimensions."""
    network, equal = _trained("cpu", tiny, steps=20).network, {}
    for strategy, dim in (("grid", 1), ("adaptive", 1), ("grid", 2), ("grid", 3)):
        resolution = None if dim == 1 else 15
        options = {"num_samples": 20 if tiny else 300, "strategy": strategy, "dim": dim, "resolution": resolution}
        found = [rc.region_count(copy.deepcopy(network).to(there), _images(tiny).x_train, **options).counts
                 for there in ("cpu", device)]  # fmt: skip
        equal[f"{strategy}, {dim}-D"] = float(np.mean(found[0] == found[1]))
    share_on_segments = min(share for name, share in equal.items() if name.endswith("1-D"))
    return {"ok": share_on_segments >= 0.99 and min(equal.values()) >= 0.95, "equal": equal}


def exact_boundaries(device, tiny):
    """Exact boundaries are solved for in float64."""
    network, images = _trained("cpu", tiny, steps=20).network, _images(tiny).x_train
    found = [exact_segment(copy.deepcopy(network).to(there), *images[:2].to(there)) for there in ("cpu", device)]
    difference = float(np.abs(found[0].boundaries - found[1].boundaries).max(initial=0.0))
    return {"ok": difference < 1e-9, "difference": difference, "count": found[0].count}


def measures(device, tiny):
    """Measures are equal to a thousandth."""
    run, names = _trained("cpu", tiny, steps=20), [name for name in MEASURES if name not in SLOW_MEASURES]
    initial, values = _network(tiny), []
    for there in ("cpu", device):
        networks = [copy.deepcopy(network).to(there) for network in (run.network, initial)]
        values.append(measure_all(names, *networks, _images(tiny).to(there)))
    here, there = ({name: np.atleast_1d(value) for name, value in found.items()} for found in values)
    error = {
        name: float((np.abs(here[name] - there[name]) / np.maximum(np.abs(here[name]), 1e-3)).max()) for name in names
    }
    worst = max(error, key=error.get)
    return {"ok": error[worst] < 1e-3, "worst": worst, "error": error[worst]}


def out_of_memory(device, tiny):
    """Where memory runs out, smaller chunks give the same counts."""
    if device == "cpu":
        return {"ok": True, "skipped": "a card only"}
    network, images = rc.build_network("ResNet18", **PAPERS).to(device), _images(tiny, 32).x_train
    options = {"num_samples": 100, "batch_size": 16384}
    expected = rc.region_count(network, images, **options).counts
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(SMALL_SHARE)
    found = rc.region_count(network, images, **options).counts
    torch.cuda.set_per_process_memory_fraction(1.0)
    return {"ok": found.tolist() == expected.tolist(), "peak": torch.cuda.max_memory_allocated()}


def rates(device, tiny):
    """Images per second of training by width, batch, precision, layout and compiling; seconds of counting."""
    wide, narrow = {"width": 64, "size": 32}, {"width": 8, "size": 16, "batch_size": 128}
    plans = [
        wide | {"precision": "bfloat16", "compile": True},
        wide | {"precision": "bfloat16"},
        wide | {"precision": "bfloat16", "cudnn_benchmark": True},
        wide | {"precision": "bfloat16", "channels_last": False},
        wide | {"precision": "tfloat32"},
        wide,
        narrow | {"precision": "bfloat16"},
        narrow | {"precision": "bfloat16", "compile": True},
        narrow | {"precision": "bfloat16", "compile": True, "mode": "reduce-overhead"},  # CUDA graphs
        narrow,
    ]
    for plan in plans[:2] if tiny else plans:
        try:
            yield plan | {"images_per_second": rate(device, tiny, **plan)}
        except Exception as error:
            yield plan | {"error": f"{type(error).__name__}: {error}"[:500]}
    network = _network(tiny, **({} if tiny else PAPERS)).to(device)
    images = _images(tiny, None if tiny else 32).to(device).x_train
    for strategy in ("grid", "adaptive"):
        seconds = []
        for _ in range(3):
            started = time.perf_counter()
            rc.region_count(network, images, num_samples=20 if tiny else 1000, strategy=strategy)
            seconds.append(time.perf_counter() - started)
        yield {"count": strategy, "seconds": round(statistics.median(seconds), 3)}


def rate(device, tiny, width, size, batch_size=512, mode=None, cudnn_benchmark=False, compile=False,
         channels_last=True, precision="float32"):  # fmt: skip
    """Images per second, the median of three epochs after the first."""
    if tiny:
        width, size, batch_size, compile = 4, 8, 32, False
    images = _images(tiny, size, number=16 * batch_size)
    config = rc.TrainConfig(lr=0.01, batch_size=batch_size, epochs=4, precision=precision)
    how = functools.partial(torch.compile, mode=mode)
    network = rc.build_network("ResNet18", width=width, image_size=size)
    with mock.patch("torch.compile", how), mock.patch("torch.backends.cudnn.benchmark", cudnn_benchmark):
        run = rc.train(network, images, config, device=device, compile=compile, channels_last=channels_last)
    return round(len(images.y_train) / statistics.median(row["seconds"] for row in run.history[1:]))


def together(device, tiny):
    """Images per second of the three processes of the campaign at once; `images_per_second` is their sum."""
    folder = pathlib.Path(os.environ["RC_RESULTS"]) / "together"
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    command = [sys.executable, "-W", "default", "-m", "benchmarks.gpu_steps", "--device", device]
    command += ["--tiny"] * tiny
    steps = [f"one-{size}" for size in BATCH_SIZES]
    processes = [subprocess.Popen([*command, step], stdout=subprocess.PIPE, text=True) for step in steps]
    found = [json.loads(process.communicate()[0].splitlines()[-1])["images_per_second"] for process in processes]
    yield {"batch_sizes": BATCH_SIZES, "each": found, "images_per_second": sum(found)}


def one(device, tiny, batch_size):
    """One process of `together`: it is timed while all of them train."""
    folder, window = pathlib.Path(os.environ["RC_RESULTS"]) / "together", 0.2 if tiny else WINDOW
    ends = []

    def timed_out():
        if len(ends) == 0:
            (folder / str(batch_size)).touch()
        if len(ends) or len(list(folder.iterdir())) == len(BATCH_SIZES):
            ends.append(time.perf_counter())
        return len(ends) > 1 and ends[-1] - ends[0] > window

    images = _images(tiny, 8 if tiny else 32, number=64 if tiny else 10 * 1024)
    config = rc.TrainConfig(lr=0.01, batch_size=16 if tiny else batch_size, epochs=10**6, precision="bfloat16")
    network = _network(tiny) if tiny else rc.build_network("ResNet18", **PAPERS)
    try:
        rc.train(network, images, config, device=device, compile=not tiny, should_stop=timed_out)
    except StopTraining:
        yield {"images_per_second": round(len(images.y_train) * (len(ends) - 1) / (ends[-1] - ends[0]))}


@functools.cache
def _images(tiny, size=None, number=None):
    number = number or (64 if tiny else 1280)
    return rc.load_dataset("shapes", n_train=number, n_test=32, image_size=size or (8 if tiny else 16))


def _network(tiny, name="ResNet18", width=None, image_size=None):
    return rc.build_network(name, width=width or (4 if tiny else 8), image_size=image_size or (8 if tiny else 16))


def _trained(device, tiny, steps, name="ResNet18", width=None, **settings):
    """A network after so many steps; on the card with the same batches as on the CPU."""
    images = _images(tiny)
    config = rc.TrainConfig(lr=0.01, batch_size=len(images.y_train) // 4, epochs=steps // 4, **settings)
    return rc.train(_network(tiny, name, width), images, config, device=device)


STEPS = {step.__name__: step for step in (versions, data, checks, together, rates)}
STEPS |= {f"one-{size}": functools.partial(one, batch_size=size) for size in BATCH_SIZES}


def main(arguments=None):
    """Print the findings of a step."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_steps", description=__doc__.split("\n\n")[0])
    parser.add_argument("step", choices=STEPS)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1 if options.tiny else 4)
    for finding in STEPS[options.step](options.device, options.tiny):
        print(json.dumps(finding), flush=True)


if __name__ == "__main__":
    main()
