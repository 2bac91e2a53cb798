"""The door: a torch module, a scikit-learn classifier or a callable as one classifier of points."""

import dataclasses
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from rc_utils.checks import require
from rc_utils.counting.evaluation import is_out_of_memory, read_outputs
from rc_utils.counting.sampling import (
    array_of,
    as_points,
    as_tensor,
    check_numbers,
    gather,
    precision_of,
)


class Points(Protocol):
    """Data points (N, *shape): anything with a length and integer-array indexing."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: Any, /) -> Any: ...


class Predictor(Protocol):
    """A classifier as scikit-learn has them."""

    def predict(self, points: Any, /) -> Any: ...


Model = nn.Module | Predictor | Callable[[Any], Any]


# Stands for the label of a point whose scores are not all finite.
NON_FINITE = -(2**31)


class NonFiniteScores(ValueError):
    """The model's scores are NaN or infinite where a label is asked for."""


@dataclasses.dataclass(frozen=True, eq=False)
class Classifier:
    """A model made uniform: called with a batch (n, *shape), it returns a tensor of its outputs.

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
        """Outputs of a batch; ValueError for those that are no array of real numbers."""
        try:
            output = self.call(batch)
        except (RuntimeError, ValueError) as error:
            if is_out_of_memory(error):
                raise
            raise ValueError(
                f"the model failed on a batch of shape {tuple(batch.shape)}: {error}. "
                "Have the points the shape it takes?"
            ) from error
        name = "the model's outputs"
        require(
            isinstance(output, np.ndarray | list | torch.Tensor),
            f"the model returned a {type(output).__name__}; expected one array or tensor of scores "
            "or labels (wrap the model in a function that picks it)",
        )
        output = array_of(name, output) if isinstance(output, list) else output
        check_numbers(name, output)
        tensor = as_tensor(output)
        if tensor.dtype == torch.bool:
            return tensor.to(torch.uint8)
        return tensor.float() if tensor.is_floating_point() and tensor.itemsize == 1 else tensor


def as_classifier(model, points):
    """Adapt `model` to the kind of `points` (N, *shape) it is to be evaluated on.

    - A torch module gets float32 tensors on the device of its parameters (float64 if they are).
    - An object with `predict` (scikit-learn) gets arrays (n, prod(shape)).
    - Any other callable gets batches (n, *shape) of the kind of `points`: NumPy arrays, or tensors
      on their device. Both get the precision of `points`: float64 where they are (or are integers
      of 32 bits or more), else float32.

    What comes back is read as follows: (n, C) with C >= 2 - scores, the label is the argmax; (n,)
    or (n, 1) of floats - one score, the label is whether it is positive; of integers or booleans -
    labels.

    Raises TypeError for another kind of model, ValueError for a module in half precision or one
    that is no function of a point.
    """
    device = getattr(points, "device", None)
    device = device if isinstance(device, torch.device) else torch.device("cpu")
    if isinstance(model, nn.Module):
        return _from_module(model, device)
    if isinstance(model, torch.export.ExportedProgram):
        raise TypeError(
            "model is an exported program, which cannot be called; give the module it was made of"
        )
    dtype = precision_of(points)
    if callable(getattr(model, "predict", None)):
        return Classifier(_predict_of(model), torch.device("cpu"), dtype, per_call_cost=True)
    if callable(model):
        wants_numpy = isinstance(points, np.ndarray)
        return Classifier((lambda b: model(b.numpy())) if wants_numpy else model, device, dtype)
    raise TypeError(
        f"model is a {type(model).__name__}; expected a torch module, a scikit-learn classifier or "
        "a callable"
    )


def _from_module(module, points_device):
    state = [*module.parameters(), *module.buffers()]
    device = state[0].device if state else points_device
    meta = "the module is on the meta device and has no weights: load them first"
    require(device.type != "meta", meta)
    dtypes = [t.dtype for t in state if t.is_floating_point()]
    rounded = [dtype for dtype in dtypes if dtype not in (torch.float32, torch.float64)]
    require(
        not rounded,
        f"the module has parameters in {rounded and rounded[0]}; near a boundary a rounded score "
        "is another label: count on a copy in float32 (model.float())",
    )
    norms = [(name, m) for name, m in module.named_modules() if isinstance(m, _BatchNorm)]
    without = [name for name, norm in norms if norm.running_mean is None]
    require(
        not without,
        f"the batch norm {without and without[0]!r} keeps no running statistics: a point's label "
        "would depend on the other points of its batch, and no region could be counted",
    )
    return Classifier(module, device, dtypes[0] if dtypes else torch.float32, module)


def _predict_of(model):
    classes = getattr(model, "classes_", None)
    several = isinstance(classes, list)
    require(not several, "the classifier predicts several outputs; expected one label a point")
    if classes is None:
        return lambda batch: model.predict(batch.flatten(1).numpy())
    codes = {name: code for code, name in enumerate(np.asarray(classes).tolist())}

    def predict(batch):
        predicted = np.asarray(model.predict(batch.flatten(1).numpy())).reshape(-1).tolist()
        unknown = set(predicted) - set(codes)
        require(not unknown, f"the classifier predicted {unknown}, not among its classes_")
        return np.array([codes[name] for name in predicted])

    return predict


def labels_of(output, num_points):
    """Labels (n,) from a model's output for n points, read as `as_classifier` says.

    int32 for scores, with NON_FINITE where a score is NaN or infinite; int64 where the model
    returns labels. Nothing here waits for the device. Raises ValueError for any other output.
    """
    column = output.ndim <= 2 and output.numel() == num_points
    scores = output.ndim == 2 and len(output) == num_points and output.shape[1] >= 2
    require(
        column or scores,
        f"the model returned {output.dtype} of shape {tuple(output.shape)} for {num_points} "
        f"points; expected scores ({num_points}, num_classes) or one score or integer label for "
        f"each point, ({num_points},)",
    )
    if column and not output.is_floating_point():
        return output.reshape(-1).to(torch.int64)
    output = output.reshape(num_points, -1)
    labels = (output[:, 0] > 0) if column else output.argmax(1)
    return torch.where(torch.isfinite(output).all(1), labels.to(torch.int32), NON_FINITE)


def two_scores(scores):
    """Scores (P, C) with C >= 2; one output s becomes (0, s): the argmax is whether s > 0."""
    scores = scores.unsqueeze(1) if scores.ndim == 1 else scores
    shape = tuple(scores.shape[1:])
    require(
        scores.ndim == 2, f"the network returns {shape} numbers for a point; expected (classes,)"
    )
    return torch.cat([torch.zeros_like(scores), scores], 1) if scores.shape[1] == 1 else scores


def refuse_non_finite(labels, place_of):
    """Raise NonFiniteScores where labels (n,) of `labels_of` stand for scores that are not finite.

    place_of: from the index of the first of them to its name.
    """
    bad = (labels == NON_FINITE).nonzero() if labels.dtype == torch.int32 else ()
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
    returns labels. One score s is (0, s). Raises NonFiniteScores where one is NaN or infinite.
    """
    simplex = torch.from_numpy(simplex).to(corners.device)
    weights = torch.from_numpy(weights).to(corners)

    def batch_of(start, stop):
        return _combine(corners, simplex[start:stop], weights[start:stop])

    def read(output, num_points):
        labels = labels_of(output, num_points).cpu()
        if labels.dtype == torch.int64:
            return [labels]
        return [labels, two_scores(output.detach().reshape(num_points, -1).cpu().double())]

    labels, *scores = read_outputs(classifier, batch_of, len(simplex), read, batch_size)
    refuse_non_finite(labels, lambda index: f"simplex {int(simplex[index])}")
    return labels.numpy().astype(np.int64), scores[0].numpy() if scores else None


def _labels_alone(output, num_points):
    return [labels_of(output, num_points)]


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
