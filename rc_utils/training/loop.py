"""One training loop for every experiment: data on the device, index tensors, no DataLoader."""

import contextlib
import copy
import dataclasses
import math
import time
import warnings
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from tqdm import tqdm

from rc_utils.counting.classifier import (
    NUM_PROBED,
    NonFiniteScores,
    are_probabilities,
    as_classifier,
    probed,
)
from rc_utils.counting.sampling import draw_distinct, vertex_indices
from rc_utils.datasets.images import Dataset, ImageTensor, slices_of
from rc_utils.evaluation import full_precision, own_random_state, undisturbed
from rc_utils.networks.registry import is_ours
from rc_utils.training.config import TrainConfig
from rc_utils.validation import check_count, require

Images = torch.Tensor | ImageTensor
# No training uses points on the first segments of the default seed, which campaigns count.
COUNTED_SEGMENTS = 1000
# Second entries of seeds: neither choice shares a random stream with the order of the batches.
RANDOM_LABELS, POINTS_BETWEEN = 1, 2


@dataclasses.dataclass(frozen=True)
class TrainRun:
    """A trained network and how it came about.

    Attributes:
        status: "ok", or "diverged": a loss, after which training stopped, or a score is not finite.
        history: one dict an epoch: epoch (from 1), lr, train_loss and train_accuracy (running means
            over the augmented batches), seconds.
        measurements: what `measure(network, epoch)` returned, by epoch; epoch 0 is before training.
        reached_epoch: the first epoch that left the training loss below `measure_loss`, if any.
        train_accuracy, test_accuracy: in [0, 1], in evaluation mode, without augmentation.
        train_loss, test_loss: in nats, likewise.
    """

    network: torch.nn.Module
    status: str
    history: list[dict[str, Any]]
    measurements: dict[int, Any]
    train_accuracy: float
    test_accuracy: float
    train_loss: float
    test_loss: float
    seconds: float
    reached_epoch: int | None = None

    @property
    def gap(self) -> float:
        """Generalisation gap, training accuracy minus test accuracy."""
        return self.train_accuracy - self.test_accuracy

    def __str__(self) -> str:
        train = f"train accuracy {self.train_accuracy:.3f}"
        test = f"test accuracy {self.test_accuracy:.3f}, gap {self.gap:.3f}"
        spent = f"after {len(self.history)} epochs in {self.seconds:.1f} s"
        return f"{self.status}: {train}, {test} {spent}"


