"""A torch module, a scikit-learn classifier or a callable as one classifier of points."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from rc_utils.counting.sampling import are_of_torch, as_points, as_tensor, gather, precision_of
from rc_utils.evaluation import undisturbed
from rc_utils.validation import check_count, require

# Stands for the label of a point whose scores are not all finite.
NON_FINITE = -(2**31)
# Points at which a model is probed: more than 25, from where on `torch.cdist` multiplies matrices;
# of labels more still, of which a random model changes only a few in a hundred; and at most so many
# of them at once, since they may be large images.
NUM_PROBED, NUM_PROBED_LABELS, LARGEST_PROBED = 26, 240, 30
# Shares of the spread of its scores by which these may differ from call to call, and between batch
# sizes, which have different matrix kernels: those of the nine networks differ by some 1e-6.
CALL_TOLERANCE, BATCH_TOLERANCE = 1e-5, 1e-4
# Roundings of the highest score on a simplex by which a score may be off: of thirteen networks, the
# most was 14. Finer points show rounding: where two scores part slowly, thousands of regions.
ROUNDINGS = 16
ROUNDED = "near a boundary a rounded score is another label: compute them in float32"
ONE_SCORE = "the model returns one number per point, whose sign is to be its label"


class NonFiniteScores(ValueError):
    """The model's scores are NaN or infinite where a label is asked for."""


@dataclass(frozen=True, eq=False)
class Classifier:
    """A model made uniform: from a batch (n, *shape) to labels (n,) int64 or scores (n, C)."""

    call: Callable  # from a batch of `dtype` on `device` to what the model returns
    device: torch.device
    dtype: torch.dtype = torch.float32
    module: nn.Module | None = None  # whose modes are to be kept
    per_call_cost: bool = False  # a call costs much whatever its size: batches should be large
    tick: Callable = int  # called with the number of points after each batch; int does nothing
    batch_size: int | None = None
    outputs: np.ndarray | None = None  # of the points with which it was probed
    layer_bytes: int = 1  # of the largest output of an operation, for one point

    def __call__(self, batch):
        """Labels or scores of a batch, as `as_classifier` says; ValueError for another output."""
        output, n = self.call(batch.contiguous()), len(batch)
        known = isinstance(output, list) or hasattr(output, "__array__")
        require(known, f"the model returned a {type(output).__name__}: give it one output")
        output = as_tensor(output).detach()
        output = output[None] if n == output.ndim == 1 else output  # of a model that squeezes
        column = output.ndim <= 2 and output.numel() == n
        fits = column or (output.ndim == 2 and len(output) == n <= output.numel())
        found = f"the model returned {output.dtype} of shape {tuple(output.shape)} for {n} points"
        expected = f"scores ({n}, num_classes) or a score or integer label for each, ({n},)"
        require(fits and not output.is_complex(), f"{found}; expected {expected}")
        if output.is_floating_point():
            require(output.itemsize > 2, f"the model's outputs are {output.dtype}; {ROUNDED}")
            return output.reshape(n, -1)
        return output.to(torch.int64).reshape(n if column else output.shape)


