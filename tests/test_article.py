"""The article: its numbers are those of the README, and its text has none typed in."""

import re

import pypdf
import pytest
from conftest import ROOT

from article import build
from rc_utils.published import Result


@pytest.fixture(autouse=True)
def kept(monkeypatch):
    results = [Result("main/overall", "", 0, -0.1, 0.2), Result("study/1/r", "", 1, detail="open")]
    monkeypatch.setattr(build, "kept_results", lambda: results)


@pytest.mark.slow
def test_the_article_is_whole_and_has_the_headline_numbers_of_the_readme(tmp_path):
    build.write(tmp_path / "article.pdf")
    pages = [page.extract_text() for page in pypdf.PdfReader(tmp_path / "article.pdf").pages]
    assert 6 <= len(pages) <= 10
    text = " ".join(" ".join(pages).split()).replace("−", "-")
    assert re.search(r"contradict these .* ours is 0\.00 \[-0\.10, 0\.20\].* References", text)
    assert "*" not in text  # no Markdown is left
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    results = re.search(r"<!-- results.*?-->(.*?)<!-- end of results -->", readme, re.DOTALL)[1]
    numbers = set(re.findall(r"-?\d+\.\d+", results))
    assert len(numbers) > 10
    assert [number for number in sorted(numbers) if number not in text] == []


def typed_numbers(source):
    """Numbers of several digits in a Typst text that belong to no length, string or name."""
    source = re.sub(r'^\s*//.*$|"[^"]*"|\d[\d.]*(pt|cm|em|fr|%)', "", source, flags=re.MULTILINE)
    return re.findall(r"(?<![\w-])\d[\d.,]*\d", source)


def test_no_number_is_typed_into_the_text_and_seeds_are_not_the_networks_that_have_them():
    found = [build.settings(name)["Seeds"] for name in ("cifar10-small", "cifar10-paper")]
    assert found == ["1 or 3", "3"]
    assert typed_numbers("It is 0.93 over 27 cells of CIFAR-10, 5pt.") == ["0.93", "27"]
    assert typed_numbers((ROOT / "article" / "article.typ").read_text(encoding="utf-8")) == []
