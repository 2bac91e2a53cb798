"""One kind of model for all counting: scores or labels of a batch of points, probed before use."""

import contextlib
import dataclasses
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import torch
from torch import nn

from rc_utils.checks import check_count, require
from rc_utils.counting.evaluation import (
    is_out_of_memory,
    read_batches,
    read_outputs,
    undisturbed,
)
from rc_utils.counting.sampling import as_points, as_tensor, gather, precision_of


class Points(Protocol):
    """Data points (N, *shape): anything with a length and integer-array indexing."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: Any, /) -> Any: ...


class Predictor(Protocol):
    """A classifier as scikit-learn has them."""

    def predict(self, points: Any, /) -> Any: ...


Model = nn.Module | Predictor | Callable[[Any], Any]

# Label of a point whose scores are not all finite.
NON_FINITE = -(2**63)
# Points of the probe, and the shares of the spread of the scores by which they may differ between
# two calls, and between batches of other sizes, which have other matrix kernels: of the nine
# networks by some 1e-6.
NUM_PROBED, CALL_TOLERANCE, BATCH_TOLERANCE = 12, 1e-5, 1e-4


class NonFiniteScores(ValueError):
    """The model's scores are NaN or infinite where a label is asked for."""


@dataclasses.dataclass(frozen=True, eq=False)
class Classifier:
    """A model of any kind: from a batch (n, *shape) to scores (n, C), C >= 2, or labels (n,) int64.

    Attributes:
        call: from a batch of `dtype` on `device` to what the model returns.
        module: the torch module, whose modes are to be kept; None for other models.
        per_call_cost: whether a call has a high fixed cost, so that batches should be large.
        tick: called with the number of points that were evaluated.
    """

    call: Callable
    device: torch.device
    dtype: torch.dtype = torch.float32
    module: nn.Module | None = None
    per_call_cost: bool = False
    tick: Callable = int

    def __call__(self, batch):
        """Evaluate a batch; ValueError for outputs that are neither scores nor labels."""
        try:
            output = self.call(batch)
        except (RuntimeError, ValueError) as error:
            if is_out_of_memory(error):
                raise
            raise ValueError(
                f"the model failed on a batch of shape {tuple(batch.shape)}: {error}. "
                "Have the points the shape it takes?"
            ) from error
        output, n = as_tensor("the model's outputs", output), len(batch)
        floats = output.is_floating_point()
        require(
            not floats or output.itemsize > 2,
            f"the model's outputs are {output.dtype}; near a boundary a rounded score is another "
            "label: compute them in float32, for a network by model.float()",
        )
        if not floats:
            output = output.to(torch.int64)
        if output.ndim == 2 and len(output) == n and output.shape[1] >= 2:
            return output
        require(
            output.ndim in (1, 2) and output.numel() == n and not floats,
            f"the model returned {output.dtype} of shape {tuple(output.shape)} for {n} points; expected scores "
            f"({n}, num_classes) of two classes or more, or whole numbers ({n},) as labels. One score or "
            "probability s a point becomes labels by (s > 0).astype(int), with its own threshold",
        )
        return output.reshape(-1)


def as_classifier(model, points):
    """Adapt `model` to the kind of `points` (N, *shape) it is to be evaluated on.

    - A torch module gets float32 tensors on the device of its parameters (float64 if they are).
    - An object with `predict` (scikit-learn) gets arrays (n, prod(shape)); its labels are indices
      in its `classes_`.
    - Any other callable gets batches (n, *shape) of the kind of `points`: NumPy arrays, or tensors
      on their device. Both get the precision of `points`: float64 where they are (or are integers
      of 32 bits or more), else float32.

    Raises TypeError for another kind of model, ValueError for a module whose weights are not there.
    """
    device = getattr(points, "device", None)
    device = device if isinstance(device, torch.device) else torch.device("cpu")
    if isinstance(model, nn.Module):
        require_weights(model)
        state = [*model.parameters(), *model.buffers()]
        dtypes = [tensor.dtype for tensor in state if tensor.is_floating_point()]
        device = state[0].device if state else device
        return Classifier(model, device, dtypes[0] if dtypes else torch.float32, model)
    dtype = precision_of(points)
    if callable(getattr(model, "predict", None)):
        predict, cpu = _predict_of(model), torch.device("cpu")
        return Classifier(lambda b: predict(b.flatten(1).numpy()), cpu, dtype, per_call_cost=True)
    if not callable(model) or isinstance(model, torch.export.ExportedProgram):
        raise TypeError(
            f"model is a {type(model).__name__}; expected a torch module (of an exported program "
            "its .module()), a scikit-learn classifier or a callable"
        )
    wants_numpy = isinstance(points, np.ndarray)
    return Classifier((lambda b: model(b.numpy())) if wants_numpy else model, device, dtype)


