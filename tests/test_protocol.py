"""The studies of the count were run after their protocol was written, and as it says."""

import json
import re
import shutil
import subprocess

import pytest

from rc_utils.paths import campaigns_dir, project_root

PROTOCOL = "book/protocol.md"


def git(*arguments):
    if not shutil.which("git"):
        pytest.skip("needs git")
    command = ["git", "-C", project_root(), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def is_ancestor(revision, other):
    return git("merge-base", "--is-ancestor", revision, other).returncode == 0


@pytest.mark.parametrize(("campaigns", "search"), [
    ("study-*", ["--diff-filter=A"]),
    ("twins-*", ["-S", "### Study 6. Twins"]),
    ("gap-*", ["-S", "### Study 7. At the paper's gap"]),
])  # fmt: skip
def test_every_record_was_made_by_a_revision_that_has_the_protocol(campaigns, search):
    found = git("log", *search, "--format=%H", "--", PROTOCOL).stdout.split()
    if not found or git("rev-parse", "--is-shallow-repository").stdout.strip() == "true":
        pytest.skip("needs the repository with its history")
    protocol = found[-1]  # the first commit that `search` finds
    assert not is_ancestor(protocol, f"{protocol}~1")
    for path in campaigns_dir().glob(f"{campaigns}/runs.jsonl"):
        records = map(json.loads, path.read_text(encoding="utf-8").splitlines())
        for revision in {record["provenance"]["git_revision"] for record in records}:
            commit = re.fullmatch(r"(?:.*-g)?([0-9a-f]{7,40})", revision)
            assert commit, f"{path}, {revision}: made with uncommitted changes, or elsewhere"
            assert is_ancestor(protocol, commit[1]), f"{path}, {revision}"
