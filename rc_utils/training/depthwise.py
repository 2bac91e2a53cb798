"""Depthwise convolutions of small maps as products: what makes narrow networks on small images trainable on a CPU.

Where the kernel is larger than the map, as in the last stages of a network for 32 x 32 images, oneDNN takes some
milliseconds for the gradient of the kernel, many times as long as its arithmetic would (`make bench`).
"""

import contextlib
import functools

import numpy as np
import torch
import torch.nn.functional as F


@contextlib.contextmanager
def fast_depthwise(network):
    """Inside the block, depthwise layers of `network` on a CPU take `depthwise_product` where it is the faster way.

    The function stays the same but for rounding; no layer is replaced.
    """
    patched = [m for m in network.modules() if type(m) is torch.nn.Conv2d and _is_plain_depthwise(m)]
    for module in patched:
        module._conv_forward = functools.partial(_forward, stride=module.stride, padding=module.padding)
    try:
        yield
    finally:
        for module in patched:
            del module._conv_forward


def _is_plain_depthwise(conv):
    return (
        1 < conv.groups == conv.in_channels == conv.out_channels
        and conv.dilation == (1, 1)
        and conv.padding_mode == "zeros"
        and not isinstance(conv.padding, str)
        and conv.weight.device.type == "cpu"
    )


def _forward(x, weight, bias, *, stride, padding):
    if x.dim() == 4 and max(x.shape[2:]) < min(weight.shape[2:]):
        y = depthwise_product(x, weight, stride, padding)
        return y if bias is None else y + bias[:, None, None]
    return F.conv2d(x, weight, bias, stride, padding, groups=len(weight))


def depthwise_product(x, weight, stride=(1, 1), padding=(0, 0)):
    """`F.conv2d(x, weight, None, stride, padding, groups=C)` as one product of all pixels with all pixels.

    x (B, C, H, W) and weight (C, 1, K, L) give (B, C, h, w). Work and memory grow with H W h w.
    """
    taps, size = _taps(tuple(x.shape[2:]), tuple(weight.shape[2:]), stride, padding)
    taps = torch.from_numpy(taps)
    by_tap = F.pad(weight.flatten(1).t(), (0, 0, 0, 1)).to(x.dtype)  # the last one is zero: taps that do not meet
    matrix = by_tap.index_select(0, taps.flatten()).unflatten(0, taps.shape)  # (H W, h w, C)
    pixels = x.permute(0, 2, 3, 1).flatten(1, 2)
    return (pixels.unsqueeze(2) * matrix).sum(1).unflatten(1, size).permute(0, 3, 1, 2)


@functools.lru_cache(maxsize=64)
def _taps(image, kernel, stride, padding):
    """Index of the weight that joins input pixel p to output pixel q, (H W, h w), K L where none does; and (h, w).

    NumPy, because a tensor made in inference mode could not be kept for training.
    """
    size = tuple((n + 2 * p - k) // s + 1 for n, k, s, p in zip(image, kernel, stride, padding, strict=True))
    rows = np.arange(image[0])[:, None] + padding[0] - stride[0] * np.arange(size[0])
    columns = np.arange(image[1])[:, None] + padding[1] - stride[1] * np.arange(size[1])
    rows, columns = rows[:, None, :, None], columns[None, :, None, :]
    meets = (rows >= 0) & (rows < kernel[0]) & (columns >= 0) & (columns < kernel[1])
    taps = np.where(meets, rows * kernel[1] + columns, kernel[0] * kernel[1])
    return taps.reshape(image[0] * image[1], size[0] * size[1]), size
