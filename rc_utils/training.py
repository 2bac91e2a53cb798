"""One training loop for every experiment: data on the device, batches as index tensors, no DataLoader."""

import contextlib
import copy
import dataclasses
import math
import time
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from rc_utils.augmentation import crop_and_flip, mixup
from rc_utils.checks import check_count, checked_value, require, unknown_name
from rc_utils.datasets import Dataset, ImageTensor
from rc_utils.depthwise import fast_depthwise, plain
from rc_utils.regions.classifier import NonFiniteScores
from rc_utils.regions.evaluation import evaluation_mode, full_precision, images_per_batch

OPTIMIZERS = ("sgd", "adam", "adagrad")
SCHEDULES = ("cosine", "constant")
PRECISIONS = {"float32": None, "bfloat16": torch.bfloat16}


@dataclasses.dataclass(frozen=True)
class TrainConfig:
    """What changes the result of a training run, and nothing else.

    The defaults are the paper's setting as far as it is stated (v1 App. C: SGD, cosine schedule, no
    augmentation); momentum 0.9 is the assumption of the public CIFAR zoo whose networks the paper uses.

    lr, weight_decay, momentum: as in the optimiser of that name in torch; momentum is used by SGD alone.
    mixup_alpha: parameter of the Beta distribution of mixup's weight, 0 switches mixup off.
    crop_padding: pixels of black border before a random crop back to the image size, 0 switches it off.
    flip_probability: of a horizontal flip of each image.
    precision: "float32" or "bfloat16" (autocast of the forward pass). On a GPU float32 is meant in full, without TF32.
    """

    lr: float = 0.1
    batch_size: int = 128
    weight_decay: float = 1e-5
    epochs: int = 30
    seed: int = 0
    optimizer: str = "sgd"
    momentum: float = 0.9
    schedule: str = "cosine"
    mixup_alpha: float = 0.0
    crop_padding: int = 0
    flip_probability: float = 0.0
    precision: str = "float32"

    def __post_init__(self):
        for name, valid in (("optimizer", OPTIMIZERS), ("schedule", SCHEDULES), ("precision", PRECISIONS)):
            if getattr(self, name) not in valid:
                raise unknown_name(name, getattr(self, name), valid)
        for name, minimum in (("batch_size", 1), ("epochs", 0), ("seed", 0), ("crop_padding", 0)):
            check_count(name, getattr(self, name), minimum)
            object.__setattr__(self, name, int(getattr(self, name)))  # NumPy's integers are taken, torch takes none
        for name in ("lr", "weight_decay", "momentum", "mixup_alpha", "flip_probability"):
            object.__setattr__(self, name, checked_value(getattr(self, name), float, name))
        require(self.lr > 0, f"lr must be positive and finite, got {self.lr}")
        for name in ("weight_decay", "momentum", "mixup_alpha"):
            require(getattr(self, name) >= 0, f"{name} must not be negative, got {getattr(self, name)}")
        require(0 <= self.flip_probability <= 1, f"flip_probability {self.flip_probability} is not in [0, 1]")


@dataclasses.dataclass(frozen=True)
class TrainRun:
    """A trained network and how it came about.

    status: "ok", or "diverged" when the loss (training stopped there) or a score left the finite numbers.
    history: one dict an epoch: epoch (from 1), lr, train_loss and train_accuracy (running means over the
        augmented batches), seconds.
    measurements: what `measure(network, epoch)` returned, by epoch; epoch 0 is before training.
    train_accuracy, test_accuracy: in [0, 1], in evaluation mode, without augmentation.
    train_loss, test_loss: in nats, likewise.
    """

    network: torch.nn.Module
    config: TrainConfig
    status: str
    history: list[dict[str, Any]]
    measurements: dict[int, Any]
    train_accuracy: float
    test_accuracy: float
    train_loss: float
    test_loss: float
    seconds: float

    @property
    def gap(self) -> float:
        """Generalisation gap, training accuracy minus test accuracy."""
        return self.train_accuracy - self.test_accuracy

    def __str__(self) -> str:
        return (
            f"{self.status}: train accuracy {self.train_accuracy:.3f}, test accuracy {self.test_accuracy:.3f}, "
            f"gap {self.gap:.3f} after {len(self.history)} epochs in {self.seconds:.1f} s"
        )