def as_classifier(model, points, names=None):
    """Adapt `model` to the kind of `points`, `(N, *shape)`, it is to be evaluated on.

    - A torch module gets float32 tensors on the device of its parameters (float64 if they are).
    - An estimator of scikit-learn, or what has `predict` and cannot be called, gets arrays
      (n, prod(shape)).
    - Any other callable gets batches `(n, *shape)`: tensors on the device of `points` where these
      are torch's, else NumPy arrays. Both get the precision of `points`: float64 where they are (or
      are integers of 32 bits or more), else float32.

    Outputs (n, C) with C >= 2 are scores, whose argmax is the label; -inf switches a class off.
    Outputs (n,) or (n, 1) are labels if integers or booleans, else one score, positive for label 1.

    An estimator fitted on a data frame gets one: its columns have `names`, by default its own.
    Raises TypeError for another kind of model, ValueError for a module whose weights are not there.
    """
    device = points.device if are_of_torch(points) else torch.device("cpu")
    owner, name = getattr(model, "__self__", None), getattr(model, "__name__", "")
    is_module = isinstance(owner, nn.Module) and name == "forward"
    if is_module or (name == "predict" and hasattr(owner, "__sklearn_tags__")):
        model = owner  # whose modes, and whether it classifies, can be told
    inside = getattr(owner, "get_params", dict)() if name == "decision_function" else {}
    of_pairs = "ovo" in map(str, inside.values())  # of what is inside a pipeline or a search, too
    fault = "decision_function scores pairs of classes: give the classifier itself"
    require(not of_pairs or len(owner.classes_) < 3, fault)
    if isinstance(model, nn.Module):
        state = [*model.parameters(), *model.buffers()]
        # Its weights would be drawn in the first batch.
        is_lazy = any(map(nn.parameter.is_lazy, state))
        require(not is_lazy, f"{type(model).__name__} has a lazy layer: run it once before")
        dtypes = [tensor.dtype for tensor in state if tensor.is_floating_point()]
        rounded = {dtype for dtype in dtypes if dtype.itemsize < 4}
        require(not rounded, f"the module has parameters in {rounded}; {ROUNDED} (model.float())")
        device = state[0].device if state else device
        return Classifier(model, device, dtypes[0] if dtypes else torch.float32, model)
    # A Keras model has `predict`, too, which takes no rows: it is called.
    is_estimator = hasattr(model, "__sklearn_tags__") or not callable(model)
    predicts = is_estimator and callable(getattr(model, "predict", None))
    if isinstance(model, type):
        raise TypeError(f"model is the class {model.__name__}: make one of it")
    if not predicts and not callable(model):
        expected = "expected a torch module, a scikit-learn classifier or a callable"
        method = ", such as its predict_proba" if hasattr(model, "predict_proba") else ""
        raise TypeError(f"model is a {type(model).__name__}; {expected}{method}")
    call = _predict_of(model) if predicts else model
    device = torch.device("cpu") if predicts else device
    takes_arrays = predicts or not are_of_torch(points)
    columns = getattr(getattr(model, "__self__", model), "feature_names_in_", None)
    if columns is not None and names is not None:
        columns = names

    def adapted(batch):
        batch = batch.flatten(1) if predicts else batch
        if columns is not None:
            return call(pd.DataFrame(batch.cpu().numpy(), columns=columns))
        return call(batch.numpy() if takes_arrays else batch)

    return Classifier(adapted, device, precision_of(points), per_call_cost=predicts)


def _predict_of(model):
    """The method `predict` of an estimator; names of classes as their positions in `classes_`."""
    classes = getattr(model, "classes_", None)
    if classes is None or not len(classes):
        tags = getattr(model, "__sklearn_tags__", None)
        predicts_labels = tags is None or tags().estimator_type != "regressor"
        advice = "give a function of a batch that says the label"
        require(predicts_labels, f"the {type(model).__name__} is a regressor: {advice}")
        return model.predict
    several = "the classifier predicts several labels for a point: count one of them"
    require(np.ndim(classes[0]) == 0, several)
    classes = pd.Index(np.asarray(classes))

    def predict(rows):
        found = np.ravel(model.predict(rows))
        require(len(found) == len(rows), several)
        positions = classes.get_indexer(found)
        require((positions >= 0).all(), "the classifier predicts what is not among its classes_")
        return positions

    return predict


