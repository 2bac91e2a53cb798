"""An epoch of `train`: against the usual loop over a DataLoader, and how much of it is not the network."""

import contextlib
import functools
import time
from unittest import mock

import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

from benchmarks.networks import narrow_network, one_epoch, shapes
from benchmarks.registry import Row, at_most, benchmark
from benchmarks.timing import in_turns
from rc_utils.training import train
from rc_utils.training.loop import build_optimizer


@benchmark("epoch")
def epoch(scale):
    """A training epoch of a width-8 ResNet18 against PIL images, torchvision transforms and a DataLoader."""
    data, config = shapes(scale.images), one_epoch()
    network = narrow_network()
    sides = [lambda: epoch_seconds(network, data, config)]
    sides += [usual_epoch(data, config, workers) for workers in scale.loader_workers]
    ours, *others = in_turns(sides, scale.repeats)
    for workers, other in zip(scale.loader_workers, others, strict=True):
        name = f"epoch of {scale.images:,} images, ResNet18/8"
        yield Row(name, f"DataLoader and PIL, {workers} workers", ours, other)


@benchmark("overhead")
def overhead(scale):
    """The share of an epoch of `train` spent outside forward (with the loss), backward and step."""
    data = shapes(scale.images)
    for batch_size in (32, 128):
        network, config = narrow_network(), one_epoch(batch_size)
        train(network, data, config)
        total, inside = [], []
        for _ in range(scale.repeats):
            with work_timer(network) as spent:
                total.append(epoch_seconds(network, data, config))
            inside.append(sum(spent))
        outside = tuple(t - i for t, i in zip(total, inside, strict=True))
        name = f"outside forward, backward, step; batch {batch_size}"
        yield Row(name, "whole epoch", outside, tuple(total), at_most(0.05))


@benchmark("depthwise")
def depthwise(scale):
    """A training epoch of a narrow EfficientNetB0 with and without the products of `rc_utils.training.depthwise`."""
    data, config = shapes(scale.images // 4), one_epoch(32)
    network = narrow_network("EfficientNetB0", width=16, dropout=0.0, drop_connect=0.0)

    def without():
        with mock.patch("rc_utils.training.depthwise._is_plain_depthwise", return_value=False):
            return epoch_seconds(network, data, config)

    ours, other = in_turns([lambda: epoch_seconds(network, data, config), without], scale.repeats)
    yield Row(f"epoch of {scale.images // 4:,} images, EfficientNetB0/16", "depthwise layers by oneDNN", ours, other)


def epoch_seconds(network, data, config, **settings):
    """Seconds of the one epoch of `config`, without the evaluation that follows it."""
    return train(network, data, config, **settings).history[0]["seconds"]


@contextlib.contextmanager
def work_timer(network):
    """Yields a list that collects the seconds of each forward pass, loss, backward pass and optimiser step.

    Only while the network is in training mode: the evaluation after the epoch is not part of it.
    """
    spent = []

    def timing(function):
        @functools.wraps(function)
        def wrapped(*args, **kwargs):
            started = time.perf_counter()
            result = function(*args, **kwargs)
            if network.training:
                spent.append(time.perf_counter() - started)
            return result

        return wrapped

    places = ((network, "forward"), (F, "cross_entropy"), (torch.Tensor, "backward"), (torch.optim.SGD, "step"))
    with contextlib.ExitStack() as stack:
        for owner, name in places:
            stack.enter_context(mock.patch.object(owner, name, timing(getattr(owner, name))))
        yield spent


class PictureDataset(Dataset):
    """Pairs of a transformed PIL image and its label, as torchvision's datasets give them."""

    def __init__(self, images, labels, transform):
        """images (N, H, W, C) uint8 array, labels (N,) integers."""
        self.images, self.labels, self.transform = images, labels, transform

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        from PIL import Image

        return self.transform(Image.fromarray(self.images[index])), self.labels[index]


def picture_dataset(x_train, y_train):
    """The images of an ImageTensor as PIL images behind ToTensor and Normalize."""
    from torchvision import transforms

    normalise = transforms.Normalize((x_train.mean / 255).tolist(), (x_train.std / 255).tolist())
    images = x_train.raw.permute(0, 2, 3, 1).contiguous().numpy()
    pictures = PictureDataset(images, y_train.tolist(), transforms.Compose([transforms.ToTensor(), normalise]))
    torch.testing.assert_close(pictures[0][0], x_train[0], rtol=1e-4, atol=1e-4)
    return pictures


def usual_epoch(data, config, num_workers):
    """A function that trains one epoch the usual way and returns its seconds."""
    pictures = picture_dataset(data.x_train, data.y_train)
    loader = DataLoader(pictures, config.batch_size, shuffle=True, num_workers=num_workers)
    network = narrow_network().train()
    optimizer = build_optimizer(network.parameters(), config)

    def run():
        started, total_loss, correct = time.perf_counter(), 0.0, 0
        for x, y in loader:
            optimizer.zero_grad()
            logits = network(x)
            loss = F.cross_entropy(logits, y)
            loss.backward()
            optimizer.step()
            total_loss += loss.item()
            correct += (logits.argmax(1) == y).sum().item()
        return time.perf_counter() - started

    return run
