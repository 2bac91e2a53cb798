"""What a campaign costs before any of it has run: floating-point operations, and hours at a stated rate."""

import functools
import json

import torch

from rc_utils.counting import make_lattice
from rc_utils.networks import build_network

# Training images, side and channels of the datasets at their own size.
DATASETS = {
    "shapes": (2_000, 16, 3),
    "digits": (1_437, 8, 1),
    "mnist": (60_000, 28, 1),
    "cifar10": (50_000, 32, 3),
    "cifar100": (50_000, 32, 3),
    "imagenet": (1_281_167, 224, 3),
}
DEFAULT_TFLOPS = 10.0  # what a data-centre card may sustain on networks this small
TRAINING_FACTOR = 3  # forward pass, gradients of the activations, gradients of the weights


def run_flops(planned):
    """Floating-point operations of one planned run: training, and the evaluations of its counts on the grid.

    A multiplication and an addition are two operations; only matrix products and convolutions are counted. The counts
    during training are included. Raises ValueError for a dataset whose size is not known here, and a
    network whose forward pass needs numbers.
    """
    data = planned.spec.dataset
    if data["name"] not in DATASETS:
        raise ValueError(f"the size of dataset {data['name']!r} is not known; known are {', '.join(DATASETS)}")
    n_train, size, channels = DATASETS[data["name"]]
    n_train, size = data.get("n_train", n_train), data.get("image_size", size)
    classes = {"cifar100": 100, "imagenet": 1000}.get(data["name"], 10)
    forward = _forward_flops(json.dumps(planned.spec.network, sort_keys=True), size, channels, classes)
    counted = sum(evaluations(settings) for settings in planned.counts.values())
    during = sum(evaluations(settings) for settings in planned.evolution_counts.values())
    images = TRAINING_FACTOR * n_train * _epochs(planned.spec.train) + counted
    looks = len(planned.evolution_epochs) + (planned.evolution_loss is not None)
    return forward * (images + during * looks)


def _epochs(config):
    """Epochs of plain training that cost as much: two passes a step and second derivatives count double."""
    epochs = config.pretrain_epochs + config.epochs * (1 + config.between_share)
    for twice in (config.sam_radius, config.gradient_penalty):
        epochs *= 2 if twice else 1
    return epochs


def evaluations(settings):
    """Points at which a count with these settings evaluates the network."""
    chosen = {key: settings[key] for key in ("resolution", "domain") if key in settings}
    lattice = make_lattice(settings.get("dim", 1), adjacency=settings.get("adjacency", "face"), **chosen)
    return settings.get("num_samples", 100) * lattice.num_points


@functools.cache
def _forward_flops(network, size, channels, classes):
    from torch.utils.flop_counter import FlopCounterMode

    options = {k: v for k, v in json.loads(network).items() if k != "source_sha256"}
    try:
        module = build_network(**options, num_classes=classes, in_channels=channels, image_size=size).to("meta").eval()
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            module(torch.empty(2, channels, size, size, device="meta"))
    except Exception as error:  # whatever a network of the reader's raises
        what = f"{type(error).__name__}: {error}"
        raise ValueError(f"network {options['name']!r} cannot be made or run without data ({what})") from error
    return counter.get_total_flops() / 2
