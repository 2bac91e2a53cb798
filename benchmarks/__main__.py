"""The command line: `python -m benchmarks [--quick] [--only NAME]`."""

import argparse
import sys
import time

import torch
from tqdm import tqdm

import benchmarks
from benchmarks.registry import FULL, QUICK
from benchmarks.report import as_text, header, table
from rc_utils.paths import results_dir
from rc_utils.validation import unknown_name


def main(arguments=None):
    """Run benchmarks, print and write their table; returns 2 for an unknown name, else 0."""
    options = _parser().parse_args(arguments)
    known = benchmarks.load()
    unknown = [name for name in options.only or () if name not in known]
    if unknown:
        print(f"error: {unknown_name('benchmark', unknown[0], known)}", file=sys.stderr)
        return 2
    torch.set_num_threads(options.threads)
    scale = QUICK if options.quick else FULL
    now = time.strftime("%Y-%m-%d-%H%M%S")  # so that no run replaces the table of another
    path, rows = results_dir() / f"benchmarks-{now}.csv", []
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        bar = tqdm(list(options.only or known), unit="benchmark")
        for name in bar:
            bar.set_description(f"running {name}")
            for row in known[name](scale):
                rows.append(row)
                table(rows).to_csv(path, index=False)
    finally:
        if rows:  # after an interrupt or an error as well
            print(f"{header(scale)}\n\n{as_text(table(rows))}\n\nwritten to {path}")
    if not rows:
        print("nothing was measured: `gpu` needs a card")
    return 0


def _parser():
    about = benchmarks.__doc__.split("\n\n")[0]
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=about)
    parser.add_argument("--quick", action="store_true", help="fewer repeats and images")
    only = "benchmarks to run (default: all, of which triangles takes hours)"
    parser.add_argument("--only", nargs="+", metavar="NAME", help=only)
    threads = "torch threads (default 1, as in a campaign)"
    parser.add_argument("--threads", type=int, default=1, help=threads)
    return parser


if __name__ == "__main__":
    sys.exit(main())