def train(
    network: torch.nn.Module,
    data: Dataset,
    config: TrainConfig,
    *,
    device: torch.device | str | None = None,
    measure: Callable[[torch.nn.Module, int], Any] | None = None,
    measure_epochs: Collection[int] = (),
    measure_loss: float | None = None,
    compile: bool = False,
    channels_last: bool = True,
    progress: bool = False,
) -> TrainRun:
    """Train `network` on `data` in place and evaluate it.

    All of it is in training mode, frozen batch norms too; a last batch of one image is left out.

    Args:
        network: module from image batches (B, C, H, W) to logits (B, num_classes).
        data: Dataset; moved to `device` if it is elsewhere.
        device: where to train; default: where the network's parameters are.
        measure, measure_epochs: `measure(network, epoch)` is called after each listed epoch (0:
            before training) in evaluation mode; the modes that it sets and the random numbers that
            it draws do not influence the training. It has to leave the weights alone.
        measure_loss: it is also called once after the first epoch that leaves the mean
            cross-entropy of all training images, as `evaluate` has it, below this.
        compile: torch.compile the network, for a GPU; a smaller last batch is not compiled.
        channels_last: train in this layout where it is faster, see `training_layout`. On a GPU the
            network is contiguous afterwards, as it is counted; on a CPU it keeps the layout.
        progress: show a bar over the epochs on stderr.

    The random state of the caller is untouched; torch has one for all threads, so train in one
    thread at a time. The same seed on the same kind of CPU with the same number of threads gives
    the same bits; on a GPU, sums may differ in the last digits.
    Raises ValueError for an output without a score for each class and a measurement epoch outside
    [0, epochs]; torch's own errors for images of a shape that the network does not take, and for
    parameters that are not float32.
    """
    device = torch.device(device or next(network.parameters(), data.y_train).device)
    network, data = network.to(device), data.to(device)
    if channels_last:
        network.to(memory_format=training_layout(network, data.x_train, device, config.precision))
    measure_epochs = [check_count("measure_epochs", epoch, 0) for epoch in measure_epochs]
    outside = [epoch for epoch in measure_epochs if epoch > config.epochs]
    require(not outside, f"measure_epochs {outside} are not within 0..{config.epochs}")
    check_outputs(network, data)
    between = PointsBetween(config, data) if config.between_share else None
    step: Callable[..., Any] = network
    if compile:
        torch.compiler.reset()  # it stops compiling code that many networks share
        step = torch.compile(network, dynamic=False)
    history, measurements, reached_epoch = [], {}, None

    def look(epoch):
        nonlocal reached_epoch
        due = epoch in measure_epochs
        if measure_loss is not None and reached_epoch is None and epoch > 0:
            loss, _ = evaluate(network, data.x_train, data.y_train)
            if loss < measure_loss:
                reached_epoch, due = epoch, True
        if measure is not None and due:
            with undisturbed(network, device), own_random_state(device, config.seed):
                measurements[epoch] = measure(network, epoch)

    started, finite = time.perf_counter(), False
    # Such scores, met by `measure`, end the training: it has diverged.
    diverging = contextlib.suppress(NonFiniteScores)
    no_autocast = torch.autocast(device.type, enabled=False)
    alone = own_random_state(device, config.seed)
    with alone, no_autocast, full_precision(), diverging, torch.enable_grad():
        if config.pretrain_epochs:
            number = config.pretrain_epochs
            first = dataclasses.replace(config, epochs=number, schedule="constant", between_share=0)
            noise = dataclasses.replace(data, y_train=random_labels(config, data))
            for _ in _epochs(network, step, noise, first, progress):
                pass
        look(0)
        for row in _epochs(network, step, data, config, progress, between):
            history.append(row)
            if math.isfinite(row["train_loss"]):
                look(row["epoch"])
        finite = all(math.isfinite(row["train_loss"]) for row in history)
        finite = finite and all(p.isfinite().all() for p in network.parameters() if p.requires_grad)
    if device.type == "cuda":
        network.to(memory_format=torch.contiguous_format)
        torch.cuda.empty_cache()  # for other processes on the same card
    train_loss, train_accuracy = evaluate(network, data.x_train, data.y_train)
    test_loss, test_accuracy = evaluate(network, data.x_test, data.y_test)
    status = "ok" if finite and math.isfinite(train_loss + test_loss) else "diverged"
    return TrainRun(
        network, status, history, measurements, train_accuracy, test_accuracy,
        train_loss, test_loss, time.perf_counter() - started, reached_epoch,
    )  # fmt: skip


def evaluate(network: torch.nn.Module, x: Images, y: torch.Tensor) -> tuple[float, float]:
    """Mean cross-entropy in nats and accuracy, in evaluation mode.

    x, y: images (N, C, H, W) and their labels (N,).
    """
    with undisturbed(network, y.device):
        loss, correct = torch.zeros((), device=y.device), torch.zeros((), device=y.device)
        for part in slices_of(x, 1000, y):
            # A copy, for a network that works on its input in place.
            logits = network(x[part].clone()).float().reshape(len(y[part]), -1)
            loss += F.cross_entropy(logits, y[part], reduction="sum")
            correct += (logits.argmax(1) == y[part]).sum()
    return loss.item() / len(y), correct.item() / len(y)


