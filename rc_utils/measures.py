"""Scalar measures of a trained network that compete with the region count."""

import math

import numpy as np
import torch
import torch.nn.functional as F

from rc_utils.checks import unknown_name
from rc_utils.regions.evaluation import evaluation_mode, full_precision, images_per_batch


def distance_from_init(network, initial):
    """d(W) = sqrt(sum_i ||W_i - W_i^0||_F^2) over all weight matrices and kernels (v1 App. B, Example 1).

    network, initial: the trained network and the same network at its initialisation. Biases and the scale and
    shift of batch normalisation (parameters of fewer than two dimensions) are left out, as in the definition.
    """
    pairs = zip(network.parameters(), initial.parameters(), strict=True)
    squares = [(w - w0.to(w.device)).detach().double().square().sum() for w, w0 in pairs if w.dim() >= 2]
    return math.sqrt(float(torch.stack(squares).sum())) if squares else 0.0


@full_precision()
@torch.no_grad()
def output_margin(network, x, y, batch_size=None):
    """gamma(W) = mean over (x, y) of f(x)_y - max_{i != y} f(x)_i (v1 App. B), in logits.

    x: images (N, C, H, W); y: labels (N,). batch_size: images in one forward pass; None chooses.
    """
    total, batch_size = 0.0, batch_size or images_per_batch(x, 1000)
    with evaluation_mode(network):
        for i in range(0, len(y), batch_size):
            total += float(_margins(network(x[i : i + batch_size]).double(), y[i : i + batch_size]).sum())
    return total / len(y)


def _margins(logits, y):
    """f(x)_y - max_{i != y} f(x)_i of every image, (N,)."""
    target = y[:, None]
    return logits.gather(1, target).squeeze(1) - logits.scatter(1, target, -math.inf).amax(1)


@full_precision()
def sharpness(network, x, y, tolerance=0.05):
    """Largest eigenvalue of the Hessian of the mean cross-entropy over (x, y) with respect to all parameters.

    The network is in evaluation mode, so that the loss is a function of the parameters alone. Lanczos iterations with
    Hessian-vector products from a fixed start; `tolerance` bounds the relative error of the eigenvalue.
    x: images (N, C, H, W); y: labels (N,). All images are in one graph: a few hundred are meant. 0 where nothing can be
    trained or the start meets no curvature, as on images that a network has separated for good.
    """
    from scipy.sparse.linalg import LinearOperator, eigsh

    parameters = [p for p in network.parameters() if p.requires_grad]
    size = sum(p.numel() for p in parameters)
    if not parameters:
        return 0.0
    with evaluation_mode(network), torch.enable_grad():
        loss = F.cross_entropy(network(x), y)
        gradients = torch.autograd.grad(loss, parameters, create_graph=True, materialize_grads=True)
        gradient = torch.cat([g.reshape(-1) for g in gradients])

        def hessian_vector_product(vector):
            vector = torch.as_tensor(vector.reshape(-1), dtype=gradient.dtype, device=gradient.device)
            product = torch.autograd.grad(gradient, parameters, vector, retain_graph=True, materialize_grads=True)
            return torch.cat([part.reshape(-1) for part in product]).double().cpu().numpy()

        hessian = LinearOperator((size, size), matvec=hessian_vector_product, dtype=np.float64)
        start = np.random.default_rng(0).standard_normal(size)
        if not hessian_vector_product(start).any():
            return 0.0
        return float(eigsh(hessian, k=1, which="LA", ncv=5, v0=start, tol=tolerance, return_eigenvectors=False)[0])


@torch.no_grad()
def log_spectral_product(network):
    """Natural logarithm of the product of the spectral norms of all weight matrices and kernels.

    A kernel (out, in, k, k) counts as the matrix (out, in k k). The product bounds the Lipschitz constant of a network
    of matrices and 1-Lipschitz activations; with normalisation layers, which rescale every layer, it bounds nothing.
    """
    matrices = [w.detach().double().flatten(1) for w in network.parameters() if w.dim() >= 2]
    return float(sum(torch.linalg.matrix_norm(matrix, 2).log() for matrix in matrices))


@full_precision()
def input_gradient(network, x, y, batch_size=None):
    """Mean over (x, y) of the Euclidean norm of the gradient of the output margin with respect to the image.

    A local Lipschitz constant at the data: margin over input gradient is, to first order, the distance to the nearest
    decision boundary. x: standardised images (N, C, H, W); y: labels (N,).
    batch_size: images in one forward pass; None chooses.
    """
    total, batch_size = 0.0, batch_size or images_per_batch(x, 500)
    with evaluation_mode(network), torch.enable_grad():
        for i in range(0, len(y), batch_size):
            images = x[i : i + batch_size].detach().clone().requires_grad_()
            margins = _margins(network(images), y[i : i + batch_size])
            (gradient,) = torch.autograd.grad(margins.sum(), images)
            total += float(gradient.flatten(1).double().norm(dim=1).sum())
    return total / len(y)


SHARPNESS_IMAGES = 250


def some_images(data, number):
    """(images, labels): the first `number` for training or, where those lack a class, as many at equal distances.

    Subsets are balanced by class throughout; data that are taken as they are stored may be sorted by class.
    """
    labels = data.y_train
    if len(labels[:number].unique()) == len(labels.unique()):
        return data.x_train[:number], labels[:number]
    index = torch.linspace(0, len(labels) - 1, number, device=labels.device).round().long()
    return data.x_train[index], labels[index]


MEASURES = {
    "distance_from_init": lambda network, initial, data: distance_from_init(network, initial),
    "margin": lambda network, initial, data: output_margin(network, data.x_train, data.y_train),
    "num_parameters": lambda network, initial, data: sum(p.numel() for p in network.parameters()),
    "sharpness": lambda network, initial, data: sharpness(network, *some_images(data, SHARPNESS_IMAGES)),
    "log_spectral_product": lambda network, initial, data: log_spectral_product(network),
    "input_gradient": lambda network, initial, data: input_gradient(network, data.x_train, data.y_train),
}

# Measures of the architecture alone: a record gets them without its weights.
UNTRAINED = ("num_parameters",)


def measure(name, network, initial, data):
    """Value of the measure `name` (a key of MEASURES) of `network` that started as `initial` and trained on `data`.

    Raises ValueError for an unknown measure and for one that returns something else than a number.
    """
    if name not in MEASURES:
        raise unknown_name("measure", name, MEASURES)
    with full_precision():
        value = MEASURES[name](network, initial, data)
    try:
        if isinstance(value, str | bytes):
            raise TypeError("it is a text")
        return value if isinstance(value, int) else float(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"measure {name!r} returned {value!r}; expected one number ({error})") from error
