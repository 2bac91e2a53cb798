"""Every code block of the README and of the guide is run in a folder of its own, or checked.

A comment before a block says which (`<!-- test: run -->`; words in brackets say why); without one
it is checked:

    run         Python is executed, blocks of a page in one namespace; commands in this process
    parse       Python compiles, imports exist, calls of the package fit; arguments are taken
    file NAME   the block is checked, and written to NAME for the blocks after it

A block of `text` is what the block that was run before it prints.
"""

import ast
import contextlib
import importlib
import inspect
import io
import pathlib
import re
import shlex
import shutil
import sys
import typing

import pytest

import benchmarks.__main__
import rc_utils
from rc_utils import count, measures
from rc_utils.notebooks import find_notebook, main, notebook_parameters
from rc_utils.sweep import campaign
from rc_utils.sweep import execute as sweep

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "book" / "downloads.md"]
PAGES += sorted((ROOT / "book" / "guide").glob("*.md"))
_MARK = r"^<!-- test: (\w+)(?: ([\w./]+))?[^\n]*\n"
_BLOCK = re.compile(rf"(?:{_MARK})?^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(typing.NamedTuple):
    """A fenced block of a page and how it is tested; `place` is its page and its first line."""

    language: str
    text: str
    place: str = ""
    mode: str = "parse"
    name: str = ""


def blocks(path):
    """The fenced blocks of a Markdown file that name a language."""
    text = path.read_text()
    for match in _BLOCK.finditer(text):
        mode, name, language, code = match.groups(default="")
        line = text.count("\n", 0, match.start(3)) + 1
        yield Block(language, code, f"{path.name}, line {line}", mode or "parse", name)


def commands(block):
    """The commands of a console block, as lists of words, comments left out."""
    for line in block.text.splitlines():
        assert line.startswith("$ "), f"line {line!r} of a console block is no command"
        yield shlex.split(line[2:], comments=True)


# What is behind a command's first words -> a check of the rest. An unknown command fails the test.


def check_sweep(words):
    options = sweep._parser().parse_args(words)
    known = campaign.list_campaigns()
    assert pathlib.Path(options.campaign).name in [*known, "copy", "mine"], options.campaign
    if options.experiment:
        campaign.load_campaign(options.campaign).restricted(options.experiment)


def check_notebook(words):
    name, *rest = words
    given = {rest[i + 1] for i, word in enumerate(rest) if word == "-p"}
    assert {word for word in rest if word.startswith("-")} <= {"-p", "-o"}
    assert given <= set(notebook_parameters(find_notebook(name)))


def check_make(words):
    lines = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert {word for word in words if "=" not in word} <= set(" ".join(lines).split())


CHECK_COUNT = count._parser().parse_args
CHECKS = {
    (".venv/bin/python", "-m", "rc_utils.sweep"): check_sweep,
    (".venv/bin/python", "-m", "rc_utils.count"): CHECK_COUNT,
    (".venv/bin/python", "-m", "rc_utils.notebooks"): check_notebook,
    (".venv/bin/python", "-m", "benchmarks"): benchmarks.__main__._parser().parse_args,
    ("python", "-m", "pip", "install", "."): lambda words: None,
    (".venv/bin/dask",): lambda words: None,
    ("make",): check_make,
    ("cp", "-r"): lambda words: next(ROOT.glob(words[-2])),
}
MAINS = {check_sweep: sweep.main, check_notebook: main, CHECK_COUNT: count.main}


def check_command(words):
    """Check a command; returns its check and the words that it is given."""
    for start, check in CHECKS.items():
        if tuple(words[: len(start)]) == start:
            check(words[len(start) :])
            return check, words[len(start) :]
    raise AssertionError(f"no check for the command {shlex.join(words)}: add one to CHECKS")


def check_python(text):
    """The block compiles, its imports exist, and its calls of the package fit the signatures."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                importlib.import_module(alias.name)
        elif isinstance(node, ast.ImportFrom):
            module = importlib.import_module(node.module)
            assert all(hasattr(module, alias.name) for alias in node.names), ast.unparse(node)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).startswith("rc."):
            function = getattr(rc_utils, ast.unparse(node.func).removeprefix("rc."))
            given = {keyword.arg: keyword.value for keyword in node.keywords}
            inspect.signature(function).bind(*node.args, **given)


def check_block(block):
    """Raise unless the block's words are ones that the code takes."""
    if block.language == "python":
        check_python(block.text)
    elif block.language == "console":
        for words in commands(block):
            check_command(words)
    elif block.language == "bash":
        text = block.text.replace('"$SLURM_ARRAY_TASK_ID/16"', "3/16").replace("\\\n", "")
        for line in re.findall(r"^\.venv/bin/.*$", text, re.MULTILINE):
            check_command(shlex.split(line))
    elif block.language not in ("text", "mermaid", "toml"):
        raise AssertionError(f"no check for a block in {block.language}: add one to check_block")


def run_block(block, namespace):
    """Run a block; returns what it printed, by Python alone."""
    printed = io.StringIO()
    if block.language == "python":
        with contextlib.redirect_stdout(printed):
            exec(compile(block.text, block.place, "exec"), namespace)
        return printed.getvalue()
    for words in commands(block):
        check, rest = check_command(words)
        assert MAINS[check](rest) == 0, shlex.join(words)
    return printed.getvalue()


@pytest.fixture
def reader(tmp_path, monkeypatch):
    """A reader's folder: campaigns and data of its own, nothing left behind in this process."""
    shutil.copytree(ROOT / "campaigns" / "shapes-tiny", tmp_path / "campaigns" / "shapes-tiny")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("RC_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("RC_CAMPAIGNS", str(tmp_path / "campaigns"))
    monkeypatch.setattr(measures, "MEASURES", measures.MEASURES | {})
    yield tmp_path
    for name in ("my_models", "my_module"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_mark_is_known_and_has_a_block_and_what_is_not_run_is_taken(page):
    text = page.read_text()
    marked = [match for match in _BLOCK.finditer(text) if match[1]]
    assert len(re.findall(_MARK, text, re.MULTILINE)) == len(marked)
    for block in blocks(page):
        assert block.mode in ("run", "parse", "file"), block.place
        if block.mode in ("parse", "file"):
            try:
                check_block(block)
            except (Exception, SystemExit) as error:
                pytest.fail(f"{block.place}: {error!r}")


RUN = [page for page in PAGES if any(block.mode == "run" for block in blocks(page))]


@pytest.mark.slow
@pytest.mark.parametrize("page", RUN, ids=lambda page: page.stem)
def test_what_is_run_runs(page, reader):
    namespace, printed = {"__name__": page.stem}, ""
    try:
        for block in blocks(page):
            try:
                if block.mode == "file":
                    (reader / block.name).parent.mkdir(parents=True, exist_ok=True)
                    (reader / block.name).write_text(block.text)
                elif block.mode == "run":
                    printed = run_block(block, namespace)
                elif block.language == "text":
                    assert block.text == printed
            except (Exception, SystemExit) as error:
                raise AssertionError(block.place) from error
    finally:
        if "cluster" in namespace:
            namespace["cluster"].close()
