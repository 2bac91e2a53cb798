"""One face for torch modules, scikit-learn classifiers and callables: from a batch of points to a label each."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from rc_utils.checks import require
from rc_utils.regions.arrays import array_of, as_tensor, check_numbers, precision_of

# Stands for the label of a point whose scores are not all finite.
NON_FINITE = -(2**31)


class NonFiniteScores(ValueError):
    """The model's scores are NaN or infinite where a label is asked for."""


@dataclass(frozen=True, eq=False)
class Classifier:
    """What is counted, made uniform.

    Attributes:
        call: from a batch (n, *shape) of `dtype` on `device` to what the model returns; `labels_of` reads it.
        device, dtype: where and in which precision batches are wanted.
        module: the torch module, whose modes are to be kept; None for other models.
        per_call_cost: True where a call has a high fixed cost (scikit-learn), so that batches should be large.
    """

    call: Callable
    device: torch.device
    dtype: torch.dtype = torch.float32
    module: nn.Module | None = None
    per_call_cost: bool = False


def as_classifier(model, points):
    """Adapt `model` to the kind of `points` (N, *shape) it is to be evaluated on.

    - A torch module gets float32 tensors on the device of its parameters (float64 if its parameters are).
    - An object with `predict` (scikit-learn) gets arrays (n, prod(shape)) in the precision of `points`.
    - Any other callable gets batches (n, *shape) of the kind of `points`: NumPy arrays or tensors on their device, in
      their precision.

    The precision of points is float64 where they are (or are integers of 32 bits or more), else float32.

    What comes back is read as follows: (n, C) with C >= 2 - scores, the label is the argmax; (n,) or (n, 1) of floats -
    one score, the label is whether it is positive; (n,) or (n, 1) of integers or booleans - labels.

    Raises TypeError for another kind of model, ValueError for a module in half precision or one that is no function of
    a point: with a batch norm without running statistics.
    """
    points_device = getattr(points, "device", None)
    points_device = points_device if isinstance(points_device, torch.device) else torch.device("cpu")
    if isinstance(model, nn.Module):
        return _from_module(model, points_device)
    if isinstance(model, torch.export.ExportedProgram):
        raise TypeError("model is an exported program, which cannot be called; give the module that it was made of")
    if callable(getattr(model, "predict", None)):
        return Classifier(_predict_of(model), torch.device("cpu"), precision_of(points), per_call_cost=True)
    if callable(model):
        wants_numpy = isinstance(points, np.ndarray)
        call = (lambda batch: model(batch.numpy())) if wants_numpy else model
        return Classifier(call, points_device, precision_of(points))
    raise TypeError(
        f"model is a {type(model).__name__}; expected a torch module, a scikit-learn classifier or a callable"
    )


def _from_module(module, points_device):
    state = [*module.parameters(), *module.buffers()]
    device = state[0].device if state else points_device
    require(device.type != "meta", "the module is on the meta device and has no weights: load them first")
    dtypes = [t.dtype for t in state if t.is_floating_point()]
    rounded = [dtype for dtype in dtypes if dtype not in (torch.float32, torch.float64)]
    require(
        not rounded,
        f"the module has parameters in {rounded and rounded[0]}; near a boundary a rounded score is another label: "
        "count on a copy in float32 (model.float())",
    )
    without = [name for name, m in module.named_modules() if isinstance(m, _BatchNorm) and m.running_mean is None]
    require(
        not without,
        f"the batch norm {without and without[0]!r} keeps no running statistics: a point's label would depend on the "
        "other points of its batch, and no region could be counted",
    )
    return Classifier(module, device, dtypes[0] if dtypes else torch.float32, module)


def _predict_of(model):
    classes = getattr(model, "classes_", None)
    require(not isinstance(classes, list), "the classifier predicts several outputs; expected one label for each point")
    if classes is None:
        return lambda batch: model.predict(batch.flatten(1).numpy())
    codes = {name: code for code, name in enumerate(np.asarray(classes).tolist())}

    def predict(batch):
        predicted = np.asarray(model.predict(batch.flatten(1).numpy())).reshape(-1).tolist()
        unknown = set(predicted) - set(codes)
        require(not unknown, f"the classifier predicted {unknown}, which is not among its classes_")
        return np.array([codes[name] for name in predicted])

    return predict


def labels_of(output, num_points):
    """Labels (n,) from a model's output for n points, a tensor of `tensor_of`, read as `as_classifier` says.

    int32 for scores, with NON_FINITE where a score is NaN or infinite; int64 where the model returns labels. Nothing
    here waits for the device. Raises ValueError for any other output.
    """
    column = output.ndim <= 2 and output.numel() == num_points
    scores = output.ndim == 2 and len(output) == num_points and output.shape[1] >= 2
    require(
        column or scores,
        f"the model returned {output.dtype} of shape {tuple(output.shape)} for {num_points} points; expected "
        f"scores ({num_points}, num_classes) or one score or integer label for each point, ({num_points},)",
    )
    if column and not output.is_floating_point():
        return output.reshape(-1).to(torch.int64)
    output = output.reshape(num_points, -1)
    labels = (output[:, 0] > 0) if column else output.argmax(1)
    return torch.where(torch.isfinite(output).all(1), labels.to(torch.int32), NON_FINITE)


def two_scores(scores):
    """Scores (P, C) with C >= 2; one output s becomes (0, s), whose argmax is whether s is positive."""
    scores = scores.unsqueeze(1) if scores.ndim == 1 else scores
    require(scores.ndim == 2, f"the network returns {tuple(scores.shape[1:])} numbers for a point; expected (classes,)")
    return torch.cat([torch.zeros_like(scores), scores], 1) if scores.shape[1] == 1 else scores


def refuse_non_finite(labels, place_of):
    """Raise NonFiniteScores where labels (...) of `labels_of` stand for scores that are not finite.

    place_of: from the index of the first of them, in the flattened labels, to its name.
    """
    bad = torch.flatten(labels == NON_FINITE).nonzero() if labels.dtype == torch.int32 else ()
    if len(bad):
        raise NonFiniteScores(
            f"the model's scores are NaN or infinite at {len(bad)} of {labels.numel()} points, first in "
            f"{place_of(int(bad[0]))}: no region can be counted there. The model has probably diverged: leave it out, "
            "or count at an earlier epoch"
        )


def tensor_of(output):
    """What a model returned as a dense tensor whose numbers can be compared; ValueError for anything else."""
    require(
        isinstance(output, np.ndarray | list | torch.Tensor),
        f"the model returned a {type(output).__name__}; expected one array or tensor of scores or labels (wrap the "
        "model in a function that picks it)",
    )
    output = array_of("the model's outputs", output) if isinstance(output, list) else output
    check_numbers("the model's outputs", output)
    tensor = as_tensor(output)
    if tensor.dtype == torch.bool:
        return tensor.to(torch.uint8)
    return tensor.float() if tensor.is_floating_point() and tensor.itemsize == 1 else tensor