def read_outputs(classifier, batch_of, total, read):
    """Tensor (total, ...) of `read(output)`, (n, ...), of the classifier's output for each batch.

    `batch_of(start, stop)` makes a batch of consecutive points. Running out of memory halves it,
    down to one point, whose error is raised.
    """
    values, done = None, 0
    with undisturbed(classifier.module, classifier.device):
        chunk = classifier.batch_size or default_chunk(batch_of(0, 1)[0].numel(), classifier)
        while done < total:
            # No small last batch: last bits of a matrix product can differ there.
            left = total - done
            num_batches = -(-left // chunk)
            size, part = -(-left // num_batches), None
            try:
                batch = batch_of(done, done + size)
                if classifier.batch_size and size < chunk <= 64:  # for a model that takes no other
                    batch = batch[torch.arange(chunk) % size]
                part = read(classifier(batch)[:size])
            except (RuntimeError, MemoryError):
                # Libraries report a lack of memory in many ways; any other error comes again.
                if size == 1:
                    raise
            if part is None:  # only here is the exception gone, which holds the batch's memory
                torch.cuda.empty_cache()
                chunk = size // 2
                continue
            if values is None:
                # A small tensor kept from every batch would keep its memory from being reused.
                values = part.new_empty((total, *part.shape[1:]))
            values[done : done + size] = part
            done += size
            classifier.tick(size)
    return values


def default_chunk(num_features, classifier):
    """Points in one forward pass; never by time or free memory, so that runs have the same bits."""
    num_bytes = 4 * num_features
    if classifier.per_call_cost:
        return min(65536, max(1, (32 << 20) // num_bytes))
    if classifier.device.type != "cpu":
        return min(16384, max(1, (64 << 20) // num_bytes))
    # On a CPU networks are fastest where a layer's output stays in the cache.
    cached = max(4, (12 << 20) // classifier.layer_bytes)
    return min(4096, cached, max(32, (5 << 18) // num_bytes), max(1, (8 << 20) // num_bytes))


def probed(classifier, points, batch_size=None):
    """The classifier, if its output for a point depends on that point alone; else ValueError.

    Outputs at `points` (n, *shape), repeated up to `NUM_PROBED`, are compared with those of another
    call, of the reverse order, of half a batch and of single points. Parameters and buffers that
    the model changes are set back. A batch size of up to 64 is kept, for models with no other.
    """
    if batch_size is not None:
        batch_size = check_count("batch_size", batch_size, 1)
    number = max(NUM_PROBED, len(points))
    size = batch_size if batch_size and batch_size <= 64 else min(number, LARGEST_PROBED)
    order = torch.arange(-(-number // size) * size) % len(points)
    points = points.detach().to(classifier.device, classifier.dtype)

    def outputs(order, size):
        sized = replace(classifier, batch_size=size)

        def batch_of(start, stop):
            return points[order[start:stop]]

        return read_outputs(sized, batch_of, len(order), torch.Tensor.cpu).numpy()

    module, watch, others = classifier.module, Watch(size), []
    state = [] if module is None else [*module.parameters(), *module.buffers()]
    state = [tensor for tensor in state if tensor.layout is torch.strided]  # no sparse graph
    before = [tensor.detach().clone() for tensor in state]
    # In one call, since each call of `read_outputs` begins in the same random state.
    first, again = np.split(outputs(order.repeat(2), size), 2)
    with contextlib.suppress(Exception), watch:  # some compiled models cannot be watched
        others.append(outputs(order.flip(0), size)[::-1])
    half = max(1, size // 2)
    for fewer, some in ((half, order[: len(order) // 2]), (1, order[:2])):
        with contextlib.suppress(Exception):  # of a model that takes no smaller batch
            others.append(outputs(some, fewer))
    changed = False
    for tensor, old in zip(state, before, strict=True):
        same = torch.equal(tensor, old)  # the rest, where NaN is itself, copies both
        if not same and not torch.equal(tensor.detach().nan_to_num(), old.nan_to_num()):
            changed = True
            tensor.data.copy_(old)
    name = type(module).__name__ if module is not None else "the model"
    fault = f"{name} changes itself when it is evaluated"
    cause = "a batch norm with training=True, or weights that eval() merges (call it before)?"
    require(not changed, f"{fault}: {cause}")
    fault = f"{name} gives a point another output at every call"
    cause = "dropout that is left on, noise, or a model exported or traced in training mode?"
    require(_alike(first, again, CALL_TOLERANCE), f"{fault}: {cause}")
    fault = f"the output of {name} for a point depends on the other points of its batch"
    cause = "training mode (give the module itself), a mean over the batch, dynamic quantisation?"
    alike = all(_alike(first, found, BATCH_TOLERANCE) for found in others)
    require(alike, f"{fault}: {cause}")
    fault = f"{name} computes in half precision, as by autocast inside, or in 8 bits"
    require(not watch.rounds, f"{fault}; {ROUNDED}")
    if first.ndim == 2:
        _require_digits(points.cpu().numpy(), first, name)
    return replace(classifier, batch_size=batch_size, outputs=first, layer_bytes=watch.largest)


class Watch(TorchDispatchMode):
    """Notes what operations make of a batch of `number` points inside the block.

    rounds: whether it is numbers of 16 bits, or quantised. largest: most bytes for a point, >= 1.
    """

    def __init__(self, number):
        super().__init__()
        self.number, self.rounds, self.largest = number, False, 1

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        output = func(*args, **(kwargs or {}))
        self.rounds = self.rounds or "quantized" in func.name()  # whose output may be of 32 bits
        for tensor in filter(torch.is_tensor, tree_leaves(output)):
            of_points = tensor.shape[:1] == (self.number,)
            if tensor.is_floating_point() or (tensor.is_quantized and of_points):
                self.rounds = self.rounds or tensor.itemsize < 4
                if of_points:
                    self.largest = max(self.largest, tensor.nbytes // self.number)
        return output


def _require_digits(points, scores, name):
    """Raise ValueError if no score (n, C) has more than float16's 11 binary digits."""
    finite = scores[np.isfinite(scores)]
    if not _are_whole(np.frexp(finite)[0] * 2**11):
        return
    # Without rounding, votes, whole numbers, 128 steps or points of few digits have no more either.
    are_votes = ((finite >= 0) & (finite <= 1)).all() and _are_whole(finite * 2**11)
    steps = finite * 2.0 ** (7 - np.frexp(np.abs(finite).max(initial=0))[1])
    exact = _are_whole(finite) or _are_whole(steps) or _are_whole(np.frexp(points)[0] * 2**11)
    fault = f"all scores of {name} are rounded to half precision or bfloat16, as by autocast inside"
    require(are_votes or exact, f"{fault}; {ROUNDED}")


def _are_whole(numbers):
    return not (numbers % 1).any()


def _alike(one, other, share):
    """Whether scores `other` (m, C) differ from the first of `one` (n, C), n >= m, by at most this.

    A share of the range of the maxima of `one`, or 64 float32 roundings of the largest number in
    their column or of the largest score that wins, whose lead over another score is not known more
    exactly than that.
    """
    same = one[: len(other)]
    if one.ndim == 1:
        return (same == other).all()
    finite = np.where(np.isfinite(one), one, 0)
    largest = np.maximum(np.abs(finite).max(0), np.abs(finite.max(1)).max())
    most = share * np.ptp(finite.max(1)) + 64 * np.finfo(np.float32).eps * largest
    same, other = [np.where(np.isfinite(scores), scores, np.nan) for scores in (same, other)]
    return np.isclose(same, other, rtol=0, atol=most, equal_nan=True).all()


def classifier_inside(model, vertices, batch_size=None):
    """The model as a probed `Classifier`, and vertices (B, d + 1, *shape) on its device."""
    vertices = as_points(vertices)
    shape = tuple(vertices.shape)
    fits = len(shape) >= 3 and shape[1] >= 2 and 0 not in shape
    require(fits, f"vertices have shape {shape}; expected (B, d + 1, *shape) with B, d >= 1")
    classifier = as_classifier(model, vertices)
    corners = as_tensor(vertices).detach().to(classifier.device, classifier.dtype)
    require(corners.isfinite().all(), "vertices hold NaN or infinity: remove them")
    return require_sign(probed_inside(classifier, corners, batch_size)), corners


def probed_inside(classifier, corners, batch_size=None):
    """`probed` at points inside corners (B, d + 1, *shape); at more if it may return labels."""
    for number in (NUM_PROBED, NUM_PROBED_LABELS):
        simplex = torch.arange(number) % len(corners)
        weights = np.random.default_rng(0).dirichlet(np.ones(corners.shape[1]), number)
        points = points_inside(corners, simplex, torch.from_numpy(weights).to(corners))
        found = probed(classifier, points, batch_size)
        finite = found.outputs[np.isfinite(found.outputs)]
        are_scores = found.outputs.shape[1:] > (1,) or finite.min(initial=0) < 0
        if are_scores and not _are_whole(finite):
            break
    return found


def require_sign(classifier):
    """The classifier; ValueError where the sign of its only score cannot be the label."""
    outputs = classifier.outputs
    if outputs.shape[1:] != (1,) or not np.isfinite(outputs).all():
        return classifier
    values = np.unique(outputs)
    is_probability = values[0] >= 0 and values[-1] <= 1
    # Whole scores may be two votes, or large: from 2^23 on every float32 is whole.
    are_votes = 0 not in values and len(values) < 3
    may_be_whole = values[0] < 0 and (are_votes or np.abs(values).max() >= 2**23)
    is_label = _are_whole(values) and not may_be_whole
    fault = f"{ONE_SCORE}, but it looks like a probability or a label"
    advice = "of probabilities give both columns; return labels as integers, of a logit s (0, s)"
    require(not is_probability and not is_label, f"{fault}: {advice}")
    return classifier


def labels_of(output):
    """Labels (n,) of a classifier's output: int64 as they are; of scores int32.

    NON_FINITE where a score is NaN or +inf, or all are -inf. Nothing here waits for the device.
    """
    if output.ndim == 1:
        return output
    labels = output[:, 0] > 0 if output.shape[1] == 1 else output.argmax(1)
    return torch.where(torch.isfinite(output.amax(1)), labels.to(torch.int32), NON_FINITE)


def two_scores(scores):
    """Scores (P, C) with C >= 2; one output s becomes (0, s): the argmax is whether s > 0."""
    scores = scores.unsqueeze(1) if scores.ndim == 1 else scores
    require(scores.ndim == 2, f"the scores have shape {tuple(scores.shape)}; expected (n, classes)")
    return torch.cat([torch.zeros_like(scores), scores], 1) if scores.shape[1] == 1 else scores


def are_probabilities(scores):
    """Whether no score (n, C) is below 0 and those of each point add up to 1."""
    return bool((scores >= 0).all() and abs(scores.sum(1) - 1).max() < 1e-4)


def refuse_non_finite(labels):
    """Raise NonFiniteScores where labels (n,) are NON_FINITE."""
    # Labels of a model that gives no scores are int64 and may be any number.
    bad = int((labels == NON_FINITE).sum()) if labels.dtype == torch.int32 else 0
    if bad:
        found = f"the model's scores are NaN or infinite at {bad} of {len(labels)} points"
        raise NonFiniteScores(f"{found}: has it diverged?")


def predict_labels(model: Any, points: Any, *, batch_size: int | None = None) -> np.ndarray:
    """Predicted label of each point, a NumPy array (N,) of integers; arguments of `region_count`.

    Of a scikit-learn classifier they are positions in its `classes_`. Raises ValueError for points
    or scores that are not finite and for outputs of a wrong shape.
    """
    rows = as_points(points)
    require(len(rows), "there are no points")
    classifier = as_classifier(model, rows, getattr(points, "columns", None))

    def batch_of(start, stop):
        return gather(rows, np.arange(start, stop), classifier.device, classifier.dtype)

    spread = np.linspace(0, len(rows) - 1, min(NUM_PROBED_LABELS, len(rows))).astype(int)
    alone = gather(rows, spread, classifier.device, classifier.dtype)[:, None]  # of one corner
    classifier = require_sign(probed_inside(classifier, alone, batch_size))
    return read_labels(classifier, batch_of, len(rows))


def read_labels(classifier, batch_of, total):
    """Labels (total,) of points as `read_outputs` takes them, a NumPy array; or NonFiniteScores."""
    labels = read_outputs(classifier, batch_of, total, labels_of)
    refuse_non_finite(labels)
    return labels.cpu().numpy()


def label_lattice(classifier, corners, lattice):
    """Labels (B, P), or their ranks where some are below 0, at lattice points, a NumPy array."""
    size, weights = len(lattice.coordinates), torch.tensor(lattice.coordinates).to(corners)

    def batch_of(start, stop):
        flat = torch.arange(start, stop, device=corners.device)
        return points_inside(corners, flat // size, weights[flat % size])

    labels = read_labels(classifier, batch_of, len(corners) * size)
    if labels.min() < 0:
        labels = np.unique(labels, return_inverse=True)[1]
    return labels.reshape(len(corners), -1)


def scores_at(classifier, corners, simplex, weights):
    """Scores (n, C) at sum_k weights[:, k] corners[simplex, k], a NumPy array.

    They are float64, as second derivatives of close points need. One score s is (0, s).
    """
    simplex = torch.from_numpy(simplex).to(corners.device)
    weights = torch.from_numpy(weights).to(corners)

    def batch_of(start, stop):
        return points_inside(corners, simplex[start:stop], weights[start:stop])

    output = read_outputs(classifier, batch_of, len(simplex), torch.Tensor.cpu)
    fault = "the model returns labels, and scores are interpolated here"
    require(output.ndim == 2, f"{fault}: give its logits, or count with strategy='grid'")
    refuse_non_finite(labels_of(output))
    # Of a class that is switched off, -inf or not, nothing but that it is far below may show.
    top = two_scores(torch.from_numpy(classifier.outputs)).topk(2).values.double()
    far = 1e4 * (float(top.nan_to_num(0, 0, 0).abs().max()) or 1.0)
    output = two_scores(output.double())
    best = output.amax(1, keepdim=True)
    return torch.where(output < best - far, (2 * best).clamp(max=-far), output).numpy()


def rounding_of(classifier, scores, corners):
    """(B,) by how much scores on corners (B, d + 1, *shape) may be off, from some (B * n, C)."""
    # One score s is (0, s): below 0 it is as rounded as above.
    best = scores if classifier.outputs.shape[1] == 1 else scores.max(1)
    best, dtype = np.abs(best).reshape(len(corners), -1).max(1), classifier.outputs.dtype
    size, span = [x.flatten(1).abs().amax(1) for x in (corners, corners - corners[:, :1])]
    # Where points lie far from 0, beside their distances, it is their own rounding that shows.
    share = (size / span).clamp(max=1e9).cpu().numpy()
    of_scores = np.finfo(dtype).eps if dtype.kind == "f" else 0
    coarser = max(of_scores, torch.finfo(corners.dtype).eps)  # the model may round its points
    of_points = np.where(share > ROUNDINGS, share * coarser, 0)
    return ROUNDINGS * best * np.maximum(of_points, of_scores)


def points_inside(corners, simplex, weights):
    """Points sum_k weights[:, k] corners[simplex, k], (n, *shape); at a vertex, it exactly."""
    # One operation at a time is rounded the same way whatever the batch and the device.
    weights = weights.view(*weights.shape, *(1,) * (corners.ndim - 2))
    batch = corners[simplex, 0].mul_(weights[:, 0])
    for k in range(1, corners.shape[1]):
        batch.add_(corners[simplex, k].mul_(weights[:, k]))
    return batch
