"""All that a graphics card is lent for, in one command: `python -m benchmarks.gpu --out FOLDER`.

Checks of results against the CPU, speeds, and a campaign in three processes at once. It is made for a machine that is
lent for half an hour in commands of ten minutes: the command is given again until it says that the campaign is
finished, and does what is left. Every step is a process with a limit of its own, and none stops the next. What was
found is in FOLDER/report.jsonl, a line a step; FOLDER/state.tar.gz has the records and the logs as well, from which
another machine goes on (`--resume`).
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import signal
import subprocess
import sys
import tarfile
import time

from rc_utils.paths import project_root, write_atomically

SHARDS = 3
PAUSE = 30  # seconds between two copies of what is finished
# Least images per second of all processes together -> experiments of the campaign that fit into the time.
CHOICES = {36_000: ("main", "paper-cell"), 26_000: ("main",), 18_000: ("shorter",), 0: ("narrow",)}
EXPECTED_RATE = 26_000  # where none could be measured
PYTHON = [sys.executable, "-W", "default", "-m"]
PACKED = ("report.jsonl", "logs", "results/records", "shards")


def groups(options):
    """Steps as {name: (seconds it may take, command)}; those of a group run beside each other."""
    tiny = ["--tiny"] * options.tiny

    def own(step):
        return [*PYTHON, "benchmarks.gpu_steps", step, "--device", options.device, *tiny]

    files = [f"tests/test_{name}.py" for name in ("regions_components", "training", "datasets", "regions_count")]
    pytest = [
        *PYTHON,
        "pytest",
        "-q",
        "-W",
        "default",
        "--continue-on-collection-errors",
        "-p",
        "no:cacheprovider",
        *files,
    ]
    sweep = [*PYTHON, "rc_utils.sweep", "cifar10-small", "--experiment", "short", "--device", options.device]
    beside = {"checks": (110, own("checks"))}
    if not options.tiny:
        beside |= {"tests": (110, pytest), "verify": (110, [*sweep, "--verify", "4"])}
    return [
        {"versions": (60, own("versions"))},
        {"data": (90, own("data"))},
        beside,
        {"together": (150, own("together"))},
        {"rates": (90, own("rates"))},
    ]


def main(arguments=None):
    """Do what is left of the steps and of the campaign; returns 0 when nothing is left, else 3."""
    options = _parser().parse_args(arguments)
    ends = time.monotonic() + options.seconds
    state, out = options.state, options.out
    if not state.exists() and options.resume.exists():
        with tarfile.open(options.resume) as archive:
            archive.extractall(state, filter="data")
        for old in (state / "shards").glob("*.pid"):  # processes of another machine
            old.unlink()
    (state / "logs").mkdir(parents=True, exist_ok=True)
    (state / "shards").mkdir(exist_ok=True)
    out.mkdir(parents=True, exist_ok=True)
    environment = os.environ | {
        "RC_DATA": str(_data_folder(state)),
        "RC_RESULTS": str(state / "results"),
        "TORCHINDUCTOR_CACHE_DIR": str(state / "compiled"),
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
    }
    for group in groups(options):
        _run_group(group, state, environment)
        _pack(state, out)
    experiments = _chosen(state, options)
    _start_shards(experiments, options, environment)
    while time.monotonic() < ends and _running(state):
        time.sleep(min(PAUSE, max(0.0, ends - time.monotonic())) if not options.tiny else 0.2)
        _pack(state, out)
    _pack(state, out)
    left = [shard for shard in range(SHARDS) if _exit_status(state, shard) != "0"]
    print("\n".join(_summary(state, experiments, left)))
    return 3 if left else 0


def _run_group(group, state, environment):
    """Run the steps of a group that are not in the report, beside each other."""
    done = {entry["step"] for entry in _report(state)}
    if not (_data_folder(state) / "cifar10.npz").exists():
        done -= {"data"}  # the images do not travel with the report
    todo = {name: step for name, step in group.items() if name not in done}
    with concurrent.futures.ThreadPoolExecutor() as pool:
        entries = [pool.submit(_run_step, name, *step, state, environment) for name, step in todo.items()]
        for entry in concurrent.futures.as_completed(entries):
            with open(state / "report.jsonl", "a", encoding="utf-8") as file:
                file.write(json.dumps(entry.result()) + "\n")


def _data_folder(state):
    """Folder of the images: the usual one if it has them, else one beside the records."""
    usual = pathlib.Path(os.environ.get("RC_DATA") or project_root() / "data")
    return usual if (usual / "cifar10.npz").exists() else state / "data"


def _run_step(name, limit, command, state, environment):
    """Run one step; returns its line of the report: what it printed as JSON, or the end of its log."""
    started, log = time.monotonic(), state / "logs" / f"{name}.txt"
    with open(log, "w", encoding="utf-8") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file, env=environment, start_new_session=True)
        try:
            status = process.wait(limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            status = "late"
    lines = log.read_text(encoding="utf-8").splitlines()
    found = [json.loads(line) for line in lines if line.startswith("{")]
    entry = {"step": name, "status": status, "seconds": round(time.monotonic() - started, 1), "found": found}
    return entry if found and status == 0 else entry | {"tail": lines[-12:]}


def _report(state):
    path = state / "report.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def _chosen(state, options):
    """The experiments for which the measured speed leaves time; those of the first call stay chosen."""
    path = state / "chosen.json"
    if not path.exists():
        found = [line for entry in _report(state) if entry["step"] == "together" for line in entry["found"]]
        rate = found[0]["images_per_second"] if found else EXPECTED_RATE
        choice = next(names for least, names in CHOICES.items() if rate >= least)
        path.write_text(json.dumps(("main",) if options.tiny else choice), encoding="utf-8")
    return json.loads(path.read_text(encoding="utf-8"))


def _start_shards(experiments, options, environment):
    """Start the shards of the campaign that neither run nor are finished; they outlive this process."""
    for shard in range(SHARDS):
        if _exit_status(options.state, shard) == "0" or _is_running(options.state, shard):
            continue
        common = f"--device {options.device} --shard {shard}/{SHARDS}" + " --compile" * (not options.tiny)
        python = f"{sys.executable} -W default -m rc_utils.sweep {options.campaign}"
        sweeps = " && ".join(f"{python} --experiment {name} {common}" for name in experiments)
        file = options.state / "shards" / str(shard)
        file.with_suffix(".status").unlink(missing_ok=True)
        apart = f"setsid sh -c '{sweeps}; echo $? > {file}.status' & echo $! > {file}.pid"
        with open(options.state / "logs" / f"shard-{shard}.txt", "a", encoding="utf-8") as log:
            subprocess.run(["sh", "-c", apart], stdout=log, stderr=log, env=environment, check=True)


def _exit_status(state, shard):
    path = state / "shards" / f"{shard}.status"
    return path.read_text(encoding="utf-8").strip() if path.exists() else None


def _is_running(state, shard):
    pid = state / "shards" / f"{shard}.pid"
    if _exit_status(state, shard) is not None or not pid.exists():
        return False
    command = pathlib.Path("/proc", pid.read_text(encoding="utf-8").strip(), "cmdline")
    return command.exists() and b"rc_utils.sweep" in command.read_bytes()


def _running(state):
    return any(_is_running(state, shard) for shard in range(SHARDS))


def _pack(state, out):
    """Copy the report, the records and the logs to the folder that comes back."""
    if (state / "report.jsonl").exists():
        write_atomically(out / "report.jsonl", (state / "report.jsonl").read_bytes())
    unfinished = out / "state.tar.gz.part"
    with tarfile.open(unfinished, "w:gz") as archive:
        for name in (*PACKED, "chosen.json"):
            if (state / name).exists():
                archive.add(state / name, name)
    os.replace(unfinished, out / "state.tar.gz")


def _summary(state, experiments, left):
    """Lines for a reader: each step, and how far the campaign is."""
    for entry in _report(state):
        failed = [found.get("check", "?") for found in entry["found"] if found.get("ok") is False]
        text = f"failed: {', '.join(failed)}" if failed else f"{len(entry['found'])} findings"
        yield f"{entry['step']}: status {entry['status']}, {entry['seconds']} s, {text}"
    records = len(list((state / "results" / "records").glob("*.json")))
    yield f"campaign, {' and '.join(experiments)}: {records} records, shards left: {left or 'none'}"


def _parser():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder of what comes back")
    parser.add_argument("--state", type=pathlib.Path, default=pathlib.Path("/tmp/region-counts"), help="working folder")
    resume = {"type": pathlib.Path, "default": pathlib.Path("data/state.tar.gz")}
    parser.add_argument("--resume", **resume, help="state.tar.gz that came back from another machine")
    parser.add_argument("--campaign", default="cifar10-h100")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=560.0, help="after which the command ends (default 560)")
    parser.add_argument("--tiny", action="store_true", help="a rehearsal of all steps in seconds")
    return parser


if __name__ == "__main__":
    sys.exit(main())
