"""The two tasks of Loukas et al. (Sec. 6, App. A.1 and A.5) and their networks, side by side.

The levels of a task (frequencies or corruptions) share the points, the initialisation and the order
of samples of a repetition, so that levels are compared in pairs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from rc_theory.complexity.stacked import IdentityLayer, draw_samples, stack
from rc_theory.complexity.trajectory import Trajectory, follow_training
from rc_utils.datasets import load_dataset
from rc_utils.evaluation import own_random_state
from rc_utils.validation import check_name

FREQUENCIES = (0.25, 0.5, 0.75, 1.0)
CORRUPTIONS = (0.0, 0.2, 0.4, 0.6)
# Two classes of each dataset; those of CIFAR-10 and MNIST are the paper's.
CLASSES = {"shapes": ("disc", "crescent"), "cifar10": ("airplane", "dog")}
CLASSES |= {"mnist": ("3", "6"), "digits": ("3", "6")}
# He's scale of weights; Task 1 starts at a larger one, from which SGD fits in fewer steps.
HE, TASK_1_SCALE, TASK_1_BIAS = math.sqrt(2), 2.0, 0.3


@dataclass(frozen=True)
class Task:
    """M models with their training and test data."""

    level: np.ndarray  # (M,), frequency or corruption
    repetition: np.ndarray  # (M,), from 1000 seed on: what its draws follow from
    networks: list[nn.Sequential]  # the ordinary networks at their initialisation
    train: tuple[Tensor, Tensor]  # x (M or 1, N, *shape), y (M, N)
    test: tuple[Tensor, Tensor]
    loss: str  # "mse" or "bce"

    def run(
        self, *, epochs: float, lr: float, batch_size: int = 1, every: int = 0, **options: bool
    ) -> tuple[nn.Sequential, Trajectory]:
        """Train all models side by side; returns the trained stack and its trajectory.

        An epoch is N samples drawn with replacement; a block has `every` steps, by default an
        epoch. `options` are of `follow_training`.
        """
        points = self.train[1].shape[1]
        steps = max(1, round(epochs * points / batch_size))
        samples = draw_samples(self.repetition.tolist(), steps, points, batch_size)
        networks = stack(self.networks)
        options |= {"loss": self.loss, "lr": lr, "every": every or max(1, points // batch_size)}
        return networks, follow_training(networks, self.train, self.test, samples, **options)


def sinusoid(z: np.ndarray, frequency: float) -> np.ndarray:
    """cos(2 pi w z_1) cos(2 pi w z_2) of points z (..., 2) (Loukas App. A.1)."""
    return np.cos(2 * np.pi * frequency * z).prod(-1)


def isometry(seed: int, dim: int = 10) -> np.ndarray:
    """The first two columns of a random orthogonal matrix, (dim, 2)."""
    return np.linalg.qr(np.random.default_rng([seed, 1]).normal(size=(dim, dim)))[0][:, :2]


def multilayer_perceptron(
    inputs: int,
    widths: Sequence[int],
    *,
    seed: int,
    free_first_layer: bool = False,
    weight_scale: float = HE,
    bias_range: float = 0.0,
) -> nn.Sequential:
    """ReLU network: identity first layer with bias, hidden layers of `widths`, one output.

    Weights are normal with standard deviation weight_scale / sqrt(fan-in), and the biases after the
    first layer uniform in ±bias_range. `free_first_layer` makes the first layer a linear one that
    starts as the identity (App. A.7, which does not say how it starts).
    """
    with own_random_state(seed=seed):
        first: nn.Module = IdentityLayer(inputs)
        if free_first_layer:
            bias, first = first.bias, nn.Linear(inputs, inputs)
            first.weight.data, first.bias.data = torch.eye(inputs), bias.data
        layers, fan_in = [first, nn.ReLU()], inputs
        for width in (*widths, 1):
            linear = _initialised(nn.Linear(fan_in, width), weight_scale, bias_range)
            layers += [linear, nn.ReLU()]
            fan_in = width
        return nn.Sequential(*layers[:-1])


def convolutional_network(shape: Sequence[int], *, seed: int) -> nn.Sequential:
    """Identity first layer, two 3 x 3 convolutions of stride 2 (8 and 16 channels), one output.

    shape: (C, H, W) of an image. Weights are He's, biases after the first layer zero.
    """
    with own_random_state(seed=seed):
        layers: list[nn.Module] = [IdentityLayer(*shape), nn.ReLU()]
        (fan_in, height, width) = shape
        for fan_out in (8, 16):
            layers += [_initialised(nn.Conv2d(fan_in, fan_out, 3, stride=2, padding=1)), nn.ReLU()]
            fan_in, height, width = fan_out, (height + 1) // 2, (width + 1) // 2
        last = _initialised(nn.Linear(fan_in * height * width, 1))
        return nn.Sequential(*layers, nn.Flatten(1), last)


def _initialised(layer, weight_scale=HE, bias_range=0.0):
    nn.init.normal_(layer.weight, std=weight_scale / math.sqrt(layer.weight[0].numel()))
    nn.init.uniform_(layer.bias, -bias_range, bias_range)
    return layer


def sinusoid_task(
    *,
    frequencies: Sequence[float] = FREQUENCIES,
    repetitions: int = 10,
    num_points: int = 100,
    widths: Sequence[int] = (64, 64, 64),
    free_first_layer: bool = False,
    dtype: torch.dtype = torch.float32,
    device: str = "cpu",
    seed: int = 0,
) -> Task:
    """Task 1: fit sinusoids in a plane embedded isometrically in R^10.

    The paper prints neither the widths nor the initialisation. As many test points are drawn as
    training points.
    """
    level, seeds = _grid(frequencies, repetitions, seed)
    start = {"weight_scale": TASK_1_SCALE, "bias_range": TASK_1_BIAS}
    start["free_first_layer"] = free_first_layer
    networks = [multilayer_perceptron(10, widths, seed=int(s), **start) for s in seeds]
    shape = (2 * num_points, 2)
    points = np.stack([np.random.default_rng([s, 2]).uniform(-1, 1, shape) for s in seeds])
    x = torch.from_numpy(np.stack([z @ isometry(s).T for s, z in zip(seeds, points, strict=True)]))
    y = torch.from_numpy(np.stack([sinusoid(z, w) for w, z in zip(level, points, strict=True)]))
    x, y = x.to(device, dtype), y.to(device, dtype)
    train, test = (x[:, :num_points], y[:, :num_points]), (x[:, num_points:], y[:, num_points:])
    return Task(level, seeds, [n.to(device, dtype) for n in networks], train, test, "mse")


def corruption_task(
    *,
    dataset: str = "shapes",
    corruptions: Sequence[float] = CORRUPTIONS,
    repetitions: int = 8,
    num_images: int = 200,
    num_test: int = 400,
    image_size: int | None = 12,
    device: str = "cpu",
    seed: int = 0,
) -> Task:
    """Task 2: classify two classes of images after a share of the training labels is randomised.

    All models see the same images. Repetition r draws the initialisation, the samples and which
    labels are corrupted. Test labels stay right. Raises ValueError for a dataset that is not in
    CLASSES, for digits, which are too few and too small, and whatever `load_dataset` raises.
    """
    check_name("dataset of Task 2", dataset, CLASSES.keys() - {"digits"})
    level, seeds = _grid(corruptions, repetitions, seed)
    options = {"n_train": num_images, "n_test": num_test, "image_size": image_size, "seed": seed}
    (x, labels), (x_test, y_test) = _two_classes(dataset, device, **options)
    noisy = [corrupt(labels.numpy(), share, int(s)) for share, s in zip(level, seeds, strict=True)]
    networks = [convolutional_network(x.shape[2:], seed=int(s)).to(device) for s in seeds]
    y = torch.from_numpy(np.stack(noisy)).float().to(device)
    test = (x_test, y_test.float().expand(len(level), -1).to(device))
    return Task(level, seeds, networks, (x, y), test, "bce")


def corrupt(labels: np.ndarray, share: float, seed: int) -> np.ndarray:
    """Replace a share of the labels 0 and 1, (N,), by random ones; larger shares contain smaller.

    On average half of these labels stay right, as in Zhang et al. (2017), whom the paper follows.
    """
    rng = np.random.default_rng([seed, 3])
    order, random = rng.permutation(len(labels)), rng.integers(0, 2, len(labels))
    corrupted = order[: round(share * len(labels))]
    changed = labels.copy()
    changed[corrupted] = random[corrupted]
    return changed


def _two_classes(dataset, device, **options):
    """Training and test images (1, N, C, H, W) and labels (N,) of a dataset's two CLASSES."""
    check_name("dataset of two classes", dataset, CLASSES)
    data = load_dataset(dataset, classes=CLASSES[dataset], **options)
    x, x_test = data.x_train[:][None].to(device), data.x_test[:][None].to(device)
    return (x, data.y_train), (x_test, data.y_test)


