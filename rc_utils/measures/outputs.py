"""Measures of the outputs and their gradients at images."""

import math

import torch

from rc_utils.counting.evaluation import evaluation_mode, full_precision
from rc_utils.datasets.images import images_per_batch


@full_precision()
@torch.no_grad()
def output_margin(network, x, y):
    """gamma(W) = mean over (x, y) of f(x)_y - max_{i != y} f(x)_i (v1 App. B), in logits.

    x: images (N, C, H, W); y: labels (N,).
    """
    total, batch_size = 0.0, images_per_batch(x, 1000)
    with evaluation_mode(network):
        for i in range(0, len(y), batch_size):
            total += float(_margins(network(x[i : i + batch_size]).double(), y[i : i + batch_size]).sum())
    return total / len(y)


def _margins(logits, y):
    """f(x)_y - max_{i != y} f(x)_i of every image, (N,)."""
    target = y[:, None]
    return logits.gather(1, target).squeeze(1) - logits.scatter(1, target, -math.inf).amax(1)


@full_precision()
def input_gradient(network, x, y):
    """Mean over (x, y) of the Euclidean norm of the gradient of the output margin with respect to the image.

    A local Lipschitz constant at the data. x: standardised images (N, C, H, W); y: labels (N,).
    """
    _, norms = margins_and_gradients(network, x, y)
    return float(norms.sum()) / len(y)


def margin_over_gradient(network, x, y):
    """Median over (x, y) of the output margin over the norm of its gradient by the image.

    To first order the distance of an image from the nearest decision boundary, in units of standardised images
    (Elsayed et al. 2018, Large margin deep networks for classification, Sec. 3); negative where the
    label is wrong. The median, since the quotient has no bound where a network is flat.
    x: (N, C, H, W); y: labels (N,).
    """
    margins, norms = margins_and_gradients(network, x, y)
    return float((margins / norms.clamp_min(torch.finfo(norms.dtype).tiny)).median())


@full_precision()
def margins_and_gradients(network, x, y):
    """Output margins (N,) of images and the norms (N,) of their gradients by the image, float64."""
    margins_of, norms, batch_size = [], [], images_per_batch(x, 500)
    with evaluation_mode(network), torch.enable_grad():
        for i in range(0, len(y), batch_size):
            images = x[i : i + batch_size].detach().clone().requires_grad_()
            margins = _margins(network(images), y[i : i + batch_size])
            (gradient,) = torch.autograd.grad(margins.sum(), images)
            margins_of.append(margins.detach().double())
            norms.append(gradient.flatten(1).double().norm(dim=1))
    return torch.cat(margins_of), torch.cat(norms)


@full_precision()
def jacobian_norm(network, x):
    """Mean over x of |J(x)|_F, J = d softmax(f(x)) / d x, of shape (num_classes, C H W).

    Novak et al. 2018, Sensitivity and generalization in neural networks, Sec. 3.1, who take test
    images. Each row of J is one gradient, without sampling. x: standardised images (N, C, H, W).
    Cost: one forward and num_classes backward passes per image.
    """
    total, batch_size = 0.0, images_per_batch(x, 500)
    with evaluation_mode(network), torch.enable_grad():
        for i in range(0, len(x), batch_size):
            images = x[i : i + batch_size].detach().clone().requires_grad_()
            rows = network(images).softmax(1).sum(0)
            squares = 0.0
            for row in rows:
                (gradient,) = torch.autograd.grad(row, images, retain_graph=True)
                squares = squares + gradient.flatten(1).double().square().sum(1)
            total += float(squares.sqrt().sum())
    return total / len(x)
