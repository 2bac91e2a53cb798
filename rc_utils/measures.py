"""Scalar measures of a trained network that compete with the region count.

In all of them x are standardised images (N, C, H, W) and y their labels (N,).

Measures along segments take a `seed`: 0 draws the first segments that `region_count` draws with its
seed 0, so that measure and count see the same; OWN draws others, so that their agreement is not
shared sampling noise. The pairs of "intra" are the same for every seed.

Measures of activations look at the sign of each unit: a number that goes into a ReLU or another
activation that bends at 0, module or function. It is taken for smooth activations (swish, GELU,
...) as well, although nothing is linear there. Not counted are corners of max-pooling, of maxima
along an axis, of `where` and sorted values, sigmoid gates, scripted functions, and a ReLU written
otherwise, such as z * (z > 0).
"""

import copy
import dataclasses
import functools
import math
import re

import numpy as np
import torch
import torch.nn.functional as F
from scipy.integrate import cumulative_trapezoid, trapezoid
from scipy.sparse.linalg import LinearOperator, eigsh
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.modules.batchnorm import _BatchNorm
from torch.overrides import TorchFunctionMode

from rc_utils.counting.classifier import (
    are_probabilities,
    as_classifier,
    labels_of,
    read_outputs,
    refuse_non_finite,
    two_scores,
)
from rc_utils.counting.sampling import gather, vertex_indices
from rc_utils.datasets.images import slices_of
from rc_utils.evaluation import undisturbed
from rc_utils.networks.registry import is_ours
from rc_utils.validation import check_name, naming, require