def training_layout(
    network: torch.nn.Module, images: Images, device: torch.device, precision: str = "float32"
) -> torch.memory_format:
    """The memory layout in which `network` is trained: channels last, where that is faster.

    It is faster on a CPU (`make bench`), and on a GPU's tensor cores, which do not take float32. A
    network of another package may rely on contiguous activations or gradients: it is tried on two
    of the `images`.

    In that layout a kernel of oneDNN writes past its buffer in the backward pass of a strided 1 x 1
    convolution: of fewer than 8 channels on a CPU with AVX2 and without AVX-512 (oneDNN issue 6035,
    open in 2026), and of fewer than 16 with several threads and an odd number of images on one with
    AVX-512 (seen here with torch 2.13). The end is a crash or wrong gradients.
    """
    on_cpu = device.type == "cpu"
    few = 8 if torch.get_num_threads() == 1 else 16
    convolutions = [m for m in network.modules() if isinstance(m, torch.nn.Conv2d)]
    strided = [m for m in convolutions if set(m.kernel_size) == {1} and max(m.stride) > 1]
    overruns = on_cpu and any(m.in_channels < few for m in strided)
    if (precision == "float32" and not on_cpu) or overruns:
        return torch.contiguous_format
    if not is_ours(type(network)):
        try:
            where = next(network.parameters()).device
            with own_random_state(where, seed=0), torch.enable_grad():
                trial = copy.deepcopy(network).train().to(memory_format=torch.channels_last)
                two = images[:2].to(where).contiguous(memory_format=torch.channels_last)
                trial(two).sum().backward()
        except Exception:  # an error that does not come from the layout is raised in training
            return torch.contiguous_format
    return torch.channels_last


def check_outputs(network, data):
    """Raise ValueError unless each image has a label and scores that are a function of it alone."""
    require(len(data.y_test), "there are no test images, on which the network is evaluated")
    for x, y in ((data.x_train, data.y_train), (data.x_test, data.y_test)):
        for part in slices_of(x, 1000, y):
            require(x[part].isfinite().all(), "images hold NaN or infinity: remove them")
    images, classes = data.x_train[:NUM_PROBED], data.num_classes
    labels = torch.cat([data.y_train, data.y_test])
    low, high = int(labels.min()), int(labels.max())
    require(0 <= low <= high < classes, f"labels from {low} to {high}; expected 0 to {classes - 1}")
    outputs = probed(as_classifier(network, images), images).outputs
    found = f"{type(network).__name__} makes outputs of shape {outputs.shape[1:]} for each image"
    fits = outputs.ndim == 2 and outputs.shape[1] >= classes
    require(fits, f"{found}; expected ({classes},) or more, a score for each class")
    logits = "give the logits, from which the loss is computed"
    require(not are_probabilities(outputs), f"{found}, and they look like probabilities: {logits}")
    evaluate(network, data.x_test[:2], data.y_test[:2])  # whose types are refused now, not later
    if not is_ours(type(network)) and ((outputs > 0) & (outputs < 1)).all():
        warnings.warn(f"{found}, all between 0 and 1: are they sigmoids? {logits}", stacklevel=3)


def _epochs(network, step, data, config, progress, between=None):
    """Train; yields the rows of `TrainRun.history`, up to the first whose loss is not finite."""
    trained = [p for p in network.parameters() if p.requires_grad]
    require(trained, "no parameter of the network is trained: requires_grad is off, or it has none")
    kinds = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adagrad": torch.optim.Adagrad}
    settings = {"lr": config.lr, "weight_decay": config.weight_decay}
    if config.optimizer == "sgd":
        settings["momentum"] = config.momentum
    # All parameters in one call: the same bits as one by one, in less time for many small layers.
    optimizer = kinds[config.optimizer](trained, **settings, foreach=True)
    rng = np.random.default_rng(config.seed)
    bar = {"desc": "training", "unit": "epoch", "mininterval": 2.0, "disable": not progress}
    for epoch in tqdm(range(config.epochs), **bar):
        started, lr = time.perf_counter(), config.lr
        if config.schedule == "cosine":
            lr = 0.5 * config.lr * (1 + math.cos(math.pi * epoch / config.epochs))
        optimizer.param_groups[0]["lr"] = lr
        if config.precision == "tfloat32":
            torch.backends.cudnn.allow_tf32 = True
        network.train()
        loss_sum, correct, seen = 0.0, 0.0, 0
        for x, y, y_other, weight in batches(config, data, rng, between):
            size = len(y_other)
            whole = size == min(config.batch_size, len(data.y_train))
            given = (step if whole else network, optimizer, config, x, y, y_other, weight)
            loss, hits = _backward(*given)
            if config.sam_radius:
                with ascended(trained, config.sam_radius):
                    _backward(*given)
            optimizer.step()
            loss_sum, correct, seen = loss_sum + loss * size, correct + hits, seen + size
        row = {"epoch": epoch + 1, "lr": lr, "train_loss": float(loss_sum) / seen}
        row["train_accuracy"] = float(correct) / seen
        row["seconds"] = round(time.perf_counter() - started, 4)
        yield row
        if not math.isfinite(row["train_loss"]):
            return