def require_weights(module):
    """Raise ValueError for a module whose weights are not there: lazy, or on the meta device."""
    for tensor in (*module.parameters(), *module.buffers()):
        require(
            not torch.nn.parameter.is_lazy(tensor) and tensor.device.type != "meta",
            f"{type(module).__name__} has no weights yet, in a lazy layer or on the meta device: load them, or run "
            "it once and train it, before",
        )


def _predict_of(model):
    classes = getattr(model, "classes_", None)
    if classes is None:
        return model.predict
    several = isinstance(classes, list)
    require(not several, "the classifier predicts several outputs; expected one label a point")
    codes = {name: code for code, name in enumerate(np.asarray(classes).tolist())}
    return lambda rows: np.array([codes[name] for name in np.asarray(model.predict(rows)).tolist()])


def probed(classifier, points, batch_size=None):
    """Return the classifier if it is a function of one point alone; else raise ValueError.

    A dozen of `points` (n, *shape) are evaluated twice, in another order, in smaller batches and
    two alone. Parameters and buffers are compared, and set back where the model has changed them.
    A batch size of up to 64 is kept, for models that take no other.
    """
    if batch_size is not None:
        check_count("batch_size", batch_size, 1)
    size = batch_size if batch_size is not None and batch_size <= 64 else NUM_PROBED
    order = torch.arange(-(-NUM_PROBED // size) * size) % min(len(points), NUM_PROBED)
    points = points.to(classifier.device, classifier.dtype)
    quiet = dataclasses.replace(classifier, tick=int)

    def outputs(order, size):
        batch_of = lambda start, stop: points[order[start:stop]]  # noqa: E731
        (found,) = read_batches(quiet, batch_of, len(order), lambda output: [output.cpu().double()], size)
        return torch.nan_to_num(found, 0.0, 1e30, -1e30)

    module = classifier.module
    state = {} if module is None else dict([*module.named_parameters(), *module.named_buffers()])
    before = {name: tensor.detach().clone() for name, tensor in state.items()}
    with undisturbed(classifier):
        first, again = outputs(order, size), outputs(order, size)
        others = [outputs(order.flip(0), size).flip(0)]
        for fewer, some in ((max(1, size // 2), order), (1, order[:2])):
            # A model that takes no smaller batch says so where it gets one.
            with contextlib.suppress(Exception):
                others.append(outputs(some, fewer))
        changed = [name for name in state if not torch.equal(state[name].nan_to_num(), before[name].nan_to_num())]
        for name in changed:
            state[name].copy_(before[name])
    name = "the model" if module is None else type(module).__name__
    require(
        not changed,
        f"{name} changes itself when it is evaluated, as {changed and changed[0]!r} shows, such as "
        "a batch norm that is called with training=True: no region can be counted",
    )
    require(
        _differ_by(first, again) <= CALL_TOLERANCE,
        f"{name} gives a point another output at every call: dropout that is left on, noise, or a "
        "model that was exported or traced in training mode? No region can be counted",
    )
    require(
        all(_differ_by(first[: len(found)], found) <= BATCH_TOLERANCE for found in others),
        f"the output of {name} for a point depends on the other points of its batch: a batch norm "
        "without running statistics, dynamic quantisation, or operations along the first axis? No "
        "region can be counted",
    )
    return classifier


def _differ_by(one, other):
    """The largest difference of a score (n, C), as a share of what scores differ by between points.

    Last bits do not count: what 64 roundings of a column's largest number in float32 make.
    """
    if one.ndim == 1:
        return float((one != other).any())
    rounding = 64 * torch.finfo(torch.float32).eps * one.abs().amax(0)
    excess = float(((one - other).abs().amax(0) - rounding).max())
    spread = float((one.amax(0) - one.amin(0)).max())
    return 0.0 if excess <= 0 else excess / max(spread, 1e-300)


def probed_points(corners):
    """A dozen points (n, *shape) inside simplices with corners (B, d + 1, *shape)."""
    simplex = np.arange(NUM_PROBED) % len(corners)
    weights = np.random.default_rng(0).dirichlet(np.ones(corners.shape[1]), NUM_PROBED)
    return _combine(corners, torch.from_numpy(simplex), torch.from_numpy(weights).to(corners))


def labels_of(output):
    """Labels (n,) int64 of a classifier's output; NON_FINITE where a score is NaN or infinite.

    Nothing here waits for the device.
    """
    if output.ndim == 1:
        return output
    return torch.where(torch.isfinite(output).all(1), output.argmax(1), NON_FINITE)


def refuse_non_finite(labels, place_of):
    """Raise NonFiniteScores where labels (n,) of `labels_of` stand for scores that are not finite.

    place_of: from the index of the first of them to its name.
    """
    bad = (labels == NON_FINITE).nonzero()
    if len(bad):
        raise NonFiniteScores(
            f"the model's scores are NaN or infinite at {len(bad)} of {len(labels)} points, first "
            f"in {place_of(int(bad[0]))}: no region can be counted there. The model has probably "
            "diverged: leave it out, or count at an earlier epoch"
        )


def predict_labels(model: Model, points: Points, *, batch_size: int | None = None) -> np.ndarray:
    """Predicted label of each point, a NumPy array (N,) of integers.

    model, points, batch_size: as in `region_count`.

    Raises ValueError for points or scores that are not finite and for outputs of a wrong shape;
    MemoryError if one point is too many.
    """
    points = as_points(points)
    if not len(points):
        return np.zeros(0, dtype=np.int64)
    classifier = as_classifier(model, points)

    def batch_of(start, stop):
        return gather(points, np.arange(start, stop), classifier.device, classifier.dtype)

    probed(classifier, batch_of(0, min(NUM_PROBED, len(points))), batch_size)
    (labels,) = read_outputs(classifier, batch_of, len(points), _labels_alone, batch_size)
    refuse_non_finite(labels, lambda index: f"points[{index}]")
    return labels.cpu().numpy()


def label_lattice(classifier, corners, lattice, batch_size=None):
    """Labels (B, P) at the lattice points of corners (B, d + 1, *shape), a tensor on its device."""
    size = lattice.num_points
    weights = torch.tensor(lattice.coordinates).to(corners)

    def batch_of(start, stop):
        flat = torch.arange(start, stop, device=corners.device)
        return _combine(corners, flat // size, weights[flat % size])

    total = len(corners) * size
    (labels,) = read_outputs(classifier, batch_of, total, _labels_alone, batch_size)
    refuse_non_finite(labels, lambda index: f"simplex {index // size}")
    return labels.view(len(corners), size)


def scores_at(classifier, corners, simplex, weights, batch_size=None):
    """Labels (n,) and scores (n, C) at sum_k weights[:, k] corners[simplex, k], NumPy arrays.

    The scores are float64, as second derivatives of close points need; None for a model that
    returns labels. Raises NonFiniteScores where one is NaN or infinite.
    """
    simplex = torch.from_numpy(simplex).to(corners.device)
    weights = torch.from_numpy(weights).to(corners)

    def batch_of(start, stop):
        return _combine(corners, simplex[start:stop], weights[start:stop])

    def read(output):
        labels = labels_of(output).cpu()
        return [labels] if output.ndim == 1 else [labels, output.cpu().double()]

    labels, *scores = read_outputs(classifier, batch_of, len(simplex), read, batch_size)
    refuse_non_finite(labels, lambda index: f"simplex {int(simplex[index])}")
    return labels.numpy(), scores[0].numpy() if scores else None


def _labels_alone(output):
    return [labels_of(output)]


def _combine(corners, simplex, weights):
    """Points sum_k weights[:, k] corners[simplex, k], (n, *shape).

    One multiplication and one addition at a time: each is rounded the same way whatever the batch
    and the device, and at a vertex the point is the vertex exactly.
    """
    weights = weights.view(*weights.shape, *(1,) * (corners.ndim - 2))
    batch = corners[simplex, 0].mul_(weights[:, 0])
    for k in range(1, corners.shape[1]):
        batch.add_(corners[simplex, k].mul_(weights[:, k]))
    return batch