COUNTED_SEGMENTS, INTRA_SEGMENTS = 1000, 500
OWN = 1  # the seed of other segments than `region_count` draws
# Points at equal distances on a segment, with its ends; odd, so that the midpoint is one of them.
SEGMENT_POINTS = 11
# u of the mixtures on either half of a segment.
MAGNITUDES = np.linspace(0, 1, SEGMENT_POINTS // 2 + 1)

# Names of functions and methods of torch, without the _ with which some begin or end.
ACTIVATIONS = {
    "relu", "leaky_relu", "prelu", "rrelu", "elu", "selu", "celu", "silu", "gelu", "mish",
    "softplus",
}  # fmt: skip
# They bend, but not only where their input changes its sign: refused, since bends would be missed.
OTHER_BENDS = {
    "clamp", "clip", "clamp_min", "clamp_max", "maximum", "minimum", "fmax", "fmin", "abs",
    "absolute", "sign", "heaviside", "relu6", "hardtanh", "threshold", "hardsigmoid", "hardswish",
    "softshrink", "hardshrink", "tanhshrink", "rnn_relu", "rnn_relu_cell",
}  # fmt: skip

# Without a path norm: signs, which squared weights do not have, so that paths would cancel one
# another; norms of what they are given; functions that level off.
NO_PATHS = {
    "sub", "subtract", "rsub", "neg", "negative", "layer_norm", "group_norm", "instance_norm",
    "rms_norm", "batch_norm", "native_batch_norm_legit_no_training", "normalize", "norm",
    "linalg_norm", "linalg_vector_norm", "std", "var", "sqrt", "rsqrt", "tanh", "softsign",
    "softmax", "log_softmax", "log_sigmoid", "rnn_tanh", "lstm", "gru",
    "scaled_dot_product_attention", "multi_head_attention_forward",
}  # fmt: skip


def distance_from_init(network, initial):
    """`d(W) = sqrt(sum_i ||W_i - W_i^0||_F^2)`, W_i^0 of the same network at its start, `initial`.

    Over all weight matrices and kernels (`weights_of`), as in v1 App. B, Example 1.
    """
    weights, start = weights_of(network), weights_of(initial)
    require(initial is not network, "initial is the network itself: keep copy.deepcopy(network)")
    moved = [(w - w0.to(w.device)).detach() for w, w0 in zip(weights, start, strict=True)]
    squares = [step.double().square().sum() for step in moved]
    return math.sqrt(float(torch.stack(squares).sum()))


@torch.no_grad()
def log_spectral_product(network):
    """Natural logarithm of the product of the spectral norms of all weight matrices and kernels.

    Of `weights_of`; a kernel (out, in, k, k) counts as the matrix (out, in k k). With normalisation
    layers, which rescale every layer, the product bounds no Lipschitz constant.
    """
    matrices = [w.detach().double().flatten(1) for w in weights_of(network)]
    return float(sum(torch.linalg.matrix_norm(matrix, 2).log() for matrix in matrices))


@torch.no_grad()
def log_path_norm(network, x):
    """`log sqrt(sum_k f_(w^2)(1)_k)`: f with every weight and bias squared, at an image of ones.

    The natural logarithm. For a ReLU network the root of the sum, over all paths from an input or a
    bias to an output, of the products of their squared weights (Neyshabur et al. 2015, Norm-based
    capacity control in neural networks, Sec. 5; computed as in Jiang et al. 2020, Fantastic
    generalization measures, Eq. 44). A batch norm is the affine map that it is in evaluation mode,
    an activation the identity, which it is for large inputs. Sigmoid gates, pools and numbers are
    applied as they are, negative ones too. Of x only the shape is used. Raises ValueError for other
    norms, for what levels off, such as tanh, and where a network subtracts outside of its layers.
    """
    weights_of(network)  # refuses weights that are computed
    # A clone, since a network may change what an activation gives it in place.
    activations_as_identity = UnitInputs(network, torch.clone, OTHER_BENDS | NO_PATHS)
    squared = copy.deepcopy(network).eval().double()
    for norm in squared.modules():
        name, is_batch_norm = type(norm).__name__, isinstance(norm, _BatchNorm)
        usual = type(norm).forward in (_BatchNorm.forward, torch.nn.SyncBatchNorm.forward)
        affine = is_batch_norm and usual and norm.running_var is not None
        known = affine or not (is_batch_norm or re.search(r"Norm\w?d?$", name))
        require(known, f"{name} is no affine map here, as a batch norm with running statistics is")
        if affine:
            scale = (norm.running_var + norm.eps).rsqrt()
            scale = scale if norm.weight is None else scale * norm.weight
            shift = -norm.running_mean * scale + (0 if norm.bias is None else norm.bias)
            norm.forward = functools.partial(_affine, scale.square(), shift.square())
    for tensor in (*squared.parameters(), *squared.buffers()):
        if tensor.is_floating_point():
            tensor.square_()
    ones = torch.ones(1, *x.shape[1:], dtype=torch.float64, device=as_classifier(network, x).device)
    with activations_as_identity:
        total = squared(ones).sum()
    return float(total.log()) / 2


def _affine(scale, shift, z):
    shape = (-1, *[1] * (z.ndim - 2))
    return z * scale.view(shape) + shift.view(shape)


def weights_of(network):
    """Weight matrices and kernels: the parameters of two dimensions or more.

    Class tokens and embeddings of positions are left out: single rows that are not named weight.
    Raises ValueError where a weight is computed from parameters, or none is found.
    """
    weights = []
    for name, parameter in network.named_parameters():
        computed = re.search(r"_orig$|weight\w*_g$|parametrizations\.", name)
        found = f"a weight is computed from {name!r} (parametrisation, weight norm, pruning)"
        advice = "make it plain by remove_parametrizations, remove_weight_norm or prune.remove"
        require(not computed, f"{found}: {advice} of torch.nn.utils")
        if parameter.dim() > 1 and (len(parameter) > 1 or "weight" in name.split(".")[-1]):
            weights.append(parameter)
    require(weights, "the network has no weight of two dimensions or more, which is measured here")
    return weights


def sharpness(network, x, y, tolerance=0.05):
    """Largest eigenvalue of the Hessian of the mean cross-entropy on (x, y), in what is trained.

    In evaluation mode, by Lanczos iterations with Hessian-vector products from a fixed start. The
    relative distance to an eigenvalue is at most `tolerance`; now and then that is not the largest
    but one a quarter below it. All images share one graph: use a few hundred. 0 where the start
    meets no curvature, as on images that a network has separated for good.
    """
    parameters = [p for p in network.parameters() if p.requires_grad]
    require(parameters, "no parameter of the network is trained: requires_grad is False for all")
    # Of the kernels of attention, the others cannot be differentiated twice.
    with undisturbed(network, y.device), torch.enable_grad(), sdpa_kernel(SDPBackend.MATH):
        # A copy, here and below, for a network that works on its input in place.
        loss = F.cross_entropy(_logits(network(x[:].clone()), len(y)), y)
        gradients = torch.autograd.grad(loss, parameters, create_graph=True, materialize_grads=True)
        gradient = torch.cat([g.reshape(-1) for g in gradients])

        def hessian_times(vector):
            vector = torch.as_tensor(vector.reshape(-1)).to(gradient)
            keep = {"retain_graph": True, "materialize_grads": True}
            product = torch.autograd.grad(gradient, parameters, vector, **keep)
            flat = torch.cat([part.reshape(-1) for part in product])
            return flat.detach().double().cpu().numpy()  # before 2.10, torch may keep a graph

        start = np.random.default_rng(0).standard_normal(len(gradient))
        first = hessian_times(start)
        if not first.any() or not np.isfinite(first).all():
            return float(first.sum())  # 0, or not finite
        if len(start) == 1:
            return float(first[0] / start[0])
        hessian = LinearOperator((len(start),) * 2, matvec=hessian_times, dtype=np.float64)
        lanczos = {"which": "LA", "ncv": 5, "v0": start, "tol": tolerance}
        return float(eigsh(hessian, k=1, return_eigenvectors=False, **lanczos)[0])


def output_margin(network, x, y):
    """`gamma(W)`, the mean over (x, y) of `f(x)_y - max_{i != y} f(x)_i` (v1 App. B), in logits."""
    total = 0.0
    with undisturbed(network, y.device):
        for part in slices_of(x, 1000, y):
            total += float(_margins(network(x[part].clone()).double(), y[part]).sum())
    return total / len(y)


def input_gradient(network, x, y):
    """Mean over (x, y) of the Euclidean norm of the gradient of the output margin by the image."""
    _, norms = _margins_and_gradients(network, x, y)
    return float(norms.sum()) / len(y)


def margin_over_gradient(network, x, y):
    """Median over (x, y) of the output margin over the norm of its gradient by the image.

    To first order the distance of an image from the nearest decision boundary, in units of
    standardised images (Elsayed et al. 2018, Large margin deep networks for classification, Sec.
    3); negative where the label is wrong. The median, the lower of two in the middle, since the
    quotient has no bound where a network is flat: it is infinite there, NaN for a margin of 0.
    """
    margins, norms = _margins_and_gradients(network, x, y)
    return float((margins / norms).median())


def jacobian_norm(network, x):
    """Mean over x of `|J(x)|_F`, `J = d softmax(f(x)) / d x`, of shape (num_classes, C H W).

    Novak et al. 2018, Sensitivity and generalization in neural networks, Sec. 3.1, who take test
    images. Each row of J is one gradient, without sampling.
    """
    total = 0.0
    with undisturbed(network, x.device), torch.enable_grad():
        for part in slices_of(x, 500):
            images = x[part].detach().requires_grad_()
            squares = 0.0
            for row in _logits(network(images.clone()), len(images)).softmax(1).sum(0):
                (gradient,) = torch.autograd.grad(row, images, retain_graph=True)
                squares = squares + gradient.flatten(1).double().square().sum(1)
            total += float(squares.sqrt().sum())
    return total / len(x)


def _logits(output, n):
    """Logits (n, C) of an output; NonFiniteScores for NaN, ValueError for probabilities."""
    logits = two_scores(output.reshape(n, -1))  # some networks squeeze the scores of one image
    refuse_non_finite(labels_of(logits.detach()))
    found = "the network's outputs look like probabilities: give it without its softmax"
    require(not are_probabilities(logits.detach()), found)
    return logits


def _margins(output, y):
    """f(x)_y - max_{i != y} f(x)_i of every image, (N,)."""
    logits, target = _logits(output, len(y)), y[:, None]
    return logits.gather(1, target).squeeze(1) - logits.scatter(1, target, -math.inf).amax(1)


def _margins_and_gradients(network, x, y):
    """Output margins (N,) of images and the norms (N,) of their gradients by the image, float64."""
    margins, norms = [], []
    with undisturbed(network, y.device), torch.enable_grad():
        for part in slices_of(x, 500, y):
            images = x[part].detach().requires_grad_()
            margins.append(_margins(network(images.clone()), y[part]))
            (gradient,) = torch.autograd.grad(margins[-1].sum(), images)
            norms.append(gradient.flatten(1).double().norm(dim=1))
    return torch.cat(margins).detach().double(), torch.cat(norms)


def mixup_curve(network, x, y, classes="all", seed=0):
    """Shares A(u) of mixtures that get the label of their nearer end, at u = 0, 0.2, ..., 1: list.

    Mixtures (1 - u/2) x_i + u/2 x_j and the label y_i, over both ends of 1,000 segments: the
    perturbation response curve of Schiff et al. 2021, Predicting deep neural network generalization
    with perturbation response curves, Sec. 3, with mixup as the perturbation. `classes`: "all"
    segments, "inter" for those between different labels, "intra" for 500 others, of one label.
    """
    check_name("classes", classes, ("all", "inter", "intra"))
    if classes == "intra":
        pairs = _intra_pairs(y)
    else:
        pairs = vertex_indices(len(x), num_samples=COUNTED_SEGMENTS, distinct=2, seed=seed)
    labels = _scores_along(network, x, pairs).argmax(2)
    ends = y[torch.as_tensor(pairs).to(y.device)].to(labels.device)
    half = len(MAGNITUDES)
    from_first = labels[:, :half] == ends[:, :1]
    from_second = labels.flip(1)[:, :half] == ends[:, 1:]
    right = (from_first.double() + from_second.double()) / 2
    if classes == "inter":
        right = right[ends[:, 0] != ends[:, 1]]
    return right.mean(0).tolist()


def mixup_accuracy(curve):
    """Area under a `mixup_curve` A, int_0^1 A(u) du, in [0, 1]."""
    return float(trapezoid(curve, MAGNITUDES))


def gi_score(curve):
    """Gi-score of a `mixup_curve` A: int_0^1 (u - int_0^u A(v) dv) du.

    0 for a perfect curve, 1/2 where no mixture is right. The area between the cumulated curve and
    that of a network which is always right, as the Gini coefficient has it (Schiff et al. 2021,
    Sec. 3). Both integrals are by trapezoids on the six points of the curve.
    """
    cumulated = cumulative_trapezoid(curve, MAGNITUDES, initial=0)
    return float(trapezoid(MAGNITUDES - cumulated, MAGNITUDES))


def pal_score(curve):
    """Pal-score of a `mixup_curve`: int_0.4^1 F(u) du / int_0^0.1 F(u) du, F(u) = int_0^u A(v) dv.

    84 for a perfect curve. As in the Palma ratio, the area below the cumulated curve of the 60 %
    strongest perturbations over that of the 10 % weakest (Schiff et al. 2021, Sec. 3 and Fig. 1).
    A is linear between its six points. 0 where no mixture near an image gets its label.
    """
    u = np.linspace(0, 1, 1001)
    cumulated = cumulative_trapezoid(np.interp(u, MAGNITUDES, curve), u, initial=0)
    weak, strong = u <= 0.1 + 1e-9, u >= 0.4 - 1e-9
    near = trapezoid(cumulated[weak], u[weak])
    return float(trapezoid(cumulated[strong], u[strong]) / near) if near else 0.0


def boundary_thickness(network, x, seed=0):
    """`E |x_1 - x_0| int_0^1 1{0 < g_ij(x(t)) < 0.75} dt`, `g_ij = p_i - p_j`, p softmax scores.

    Yang et al. 2020, Boundary thickness and robustness in learning models, Definition 1, with their
    bounds of g. Theirs are segments from images to adversarial examples; here they are between
    training images, those of different predicted classes i and j at their ends. Unlike there, a
    point where a third class wins is outside: it is on no boundary between i and j.
    The mean over both directions; 0 where every segment has one class at both ends. Unit: Euclidean
    distance of images.
    """
    pairs = vertex_indices(len(x), num_samples=COUNTED_SEGMENTS, distinct=2, seed=seed)
    scores = _scores_along(network, x, pairs)
    winner = scores.argmax(2)
    first, second = winner[:, :1], winner[:, -1:]
    crosses = (first != second).squeeze(1).cpu()
    if not crosses.any():
        return 0.0
    own = [scores.take_along_dim(end[:, None], 2).squeeze(2) for end in (first, second)]
    difference = (own[0] - own[1]).abs()
    # g is positive in one of the two directions: each such point counts half.
    inside = ((winner == first) | (winner == second)) & (difference > 0) & (difference < 0.75)
    share = torch.trapezoid(inside.double().cpu() / 2, dx=1 / (SEGMENT_POINTS - 1))
    ends = gather(x, pairs, "cpu", torch.float64)
    lengths = (ends[:, 1] - ends[:, 0]).flatten(1).norm(dim=1)
    return float((lengths * share)[crosses].mean())


def _intra_pairs(y):
    """Indices (n, 2), n <= INTRA_SEGMENTS, of pairs of one label, rare among counted segments."""
    labels = y.cpu().numpy()
    rng = np.random.default_rng(0)
    order = rng.permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    neighbours = np.column_stack([order[:-1], order[1:]])
    neighbours = neighbours[labels[order[:-1]] == labels[order[1:]]]
    require(len(neighbours), "no label occurs twice: there is no pair within a class")
    return rng.permutation(neighbours)[:INTRA_SEGMENTS]


def _scores_along(network, x, pairs):
    """Softmax scores (n, SEGMENT_POINTS, num_classes) from x_i to x_j, (i, j) in pairs (n, 2)."""
    classifier = as_classifier(network, x)
    weights = torch.linspace(0, 1, SEGMENT_POINTS, dtype=classifier.dtype)

    def batch_of(start, stop):
        pair, step = np.divmod(np.arange(start, stop), SEGMENT_POINTS)
        ends = gather(x, pairs[pair], classifier.device, classifier.dtype)
        t = weights[step].to(classifier.device)
        return torch.lerp(ends[:, 0], ends[:, 1], t.view(-1, *[1] * (ends.ndim - 2)))

    def softmax(output):
        return _logits(output, len(output)).double().softmax(1)

    scores = read_outputs(classifier, batch_of, len(pairs) * SEGMENT_POINTS, softmax)
    return scores.view(len(pairs), SEGMENT_POINTS, -1)


class UnitInputs(TorchFunctionMode):
    """Inside the block activations return `visit(input)`, or their own output where it is None.

    A call of a function that `refused` names raises ValueError; so does a scripted network.
    """

    def __init__(self, network, visit, refused=OTHER_BENDS):
        super().__init__()
        scripted = any(isinstance(module, torch.jit.ScriptModule) for module in network.modules())
        require(not scripted, "a scripted network hides its operations: measure the original")
        self.visit, self.refused = visit, refused

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs, name = kwargs or {}, getattr(func, "__name__", "").split(".")[0].strip("_")
        if name in ACTIVATIONS:
            instead = self.visit(args[0] if args else kwargs["input"])
            return func(*args, **kwargs) if instead is None else instead
        found = f"the network calls {name}, which this measure does not follow"
        advice = "write it as an activation or a layer, or leave the measure out"
        of_two = any(isinstance(other, torch.Tensor) for other in (*args[1:], *kwargs.values()))
        strange = name in self.refused or (of_two and name in ("max", "min"))  # else along an axis
        require(not strange, f"{found}: {advice}")
        return func(*args, **kwargs)


def unit_signs(network, batch):
    """Whether the input of each unit is above 0: for each activation an array (points, units).

    The caller enters `undisturbed`, once for all batches: that takes longer than a small batch.
    """
    signs = []

    def visit(z):
        found = f"an activation has shape {tuple(z.shape)} for {len(batch)} points"
        expected = "this measure needs the points along its first axis"
        require(z.ndim and len(z) == len(batch), f"{found}: {expected}")
        signs.append((z > 0).reshape(len(z), -1))

    with UnitInputs(network, visit):
        network(batch)
    found = "no activation was found in the network"
    require(signs, f"{found}: this measure sees ReLU and its kin, of torch, alone")
    return signs


def linear_pieces(network, x, num_segments=80, num_points=51, seed=0):
    """Mean over segments of `1 + sum_k |c(z_k) - c(z_(k+1))|_1`, c(z) the signs of all units at z.

    Signs are 0 or 1. z_1, z_2, ... are equally spaced on a segment. The sum is the number of
    transitions of Novak et al. 2018, Sensitivity and generalization in neural networks, Sec. 3.2;
    their trajectories are closed and within a class. For ReLU networks it counts linear pieces, too
    few where a unit changes twice between neighbouring points. Raises ValueError for a network
    without a known activation or with other functions that bend (`OTHER_BENDS`).
    """
    classifier = as_classifier(network, x)
    device, dtype = classifier.device, classifier.dtype
    t = torch.linspace(0, 1, num_points, dtype=dtype, device=device)
    t = t.view(-1, *[1] * (len(x.shape) - 1))
    changes = 0
    with undisturbed(network, device):
        for pair in vertex_indices(len(x), num_samples=num_segments, distinct=2, seed=seed):
            points = torch.lerp(*gather(x, pair, device, dtype), t)
            changes += sum((s[1:] != s[:-1]).sum() for s in unit_signs(network, points))
    return 1 + int(changes) / num_segments


def local_complexity(network, x, radius=0.005):
    """Share of units whose sign is not the same at all x +- radius v_p, p = 1 ... 20, in [0, 1].

    The mean over x. v_p are orthonormal, drawn with a fixed seed, the same for every x, at most as
    many as an image has numbers. Humayun et al. 2024, Deep networks always grok and here is why,
    Sec. 3, with the radius and number of vertices of their code; theirs is the number of units by
    layer, here all have one weight. Raises ValueError as `linear_pieces`.
    """
    classifier = as_classifier(network, x)
    size = x[0].numel()
    orthonormal, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((size, min(20, size))))
    frame = torch.from_numpy(orthonormal.T.copy()).view(-1, *x.shape[1:])
    frame = frame.to(classifier.device, classifier.dtype)
    offsets = radius * torch.cat([frame, -frame])
    changed, number = 0, 0
    with undisturbed(network, classifier.device):
        for part in slices_of(x, 500 // len(offsets)):
            images = x[part].to(offsets)
            for signs in unit_signs(network, (images[:, None] + offsets).flatten(0, 1)):
                around = signs.view(len(images), len(offsets), -1)
                changed += (around.any(1) & ~around.all(1)).sum()
                number += around[:, 0].numel()
    return int(changed) / number


def some_images(images, labels, number):
    """(images, labels): the first `number`, or, where those lack a class, as many spread evenly."""
    if len(labels[:number].unique()) == len(labels.unique()):
        return images[:number], labels[:number]
    index = torch.linspace(0, len(labels) - 1, number, device=labels.device).round().long()
    return images[index], labels[index]


def _of_images(function, number=None, split="train"):
    """A measure of images and labels, all of them or about `number`."""

    def value(network, initial, data):
        images, labels = getattr(data, f"x_{split}"), getattr(data, f"y_{split}")
        if number is not None:
            images, labels = some_images(images, labels, number)
        return function(network, images, labels)

    return value


def _of_curve(score, classes="all", seed=0):
    """A measure of the mixup curve of the training images."""
    return _of_images(lambda network, x, y: score(mixup_curve(network, x, y, classes, seed)))


# Name -> function of (network, the same network at its start, data) to a number or list of numbers.
#
# Those that end in `_own` draw their own segments, for the second round of the book's studies.
# Records also hold measures of the first round that were withdrawn: book/columns.csv has them.
MEASURES = {
    "distance_from_init": lambda network, initial, data: distance_from_init(network, initial),
    "margin": _of_images(output_margin),
    "margin_over_gradient": _of_images(margin_over_gradient, 3000),
    "num_parameters": lambda network, initial, data: sum(p.numel() for p in network.parameters()),
    "sharpness": _of_images(sharpness, 250),
    "log_spectral_product": lambda network, initial, data: log_spectral_product(network),
    "log_path_norm": _of_images(lambda network, x, y: log_path_norm(network, x)),
    "input_gradient": _of_images(input_gradient),
    "jacobian_norm_test": _of_images(lambda network, x, y: jacobian_norm(network, x), 250, "test"),
    "mixup_accuracy": _of_curve(mixup_accuracy),
    "mixup_accuracy_own": _of_curve(mixup_accuracy, seed=OWN),
    "gi_score_inter": _of_curve(gi_score, "inter"),
    "gi_score_inter_own": _of_curve(gi_score, "inter", OWN),
    "gi_score_intra": _of_curve(gi_score, "intra"),
    "pal_score_inter_own": _of_curve(pal_score, "inter", OWN),
    "pal_score_intra_own": _of_curve(pal_score, "intra"),
    "mixup_curve_inter": _of_curve(list, "inter", OWN),
    "mixup_curve_intra": _of_curve(list, "intra"),
    "boundary_thickness_own": _of_images(lambda network, x, y: boundary_thickness(network, x, OWN)),
    "linear_pieces": _of_images(lambda network, x, y: linear_pieces(network, x)),
    "linear_pieces_own": _of_images(lambda network, x, y: linear_pieces(network, x, seed=OWN)),
    "local_complexity": _of_images(lambda network, x, y: local_complexity(network, x), 100),
}


def measure(name, network, initial, data):
    """Value of a measure of `network` that started as `initial` and was trained on `data`.

    name: a key of MEASURES. initial: may be None for a measure that does not take it. The value is
    a number or a list of them, in evaluation mode; ValueError for another, or an unknown measure.
    A reader's measure gets copies of networks and labels, and may change them.
    """
    check_name("measure", name, MEASURES)
    device = data.y_train.device
    if not is_ours(MEASURES[name]):
        copies = {key: getattr(data, key).clone() for key in ("y_train", "y_test")}
        data = dataclasses.replace(data, **copies)
        network, initial = copy.deepcopy((network, initial))
    with undisturbed(network, device), undisturbed(initial, device):
        value = MEASURES[name](network, initial, data)
    with naming(f"measure {name!r} returned no number and no list of them, but {value!r}"):
        if isinstance(value, list):
            return [float(number) for number in value]
        return value if isinstance(value, int) else float(value)