def _backward(network, optimizer, config, x, y, y_other, weight):
    """Set the gradients; returns the mean loss of the images and how many are classified right.

    The first len(y_other) of x and y are images and their labels, y_other the labels of mixup's
    partners; points between images follow.
    """
    n = len(y_other)
    lower = kernel = contextlib.nullcontext()
    if config.gradient_penalty:
        x = x.detach().requires_grad_()
        kernel = sdpa_kernel(SDPBackend.MATH)  # attention's others are not twice differentiable
    if config.precision == "bfloat16":
        # Within the block of `train` a cache of rounded weights would outlive the step.
        lower = torch.autocast(x.device.type, torch.bfloat16, cache_enabled=False)
    with lower, kernel:
        # A copy, since x may be needed again, and a network may work on its input in place.
        logits = network(x.clone())
        found = f"in training mode the network returns {type(logits).__name__}"
        require(isinstance(logits, torch.Tensor), f"{found}; expected scores (n, C) alone")
        loss = F.cross_entropy(logits[:n], y[:n])
        if weight < 1:
            loss = weight * loss + (1 - weight) * F.cross_entropy(logits[:n], y_other)
        total = loss
        if len(y) > n:
            total = total + (len(y) - n) / n * F.cross_entropy(logits[n:], y[n:])
    if config.gradient_penalty:
        # With batch normalisation the loss of one image depends on the others: their gradients are
        # then part of each d / d x_i.
        (gradient,) = torch.autograd.grad(loss * n, x, create_graph=True)
        total = total + config.gradient_penalty * gradient[:n].flatten(1).square().sum(1).mean()
    optimizer.zero_grad()
    total.backward()
    return loss.detach(), (logits[:n].detach().argmax(1) == y[:n]).sum()


@contextlib.contextmanager
def ascended(parameters, radius):
    """Inside the block the parameters lie `radius` further along their common gradient.

    There sharpness-aware minimisation takes its gradient (Foret et al. 2021, equation 2).
    """
    moved = [p for p in parameters if p.grad is not None]
    before = [p.detach().clone() for p in moved]
    norm = torch.stack([p.grad.norm() for p in moved]).norm()
    for p in moved:
        p.data.add_(p.grad * (radius / norm.clamp(min=1e-12)))
    yield
    for p, old in zip(moved, before, strict=True):
        p.data.copy_(old)


def batches(config, data, rng, between=None):
    """Yield the batches of an epoch: images, labels, labels of mixup's partners, mixup's weight.

    For a weight w < 1 the images are w x + (1 - w) x[partner], and the loss is w CE(logits, labels)
    + (1 - w) CE(logits, partners' labels) (Zhang et al. 2018). Points of `between` and their labels
    follow those of the images.
    """
    order, draws, weights = rng.permutation(len(data.y_train)), [], []
    for start in range(0, len(order), config.batch_size):
        index = order[start : start + config.batch_size]
        if start > 0 and len(index) == 1 and config.batch_size > 1:
            continue  # batch normalisation has no variance over a single leftover image
        # Rows: index of the image, first row and column of its crop, if it is flipped, its partner.
        drawn, weight = np.zeros((5, len(index)), dtype=np.int64), 1.0
        drawn[0] = index
        if config.crop_padding or config.flip_probability:
            drawn[1:3] = rng.integers(0, 2 * config.crop_padding + 1, size=(2, len(index)))
            drawn[3] = rng.random(len(index)) < config.flip_probability
        if config.mixup_alpha:
            weight = float(rng.beta(config.mixup_alpha, config.mixup_alpha))
            drawn[4] = rng.permutation(len(index))
        draws.append(drawn)
        weights.append(weight)
    # One copy for the whole epoch, since every copy waits for the device.
    draws = torch.from_numpy(np.concatenate(draws, axis=1)).to(data.y_train.device)
    for drawn, weight in zip(draws.split(config.batch_size, dim=1), weights, strict=True):
        index, top, left, flips, partner = drawn
        if config.crop_padding or config.flip_probability:
            raw = crop_and_flip(data.x_train.raw[index], config.crop_padding, top, left, flips)
            x = data.x_train.standardise(raw)
        else:
            x = data.x_train[index]
        if weight < 1:
            x = weight * x + (1 - weight) * x[partner]
        y = data.y_train[index]
        y_other, number = y[partner], round(config.between_share * len(y))
        if number:
            more_x, more_y = between.next(number)
            x, y = torch.cat([x, more_x]), torch.cat([y, more_y])
        yield x, y, y_other, weight