class StopTraining(Exception):
    """Raised inside `train` when `should_stop()` turned true: there is no result."""


def train(
    network: torch.nn.Module,
    data: Dataset,
    config: TrainConfig,
    *,
    device: torch.device | str | None = None,
    measure: Callable[[torch.nn.Module, int], Any] | None = None,
    measure_epochs: Collection[int] = (),
    should_stop: Callable[[], bool] | None = None,
    compile: bool = False,
    channels_last: bool = True,
    progress: bool = False,
) -> TrainRun:
    """Train `network` on `data` in place and evaluate it.

    network: module from image batches (B, C, H, W) to logits (B, num_classes).
    data: Dataset; moved to `device` if it is elsewhere.
    device: where to train; default: where the network's parameters are.
    measure, measure_epochs: `measure(network, epoch)` is called after each listed epoch (0: before training) in
        evaluation mode; the modes that it sets and the random numbers that it draws do not influence the training. It
        has to leave the weights alone.
    should_stop: called between epochs; when it returns True, StopTraining is raised.
    compile: torch.compile the network, for a GPU.
    channels_last: memory layout of images and kernels on a CPU, where it is faster (`make bench`). Some networks are in
        the other layout all the same, see `training_layout`; and all on a GPU, where none was measured.
    progress: show a bar over the epochs on stderr.

    The random state of the caller is untouched. The same seed on the same kind of CPU with the same number of
    threads gives the same bits; on a GPU, sums may differ in the last digits.
    Raises ValueError for a measurement epoch outside [0, epochs], for a single training image in a batch of more, and
    for an output without a score for each class; RuntimeError from torch for images of a shape it does not take.
    """
    outside = [e for e in measure_epochs if not 0 <= e <= config.epochs]
    require(not outside, f"measure_epochs {outside} are not within 0..{config.epochs}")
    enough = len(data.y_train) > 1 or config.batch_size == 1
    require(enough, "a single training image makes no batch of two or more: give more images")
    _check_parameters(network)
    device = torch.device(device) if device is not None else _device_of(network)
    network, data = network.to(device), data.to(device)
    layout = training_layout(network, data.x_train, device) if channels_last else torch.contiguous_format
    network = network.to(memory_format=layout)
    step = _compiled(network) if compile else network
    loop = _Loop(network, step, data, config, measure, frozenset(measure_epochs), layout)
    started = time.perf_counter()
    with _own_random_state(device):
        _check_outputs(network, data)
        seed_generators(config.seed, device)
        with full_precision(), fast_depthwise(network):
            try:
                status = loop.run(should_stop, progress)
            except NonFiniteScores:
                status = "diverged"
    train_loss, train_accuracy = evaluate(network, data.x_train, data.y_train)
    test_loss, test_accuracy = evaluate(network, data.x_test, data.y_test)
    if not math.isfinite(train_loss + test_loss):
        status = "diverged"
    return TrainRun(
        network, config, status, loop.history, loop.measurements,
        train_accuracy, test_accuracy, train_loss, test_loss, time.perf_counter() - started,
    )  # fmt: skip


@torch.no_grad()
def evaluate(
    network: torch.nn.Module, x: torch.Tensor | ImageTensor, y: torch.Tensor, batch_size: int | None = None
) -> tuple[float, float]:
    """Mean cross-entropy in nats and accuracy, in evaluation mode, on images `x` (N, C, H, W) with labels `y` (N,).

    batch_size: images in one forward pass; None chooses (`images_per_batch`).
    """
    batch_size = batch_size or images_per_batch(x, 1000)
    with full_precision(), evaluation_mode(network):
        loss, correct = torch.zeros((), device=y.device), torch.zeros((), device=y.device)
        for i in range(0, len(y), batch_size):
            logits, target = network(x[i : i + batch_size]).float(), y[i : i + batch_size]
            loss += F.cross_entropy(logits, target, reduction="sum")
            correct += (logits.argmax(1) == target).sum()
    return loss.item() / len(y), correct.item() / len(y)


