"""Put random faults into the core modules, one at a time, and see which the tests notice: `make mutants`.

A fault is another comparison, operator, number or condition, or a call left out, in a copy of the package. It is caught
where a test in the files below fails or does not end. The others are printed: they are gaps in the tests, or change
nothing that matters, such as the size of a block; a reader says which.
"""

import argparse
import ast
import copy
import os
import pathlib
import random
import re
import shutil
import signal
import sys
import tempfile
import time

import pytest
import torch  # noqa: F401  (imported once for all forks)
from tqdm import tqdm

ROOT = pathlib.Path(__file__).resolve().parents[1]
# Modules of rc_utils, and the test files that are to notice their faults.
TESTS = {
    r"counting/(classifier|evaluation)\.py": "counting_door counting_regions",
    r"counting/(count|sampling|lattice)\.py": "counting_lattice counting_regions counting_door",
    r"counting/mesh\.py": "counting_mesh",
    r"counting/segments\.py": "counting_segments counting_mesh",
    r"training/(config|loop|augmentation)\.py": "training_plain training_interventions training",
    r"sweep/campaign\.py": "sweep_campaign sweep_trust",
    r"sweep/records\.py": "sweep_records sweep_trust",
    r"sweep/run\.py": "sweep_execute",
    r"networks/registry\.py": "networks sweep_execute",
    r"checks\.py": "doors training sweep_trust networks",
    r"correlation\.py": "correlation doors",
    r"(published|authors)\.py": "published",
}
OTHER = {"Lt": ast.LtE, "LtE": ast.Lt, "Gt": ast.GtE, "GtE": ast.Gt, "Eq": ast.NotEq, "NotEq": ast.Eq, "In": ast.NotIn,
         "NotIn": ast.In, "Is": ast.IsNot, "IsNot": ast.Is, "Add": ast.Sub, "Sub": ast.Add, "Mult": ast.Div,
         "Div": ast.Mult, "FloorDiv": ast.Mult, "Mod": ast.Mult, "Pow": ast.Mult, "BitAnd": ast.BitOr,
         "BitOr": ast.BitAnd, "And": ast.Or, "Or": ast.And}  # fmt: skip


def mutated(node):
    """A copy of the node with a fault in it, or None for one that gets none."""
    node = copy.deepcopy(node)
    if isinstance(node, ast.Compare):
        node.ops[0] = OTHER[type(node.ops[0]).__name__]()
    elif isinstance(node, ast.BoolOp | ast.BinOp | ast.AugAssign) and type(node.op).__name__ in OTHER:
        node.op = OTHER[type(node.op).__name__]()
    elif isinstance(node, ast.Constant) and type(node.value) in (bool, int, float):
        node.value = not node.value if isinstance(node.value, bool) else node.value + 1
    elif isinstance(node, ast.If | ast.While | ast.IfExp):
        node.test = ast.UnaryOp(ast.Not(), node.test)
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return ast.Pass()
    else:
        return None
    return node


class Fault(ast.NodeTransformer):
    """Puts a fault at the place of this number among those inside functions; `places` is how many it has passed."""

    def __init__(self, number):
        self.number, self.places, self.text = number, 0, ""

    def visit(self, node):
        if isinstance(node, ast.Module | ast.ClassDef):
            node.body = [self.visit(n) if isinstance(n, ast.ClassDef | ast.FunctionDef) else n for n in node.body]
            return node
        if isinstance(node, ast.FunctionDef):
            node.body = [self.visit(n) for n in node.body]
            return node
        inside = not isinstance(node, ast.JoinedStr | ast.Import | ast.ImportFrom | ast.AnnAssign)
        changed = mutated(node) if inside else None
        self.places += changed is not None
        if changed is None or self.places != self.number:
            return self.generic_visit(node) if inside else node
        before, after = (ast.unparse(n).splitlines()[0] for n in (node, changed))
        self.text = f"line {node.lineno}: {before}  ->  {after}"
        return changed


def fails(folder, tests, limit):
    """Whether the tests fail or do not end in `limit` seconds, with the package in `folder`; in a fork."""
    child, started = os.fork(), time.monotonic()
    if child == 0:
        os.setsid()
        for stream in (1, 2):
            os.dup2(os.open(os.devnull, os.O_RDWR), stream)
        os.environ |= {"PYTHONPATH": folder, "RC_EXAMPLES": "100"}
        sys.path.insert(0, folder)
        files = [str(ROOT / "tests" / f"test_{name}.py") for name in tests.split()]
        os._exit(pytest.main(["-x", "-q", "-m", "not slow", "-p", "no:cacheprovider", *files]))
    while time.monotonic() - started < limit:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status != 0
        time.sleep(0.2)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return True


def places(package, only):
    """(module, tests, number of the place) of every fault that could be made in the core modules."""
    for path in sorted(str(file.relative_to(package)) for file in package.rglob("*.py")):
        tests = [names for pattern, names in TESTS.items() if re.fullmatch(pattern, path)]
        if tests and re.search(only, path):
            counter = Fault(0)
            counter.visit(ast.parse((package / path).read_text()))
            yield from ((path, tests[0], number) for number in range(1, counter.places + 1))


def main():
    """Print each fault and whether it is caught; 1 where less than 95 of 100 are."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--number", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="modules whose path holds this regular expression")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for path in ROOT.iterdir():  # Campaigns and the like are looked for beside the package.
            if path.name != "rc_utils":
                (pathlib.Path(folder) / path.name).symlink_to(path)
        package = shutil.copytree(ROOT / "rc_utils", pathlib.Path(folder) / "rc_utils")
        every, caught = list(places(package, options.only)), []
        chosen = random.Random(options.seed).sample(every, min(options.number, len(every)))
        limits = {}
        for tests in sorted({tests for _, tests, _ in chosen}):
            started = time.monotonic()
            if fails(folder, tests, 3600):
                sys.exit(f"these tests fail without a fault: {tests}")
            limits[tests] = 60 + 5 * (time.monotonic() - started)
        for path, tests, number in tqdm(chosen, unit="fault"):
            source, fault = (package / path).read_text(), Fault(number)
            (package / path).write_text(ast.unparse(ast.fix_missing_locations(fault.visit(ast.parse(source)))))
            caught.append(fails(folder, tests, limits[tests]))
            (package / path).write_text(source)
            tqdm.write(f"{len(caught)}: {'caught' if caught[-1] else 'SURVIVED'}  {path} {fault.text}")
    print(f"{sum(caught)} of {len(caught)} faults are caught, of {len(every)} places for one")
    return int(sum(caught) < 0.95 * len(caught))


if __name__ == "__main__":
    sys.exit(main())