def digit_tasks(
    *,
    dataset: str = "digits",
    images_per_class: int = 100,
    repetitions: int = 8,
    num_test: int | None = None,
    seed: int = 0,
) -> dict[str, Task]:
    """App. A.5: {"MLP": Task, "CNN": Task}, both to classify two CLASSES, of digits 3 and 6."""
    level, seeds = _grid((0.0,), repetitions, seed)
    options = {"n_train": 2 * images_per_class, "n_test": num_test, "seed": seed}
    (x, labels), (x_test, labels_test) = _two_classes(dataset, "cpu", **options)
    y, y_test = (each.float().expand(repetitions, -1) for each in (labels, labels_test))
    shape = x.shape[2:]
    perceptrons = [multilayer_perceptron(shape.numel(), (64,) * 3, seed=int(s)) for s in seeds]
    convolutional = [convolutional_network(shape, seed=int(s)) for s in seeds]
    flat, images = ((x.flatten(2), y), (x_test.flatten(2), y_test)), ((x, y), (x_test, y_test))
    kinds = {"MLP": (perceptrons, *flat), "CNN": (convolutional, *images)}
    return {name: Task(level, seeds, *parts, "bce") for name, parts in kinds.items()}


def _grid(levels, repetitions, seed):
    """Level and repetition of each model, every level with every repetition."""
    numbers = 1000 * seed + np.arange(repetitions)
    return np.repeat(levels, repetitions).astype(float), np.tile(numbers, len(levels))