def training_layout(
    network: torch.nn.Module, images: ImageTensor | torch.Tensor, device: torch.device
) -> torch.memory_format:
    """The memory layout of images and kernels in which `network` is trained: on a CPU channels last, if it can be.

    It cannot where the network views its activations as if they were contiguous, `x.view(len(x), -1)`; a network that
    is not of this package is tried on two of the `images`.

    In that layout a kernel of oneDNN writes past its buffer in the backward pass of a strided 1 x 1 convolution of
    fewer than 8 channels, on a CPU with AVX2 and without AVX-512; that ends in a crash or in wrong gradients, and does
    not happen in the contiguous layout (oneDNN issue 6035, open in 2026).
    """
    overruns = any(
        isinstance(m, torch.nn.Conv2d) and set(m.kernel_size) == {1} and max(m.stride) > 1 and m.in_channels < 8
        for m in network.modules()
    )
    if device.type != "cpu" or overruns or not _takes_channels_last(network, images):
        return torch.contiguous_format
    return torch.channels_last


def _takes_channels_last(network, images):
    if type(network).__module__.startswith("rc_utils."):
        return True
    try:
        with _own_random_state(_device_of(network)), torch.enable_grad():
            trial = copy.deepcopy(network).train().to(memory_format=torch.channels_last)
            batch = images[:2].to(_device_of(network)).contiguous(memory_format=torch.channels_last)
            trial(batch).sum().backward()
    except Exception:  # what is wrong in any layout is named where the network is trained
        return False
    return True


class _Loop:
    """The state of one training run between epochs."""

    def __init__(self, network, step, data, config, measure, measure_epochs, layout):
        self.network, self.step, self.data, self.config = network, step, data, config
        self.measure, self.measure_epochs, self.layout = measure, measure_epochs, layout
        self.optimizer = build_optimizer(network.parameters(), config)
        self.rng = np.random.default_rng(config.seed)
        self.history, self.measurements = [], {}

    def run(self, should_stop, progress):
        self._measure(0)
        for epoch in _epochs(self.config.epochs, progress):
            started = time.perf_counter()
            lr = learning_rate(self.config, epoch)
            for group in self.optimizer.param_groups:
                group["lr"] = lr
            loss, accuracy = self._epoch()
            row = {"epoch": epoch + 1, "lr": lr, "train_loss": loss, "train_accuracy": accuracy}
            self.history.append(row | {"seconds": round(time.perf_counter() - started, 4)})
            if not math.isfinite(loss):
                return "diverged"
            self._measure(epoch + 1)
            if epoch + 1 < self.config.epochs and should_stop is not None and should_stop():
                raise StopTraining(f"stopped after epoch {epoch + 1} of {self.config.epochs}")
        return "ok" if all(p.isfinite().all() for p in self.network.parameters()) else "diverged"

    def _epoch(self):
        self.network.train()
        order = torch.from_numpy(self.rng.permutation(len(self.data.y_train))).to(self.data.y_train.device)
        loss_sum, correct, seen = 0.0, 0.0, 0
        for batch in order.split(self.config.batch_size):
            if len(batch) == 1 < self.config.batch_size:
                continue  # batch normalisation has no variance over a single leftover image
            loss, hits = self._batch(batch)
            loss_sum, correct, seen = loss_sum + loss * len(batch), correct + hits, seen + len(batch)
        return float(loss_sum) / seen, float(correct) / seen

    def _batch(self, batch):
        config, dtype = self.config, PRECISIONS[self.config.precision]
        x, y = self._images(batch), self.data.y_train[batch]
        x, y_other, weight = mixup(x, y, config.mixup_alpha, self.rng)
        with torch.autocast(x.device.type, dtype=dtype) if dtype else contextlib.nullcontext():
            logits = self.step(x)
            loss = F.cross_entropy(logits, y)
            if weight < 1:
                loss = weight * loss + (1 - weight) * F.cross_entropy(logits, y_other)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return loss.detach(), (logits.detach().argmax(1) == y).sum()

    def _images(self, batch):
        config, images = self.config, self.data.x_train
        if config.crop_padding or config.flip_probability:
            raw = crop_and_flip(images.raw[batch], config.crop_padding, config.flip_probability, self.rng)
            x = images.standardise(raw)
        else:
            x = images[batch]
        return x.contiguous(memory_format=self.layout)

    def _measure(self, epoch):
        if self.measure is not None and epoch in self.measure_epochs:
            device = self.data.y_train.device
            with _own_random_state(device), evaluation_mode(self.network), torch.no_grad(), plain(self.network):
                self.measurements[epoch] = self.measure(self.network, epoch)


