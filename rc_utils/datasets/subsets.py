"""Which samples of a dataset are used: some classes, a balanced subset, wrong labels; all by seed."""

from dataclasses import replace

import numpy as np

from rc_utils.checks import require, unknown_name

# Second entry of the seed of each random choice, so that no two choices share a stream.
_STREAMS = {"train": 2, "test": 3, "label noise": 4, "split": 5}


def stream(seed, purpose):
    """The random generator of one purpose ("train", "test", "label noise", "split") under a seed."""
    return np.random.default_rng([seed, _STREAMS[purpose]])


def choose(arrays, *, n_train, n_test, classes, seed):
    """The chosen classes and samples of `rc_utils.datasets.cache.Arrays`; labels are positions among the classes.

    classes: names or indices, None for all. n_train, n_test: None for all samples of these classes, in their stored
    order; fewer are drawn by seed, class counts as equal as the data allow, and the choice of fewer is the start of
    the choice of more. Raises ValueError where there are not as many, or none.
    """
    indices = resolve_classes(classes, arrays.classes)
    positions = np.full(len(arrays.classes), -1)
    positions[list(indices)] = np.arange(len(indices))
    chosen = {"classes": tuple(arrays.classes[i] for i in indices)}
    for split, n in (("train", n_train), ("test", n_test)):
        labels = positions[getattr(arrays, f"y_{split}")]
        kept = np.flatnonzero(labels >= 0)
        found = f"there are {len(kept)} {split} samples in the {len(indices)} chosen classes"
        require(len(kept) >= (n or 1), f"n_{split} is {n}, but {found}")
        if n is not None:
            kept = kept[balanced_order(labels[kept], stream(seed, split))[:n]]
        chosen |= {f"x_{split}": getattr(arrays, f"x_{split}")[kept], f"y_{split}": labels[kept]}
    return replace(arrays, **chosen)


def balanced_order(labels, rng):
    """A random permutation of the samples that goes round the classes: every start of it is as balanced as can be."""
    shuffled = rng.permutation(len(labels))
    by_class = shuffled[np.argsort(labels[shuffled], kind="stable")]
    first_of_class = np.searchsorted(labels[by_class], labels[by_class])
    turn = np.empty(len(labels), dtype=np.int64)
    turn[by_class] = np.arange(len(labels)) - first_of_class
    return shuffled[np.argsort(turn[shuffled], kind="stable")]


def resolve_classes(classes, names):
    """Indices of the chosen classes, given by index or by name; all of them for None.

    Raises ValueError for an unknown class, with the nearest name, fewer than two, and the same class twice.
    """
    if classes is None:
        return tuple(range(len(names)))
    indices = []
    for chosen in classes:
        if chosen not in (names if isinstance(chosen, str) else range(len(names))):
            raise unknown_name(f"class (names or indices 0 to {len(names) - 1})", chosen, names)
        indices.append(names.index(chosen) if isinstance(chosen, str) else int(chosen))
    different = len(indices) > 1 and len(set(indices)) == len(indices)
    require(different, f"classes is {classes!r}; expected at least two different classes")
    return tuple(indices)


def add_label_noise(labels, fraction, num_classes, seed):
    """Replace round(fraction * N) labels, drawn without replacement, each by another class drawn uniformly."""
    rng = stream(seed, "label noise")
    wrong = rng.permutation(len(labels))[: round(fraction * len(labels))]
    noisy = labels.copy()
    noisy[wrong] = (labels[wrong] + rng.integers(1, num_classes, len(wrong))) % num_classes
    return noisy
