"""Measures of the weights: norms, distances, and the curvature of the loss."""

import copy
import math

import numpy as np
import torch
import torch.nn.functional as F
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.utils import parametrize

from rc_utils.checks import require
from rc_utils.counting.classifier import as_classifier
from rc_utils.counting.evaluation import evaluation_mode, full_precision
from rc_utils.measures.activations import UnitInputs


def check_weights(network):
    """Raise ValueError where a layer's weight is computed from parameters: they are not the matrix that acts."""
    for name, module in network.named_modules():
        hooks = [type(hook).__name__ for hook in module._forward_pre_hooks.values()]
        computed = parametrize.is_parametrized(module) or any("orm" in hook or "run" in hook for hook in hooks)
        require(
            not computed and not any(key.endswith("_orig") for key in module._parameters),
            f"the weight of layer {name!r} is computed from parameters (a parametrisation, weight norm or pruning): "
            "make it plain first, by remove_parametrizations, remove_weight_norm or prune.remove of torch.nn.utils",
        )


def distance_from_init(network, initial):
    """d(W) = sqrt(sum_i ||W_i - W_i^0||_F^2) over all weight matrices and kernels (v1 App. B, Example 1).

    network, initial: the trained network and the same network at its initialisation. Biases and the scale and
    shift of batch normalisation (parameters of fewer than two dimensions) are left out, as in the definition.
    """
    check_weights(network)
    pairs = zip(network.parameters(), initial.parameters(), strict=True)
    squares = [(w - w0.to(w.device)).detach().double().square().sum() for w, w0 in pairs if w.dim() >= 2]
    return math.sqrt(float(torch.stack(squares).sum())) if squares else 0.0


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
    check_weights(network)
    matrices = [w.detach().double().flatten(1) for w in network.parameters() if w.dim() >= 2]
    return float(sum(torch.linalg.matrix_norm(matrix, 2).log() for matrix in matrices))


@torch.no_grad()
def log_path_norm(network, x):
    """log sqrt(sum_k f_(w^2)(1)_k): f with every weight and bias squared, at an image of ones; natural logarithm.

    For a ReLU network the root of the sum, over all paths from an input or a bias to an output, of the products of
    their squared weights (Neyshabur et al. 2015, Norm-based capacity control in neural networks, Sec. 5; computed as in
    Jiang et al. 2020, Fantastic generalization measures, Eq. 44). A batch norm is the affine map that it is in
    evaluation mode. An activation has the slope that it has for large inputs, 1. Sigmoid gates and max-pools are
    applied as they are.

    x: images (N, C, H, W), of which only the shape is used. Cost: one forward pass in float64.
    """
    check_weights(network)
    squared = copy.deepcopy(network).eval().double()
    done = set()
    for module in squared.modules():
        if isinstance(module, _BatchNorm):
            _square_norm(module)
            continue
        for tensor in (*module.parameters(recurse=False), *module.buffers(recurse=False)):
            if tensor.is_floating_point() and id(tensor) not in done:
                tensor.square_()
                done.add(id(tensor))
    ones = torch.ones(1, *x.shape[1:], dtype=torch.float64, device=as_classifier(network, x).device)
    with UnitInputs(lambda z: z):
        total = squared(ones).sum()
    return float(total.log()) / 2


def _square_norm(norm):
    """Make a batch norm a x + b of evaluation mode the map a^2 x + b^2."""
    scale = (norm.running_var + norm.eps).rsqrt()
    scale = scale if norm.weight is None else scale * norm.weight
    shift = -norm.running_mean * scale
    shift = shift if norm.bias is None else shift + norm.bias
    norm.weight, norm.bias = (torch.nn.Parameter(v.square()) for v in (scale, shift))
    norm.running_mean = torch.zeros_like(shift)
    norm.running_var = torch.full_like(scale, 1 - norm.eps)
