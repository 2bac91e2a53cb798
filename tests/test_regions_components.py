"""Counting components: against breadth-first search, between its two implementations, and at its edges."""

import importlib
import itertools
import resource
import warnings
from collections import deque

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rc_utils.regions import components, count_components, make_lattice

ADJACENCIES = ["face", "full", "simplex"]


def are_neighbours(step, adjacency):
    """The definition of each adjacency, from the difference of two grid positions."""
    if adjacency == "face":
        return sum(abs(s) for s in step) == 1
    if adjacency == "full":
        return max(abs(s) for s in step) == 1
    moved = [-sum(step), *step]
    return sorted(m for m in moved if m) == [-1, 1]


def count_by_search(grid, adjacency):
    """Breadth-first search over one grid, -1 outside."""
    steps = [s for s in itertools.product((-1, 0, 1), repeat=grid.ndim) if are_neighbours(s, adjacency)]
    unseen = {tuple(int(i) for i in cell) for cell in np.argwhere(grid >= 0)}
    count = 0
    while unseen:
        queue = deque([unseen.pop()])
        count += 1
        while queue:
            cell = queue.popleft()
            for step in steps:
                near = tuple(c + s for c, s in zip(cell, step, strict=True))
                if near in unseen and grid[near] == grid[cell]:
                    unseen.remove(near)
                    queue.append(near)
    return count


@st.composite
def label_grids(draw):
    """A batch of random grids in one to five dimensions, with or without cells outside."""
    dim = draw(st.integers(1, 5))
    longest = {1: 30, 2: 9, 3: 5, 4: 3, 5: 3}[dim]
    shape = draw(st.tuples(*[st.integers(1, longest)] * dim))
    seed = draw(st.integers(0, 2**32 - 1))
    classes = draw(st.integers(1, 4))
    lowest = draw(st.sampled_from([-1, 0]))
    dtype = draw(st.sampled_from([np.int8, np.int32, np.int64]))
    return np.random.default_rng(seed).integers(lowest, classes, size=(3, *shape)).astype(dtype)


@given(labels=label_grids(), adjacency=st.sampled_from(ADJACENCIES))
@settings(max_examples=60, deadline=None)
def test_grids_agree_with_breadth_first_search(labels, adjacency):
    expected = [count_by_search(grid, adjacency) for grid in labels]
    assert count_components(labels, adjacency).tolist() == expected


@given(
    dim=st.integers(1, 5),
    domain=st.sampled_from(["simplex", "box"]),
    adjacency=st.sampled_from(ADJACENCIES),
    classes=st.integers(1, 4),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=40, deadline=None)
def test_lattices_agree_with_breadth_first_search(dim, domain, adjacency, classes, seed):
    if domain == "box":
        dim, adjacency = 2, "full" if adjacency == "simplex" else adjacency
    lattice = make_lattice(dim, {1: 25, 2: 8, 3: 5, 4: 4, 5: 3}[dim], domain=domain, adjacency=adjacency)
    labels = np.random.default_rng(seed).integers(-1, classes, size=(3, lattice.num_points))
    expected = [count_by_search(grid, adjacency) for grid in lattice.to_grid(labels)]
    assert components.count_along_edges(labels, lattice.edges).tolist() == expected
    assert components.count_by_graph(labels, lattice.edges).tolist() == expected
    assert count_components(lattice.to_grid(labels), adjacency).tolist() == expected


def test_large_smooth_grids_with_and_without_numba(monkeypatch):
    """Long winding components, and more than one block of grids."""
    waves = np.sin(np.arange(60) / 4)[:, None] * 8 + np.arange(60)
    labels = np.stack([(waves / (3 + b)).astype(int) % 3 for b in range(6)])
    expected = [count_by_search(grid, "face") for grid in labels]
    assert len(set(expected)) > 2
    assert count_components(labels).tolist() == expected
    monkeypatch.setattr(components, "_compiled_kernel", lambda: None)
    monkeypatch.setattr(components, "BLOCK_ELEMENTS", 2 * 60 * 60 * 2)
    assert count_components(labels).tolist() == expected


def test_labels_of_any_size_and_memory_layout():
    assert count_components(np.full((2, 3, 3), -1)).tolist() == [0, 0]
    labels = np.array([[[0, 2**40, 2**40], [-1, 7, 7]]])
    assert count_components(labels).tolist() == [3]
    read_only = np.broadcast_to(np.uint8([[0, 1], [0, 1]]), (4, 2, 2))
    assert count_components(read_only).tolist() == [2] * 4
    assert count_components(read_only[:, ::-1]).tolist() == [2] * 4
    assert count_components(np.array([[[True, False], [True, False]]])).tolist() == [2]
    for label in (2**31 - 1, 2**31, 2**32 - 1, 2**32):
        assert count_components(np.array([[[label, 0], [label, label]]])).tolist() == [2]
    for kind in (">i8", "uint64"):
        assert count_components(np.array([[[2**62, 0], [2**62, 2**62]]], dtype=kind)).tolist() == [2]


def test_kind_of_result_follows_the_labels():
    labels = np.zeros((2, 3, 3), dtype=int)
    assert count_components(torch.from_numpy(labels)).dtype == torch.int64
    assert isinstance(count_components(labels), np.ndarray)
    assert count_components(labels[:0]).tolist() == []


@pytest.mark.parametrize(
    ("labels", "adjacency", "message"),
    [
        (np.zeros((2, 3)), "face", "expected integers"),
        (np.zeros(3, dtype=int), "face", r"expected \(B, \*grid\)"),
        (np.full((1, 3), -2), "face", "labels hold -2"),
        (np.zeros((1, 3), dtype=int), "faces", "Did you mean 'face'"),
    ],
)
def test_bad_labels_are_named(labels, adjacency, message):
    with pytest.raises(ValueError, match=message):
        count_components(labels, adjacency)


def first_labels(labels, edges):
    """Stands for the counting: as little to compile as there can be."""
    return labels[:, 0].copy()


def test_counting_works_without_a_sound_cache_of_compiled_code(tmp_path, monkeypatch):
    numba = pytest.importorskip("numba")
    compiled = importlib.import_module("rc_utils.regions._union_find").compiled
    monkeypatch.setattr(numba.config, "CACHE_LOCATOR_CLASSES", "UserProvidedCacheLocator")

    def what_it_says(cache):
        monkeypatch.setattr(numba.config, "CACHE_DIR", str(cache))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            kernel = compiled(first_labels)
        assert kernel(np.array([[3, 1]]), np.zeros((1, 2), np.int32)).tolist() == [3]
        return " ".join(str(warning.message) for warning in caught)

    assert what_it_says(tmp_path / "cache") == ""
    for path in (tmp_path / "cache").rglob("*.nb*"):
        path.write_bytes(path.read_bytes()[:50])
    assert what_it_says(tmp_path / "cache").startswith("the compiled counting is not kept on disk")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        assert what_it_says(tmp_path / "full").startswith("the compiled counting is not kept on disk")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "cannot cache function" in what_it_says("/dev/null/cache")


def test_grids_of_too_many_neighbours_are_refused_at_once():
    labels = np.zeros((1,) + (2,) * 16, dtype=np.int8)
    with pytest.raises(ValueError, match="65,536 points with 43,046,720 neighbours each; use adjacency 'face'"):
        count_components(labels, "full")
    assert count_components(labels, "face").tolist() == [1]
