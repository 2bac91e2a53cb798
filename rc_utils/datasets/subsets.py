"""Which samples of a dataset are used: some classes, a balanced subset, wrong labels; all by seed."""

from dataclasses import dataclass

import numpy as np

from rc_utils.checks import unknown_name

# Second entry of the seed of each random choice, so that no two choices share a stream.
_STREAMS = {"train": 2, "test": 3, "label noise": 4, "split": 5}


def stream(seed, purpose):
    """The random generator of one purpose ("train", "test", "label noise", "split") under a seed."""
    return np.random.default_rng([seed, _STREAMS[purpose]])


@dataclass(frozen=True)
class Choice:
    """What is asked of a dataset; None means all of it."""

    n_train: int | None = None
    n_test: int | None = None
    image_size: int | None = None
    classes: tuple | None = None
    seed: int = 0

    def select(self, labels, split, num_kept):
        """Indices (n,) of the chosen samples of one split, "train" or "test", balanced by class.

        labels: (N,) as `relabel` has them for `num_kept` classes, -1 for a sample that is left out. All samples come
        in their stored order; fewer are drawn by seed, class counts as equal as the data allow, and the choice of
        fewer is the start of the choice of more. Raises ValueError where there are not as many, or none.
        """
        kept = np.flatnonzero(labels >= 0)
        n = {"train": self.n_train, "test": self.n_test}[split]
        if not len(kept):
            raise ValueError(f"there is no {split} sample in the {num_kept} chosen classes; choose others")
        if n is None:
            return kept
        if n > len(kept):
            raise ValueError(
                f"n_{split} is {n}, but there are {len(kept)} {split} samples in the {num_kept} chosen classes; "
                f"ask for at most {len(kept)}, or None for all"
            )
        return kept[balanced_order(labels[kept], stream(self.seed, split))[:n]]


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
    indices = tuple(_class_index(chosen, names) for chosen in classes)
    if len(indices) < 2 or len(set(indices)) < len(indices):
        raise ValueError(f"classes is {classes!r}; expected at least two different classes")
    return indices


def _class_index(chosen, names):
    if isinstance(chosen, str) and chosen in names:
        return names.index(chosen)
    if isinstance(chosen, int | np.integer) and not isinstance(chosen, bool) and 0 <= chosen < len(names):
        return int(chosen)
    raise unknown_name(f"class (names or indices 0 to {len(names) - 1})", chosen, names)


def relabel(labels, indices):
    """Labels as positions in indices, -1 for classes that are not among them."""
    positions = np.full(max(labels.max(), max(indices)) + 1, -1, dtype=np.int64)
    positions[list(indices)] = np.arange(len(indices))
    return positions[labels]


def add_label_noise(labels, fraction, num_classes, seed):
    """Replace round(fraction * N) labels, drawn without replacement, each by another class drawn uniformly."""
    if fraction > 0 and num_classes < 2:
        raise ValueError(f"label_noise is {fraction}, but there is one class alone: no label can be wrong")
    rng = stream(seed, "label noise")
    wrong = rng.permutation(len(labels))[: round(fraction * len(labels))]
    noisy = labels.copy()
    noisy[wrong] = (labels[wrong] + rng.integers(1, num_classes, len(wrong))) % num_classes
    return noisy