def _compiled(network):
    """The network compiled by itself: torch stops compiling code that many networks share, as all of ours do."""
    torch.compiler.reset()
    return torch.compile(network)


def _own_random_state(device):
    """Inside the block, random numbers of the CPU and of `device` are drawn without a trace."""
    return torch.random.fork_rng(devices=[device] if device.type == "cuda" else [])


def seed_generators(seed, device):
    """Seed the generators of the CPU and of `device`; torch.manual_seed would seed those of all devices."""
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        with torch.cuda.device(device):
            torch.cuda.manual_seed(seed)


def _check_parameters(network):
    """Raise ValueError for a network that has nothing to train, or layers that get their shape from the first batch."""
    name = type(network).__name__
    lazy = [n for n, p in network.named_parameters() if isinstance(p, torch.nn.parameter.UninitializedParameter)]
    require(not lazy, f"{name}: {lazy and lazy[0]} is of a lazy layer and has no shape yet; give it its sizes")
    require(any(p.requires_grad for p in network.parameters()), f"{name} has no parameter to train")


def _check_outputs(network, data):
    """Raise ValueError unless the network gives an image a score for each class."""
    images = data.x_train[:2]
    with evaluation_mode(network), torch.no_grad():
        shape = tuple(getattr(network(images), "shape", ()))
    n, classes = len(images), data.num_classes
    require(
        len(shape) == 2 and shape[0] == n and shape[1] >= classes,
        f"{type(network).__name__} makes an output of shape {shape} of {n} images; expected ({n}, {classes}), a score "
        "for each class",
    )


def learning_rate(config, epoch):
    """Learning rate of epoch 0, 1, ...: constant, or cosine annealing lr/2 (1 + cos(pi epoch / epochs))."""
    if config.schedule == "constant":
        return config.lr
    return 0.5 * config.lr * (1 + math.cos(math.pi * epoch / config.epochs))


def build_optimizer(parameters, config):
    """The torch optimiser that `config` names."""
    common = {
        "params": [p for p in parameters if p.requires_grad],
        "lr": config.lr,
        "weight_decay": config.weight_decay,
    }
    if config.optimizer == "sgd":
        # All parameters in one call: the same bits as one by one, in less time for a network of many small layers.
        return torch.optim.SGD(**common, momentum=config.momentum, foreach=True)
    return {"adam": torch.optim.Adam, "adagrad": torch.optim.Adagrad}[config.optimizer](**common)


def _epochs(count, progress):
    if not progress:
        return range(count)
    from tqdm import tqdm

    return tqdm(range(count), desc="training", unit="epoch", mininterval=2.0)


def _device_of(network):
    parameter = next(network.parameters(), None)
    return parameter.device if parameter is not None else torch.device("cpu")