def crop_and_flip(images, padding, top, left, flips):
    """Crop to the same size after `padding` pixels of black border, then flip some (v1 App. F).

    images: (B, C, H, W) uint8, not normalised yet, so that the border is black. top, left: (B,)
    int64, first row and column, 0 to 2 padding; flips: (B,) int64, 1 for a horizontal flip.
    """
    height, width = images.shape[2:]
    windows = F.pad(images, (padding,) * 4).unfold(2, height, 1).unfold(3, width, 1)
    cropped = windows[torch.arange(len(images), device=images.device), :, top, left]
    return torch.where(flips.view(-1, 1, 1, 1) > 0, cropped.flip(3), cropped)


def random_labels(config, data):
    """Labels (N,) for the training images, uniform over the classes, by the seed of `config`."""
    rng = np.random.default_rng([config.seed, RANDOM_LABELS])
    labels = rng.integers(data.num_classes, size=len(data.y_train))
    return torch.from_numpy(labels).to(data.y_train.device)


class PointsBetween:
    """Points (1 - alpha) x_i + alpha x_j for the share `between_share` of the training images.

    Pairs (M, 2) of i, j are uniform over pairs of different images, without those that a count with
    seed 0 looks at. between_labels "nearer": alpha is uniform in [0, 1], and a point has the label
    of the nearer image. "third": alpha is 1/2, and a label is drawn uniformly from the classes of
    neither image.
    """

    def __init__(self, config, data):
        n, rng = len(data.y_train), np.random.default_rng([config.seed, POINTS_BETWEEN])
        number, device = round(config.between_share * n), data.y_train.device
        none = f"between_share={config.between_share:g}: no batch holds a point"
        in_batch = round(config.between_share * min(config.batch_size, n))
        require(in_batch > 0, f"{none}; raise it or the batch size")
        pairs = draw_distinct(rng, n, number + COUNTED_SEGMENTS, 2)
        counted = vertex_indices(n, num_samples=COUNTED_SEGMENTS, distinct=2, seed=0)
        # The same number for (i, j) and (j, i).
        is_counted = np.isin(pairs.min(1) * n + pairs.max(1), counted.min(1) * n + counted.max(1))
        pairs = pairs[~is_counted][:number]
        few = f"between_share: too few pairs of {n} images are not counted; give more images"
        require(len(pairs) == number, few)
        labels = data.y_train.cpu().numpy()[pairs]
        if config.between_labels == "nearer":
            alpha = rng.random(number)
            y = np.where(alpha < 0.5, labels[:, 0], labels[:, 1])
        else:
            fault = "between_labels 'third' needs a third class, and there are two"
            require(data.num_classes > 2, fault)
            alpha = np.full(number, 0.5)
            chance = rng.random((number, data.num_classes))
            np.put_along_axis(chance, labels, -1.0, axis=1)
            y = chance.argmax(1)
        self.images, self.start = data.x_train, 0
        self.pairs, self.y = torch.from_numpy(pairs).to(device), torch.from_numpy(y).to(device)
        self.alpha = torch.from_numpy(alpha).float().view(-1, 1, 1, 1).to(device)

    def next(self, number):
        """(x (number, C, H, W), y (number,)) of the points that come next, going round."""
        index = torch.arange(self.start, self.start + number, device=self.y.device) % len(self.y)
        self.start += number
        first, second = self.images[self.pairs[index, 0]], self.images[self.pairs[index, 1]]
        return torch.lerp(first, second, self.alpha[index]), self.y[index]
