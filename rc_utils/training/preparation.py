"""Checks of a network before it is trained, and its memory layout."""

import copy

import torch

from rc_utils.checks import require
from rc_utils.counting.classifier import NUM_PROBED, as_classifier, probed, require_weights
from rc_utils.counting.evaluation import evaluation_mode, own_random_state
from rc_utils.datasets import ImageTensor


def training_layout(
    network: torch.nn.Module,
    images: ImageTensor | torch.Tensor,
    device: torch.device,
    precision: str = "float32",
) -> torch.memory_format:
    """The memory layout in which `network` is trained: channels last, where that is faster.

    On a CPU it is (`make bench`), on a GPU with its tensor cores, which do not compute in float32.
    It cannot be where the network views its activations as if they were contiguous,
    `x.view(len(x), -1)`; a network that is not of this package is tried on two of the `images`.

    In that layout a kernel of oneDNN writes past its buffer in the backward pass of a strided 1 x 1
    convolution: of fewer than 8 channels on a CPU with AVX2 and without AVX-512 (oneDNN issue 6035,
    open in 2026), and of fewer than 16 with several threads and an odd number of images on one with
    AVX-512 (seen here with torch 2.13). That ends in a crash or in wrong gradients, and does not
    happen in the contiguous layout.
    """
    on_cpu = device.type == "cpu"
    few = 8 if torch.get_num_threads() == 1 else 16
    overruns = on_cpu and any(
        isinstance(m, torch.nn.Conv2d) and set(m.kernel_size) == {1} and max(m.stride) > 1 and m.in_channels < few
        for m in network.modules()
    )
    if (precision == "float32" and not on_cpu) or overruns or not _takes_channels_last(network, images):
        return torch.contiguous_format
    return torch.channels_last


def _takes_channels_last(network, images):
    if type(network).__module__.startswith("rc_utils."):
        return True
    try:
        device = next(network.parameters()).device
        with own_random_state(device), torch.enable_grad():
            trial = copy.deepcopy(network).train().to(memory_format=torch.channels_last)
            batch = images[:2].to(device).contiguous(memory_format=torch.channels_last)
            trial(batch).sum().backward()
    except Exception:  # what is wrong in any layout is named where the network is trained
        return False
    return True


def check_parameters(network):
    """Raise ValueError for a network without anything to train, or whose layers have no shape yet."""
    require_weights(network)
    none = f"{type(network).__name__} has no parameter to train"
    require(any(p.requires_grad for p in network.parameters()), none)


def check_outputs(network, data):
    """Raise ValueError unless each image has a score for each class that is a function of it alone."""
    images = data.x_train[:NUM_PROBED]
    with evaluation_mode(network), torch.no_grad():
        shape = tuple(getattr(network(images), "shape", ()))
    n, classes = len(images), data.num_classes
    found = f"{type(network).__name__} makes an output of shape {shape} of {n} images"
    fits = len(shape) == 2 and shape[0] == n and shape[1] >= classes
    require(fits, f"{found}; expected ({n}, {classes}), a score for each class")
    probed(as_classifier(network, images), images)
