"""Images on a device: stored as bytes, standardised when they are looked up."""

import math
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from rc_utils.validation import require


class ImageTensor:
    """Images `raw` (N, C, H, W) uint8 on a device, standardised per channel when indexed.

    `x[i]` is (raw[i] - mean) / std as float32, where mean and std (C,) are float32 in units of raw
    values, 0 to 255. An index is an integer, a slice, or integers or booleans in a tensor, an array
    or a list; it selects along the first axis only. `x[:]` has four times the memory of `raw`.
    """

    dtype = torch.float32

    def __init__(self, raw, mean, std):
        self.raw, self.shape, self.device = raw, raw.shape, raw.device
        self.mean = torch.as_tensor(mean, dtype=torch.float32, device=raw.device)
        self.std = torch.as_tensor(std, dtype=torch.float32, device=raw.device)
        self._shift, self._scale = self.mean.view(-1, 1, 1), 1 / self.std.view(-1, 1, 1)

    def __len__(self):
        return len(self.raw)

    def __getitem__(self, index):
        if isinstance(index, torch.Tensor) and index.dtype == torch.int64 and index.ndim == 1:
            # The training loop's case: several times faster, but it refuses negative indices.
            return self.standardise(self.raw.index_select(0, index.to(self.raw.device)))
        if isinstance(index, list | np.ndarray):  # bytes are no mask, tensors in a list no axes
            index = np.asarray(index, None if np.size(index) else np.int64)
            index = index.astype(np.int64) if index.dtype.kind in "iu" else index
        require(not isinstance(index, tuple), "images are indexed along the first axis: no tuple")
        return self.standardise(self.raw[index])

    def __array__(self, dtype=None, copy=None):
        return self[:].cpu().numpy().astype(dtype or np.float32, copy=False)

    def standardise(self, raw):
        """(raw - mean) / std, float32, for raw values (..., C, H, W) such as an augmented batch."""
        return torch.sub(raw, self._shift).mul_(self._scale)

    def to(self, device):
        """The same images on another device."""
        return ImageTensor(self.raw.to(device), self.mean, self.std)


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """A training and a test set of images with integer labels, ready on one device.

    x_train and x_test, each an `ImageTensor`, share the training set's mean and standard deviation;
    y_train and y_test are int64 in [0, num_classes). `provenance` holds strings for the run record:
    `source`, `note` if there is one, and `sha256` of these arrays, after any choice of samples,
    resizing and label noise. `y_train_true`: with label noise, the labels before it; else None.
    """

    name: str
    x_train: ImageTensor
    y_train: torch.Tensor
    x_test: ImageTensor
    y_test: torch.Tensor
    num_classes: int
    class_names: tuple
    provenance: dict = field(default_factory=dict)
    y_train_true: torch.Tensor | None = None

    def __repr__(self):
        sizes = f"{len(self.x_train)} training and {len(self.x_test)} test images"
        shape = " x ".join(map(str, self.x_train.shape[1:]))
        classes = f"{self.num_classes} classes on {self.device}"
        return f"Dataset({self.name!r}: {sizes} of {shape} in {classes})"

    @property
    def in_channels(self):
        """Number of colour channels."""
        return self.x_train.shape[1]

    @property
    def image_size(self):
        """Side of the square images, in pixels."""
        return self.x_train.shape[-1]

    @property
    def device(self):
        """Device of the arrays."""
        return self.x_train.device

    def to(self, device):
        """The same data on another device."""
        held = {k: v for k, v in vars(self).items() if isinstance(v, ImageTensor | torch.Tensor)}
        return replace(self, **{key: array.to(device) for key, array in held.items()})


def slices_of(images, most, labels=None):
    """Slices over images (N, *shape): `most` at a time, fewer if one exceeds 3 x 32 x 32 numbers.

    Raises ValueError for labels, if given, that are fewer or more than the images, or none.
    """
    if labels is not None:
        found = f"{len(labels)} labels for {len(images)} images"
        require(0 < len(labels) == len(images), f"{found}: give one for each")
    size = min(most, max(1, most * 3 * 32 * 32 // math.prod(images.shape[1:])))
    return [slice(start, start + size) for start in range(0, len(images), size)]


def channel_stats(images):
    """Mean and standard deviation (C,), 1 for a constant channel, of images (N, C, H, W) uint8."""
    channels = torch.from_numpy(images).transpose(0, 1)
    counts = np.stack([c.flatten().bincount(minlength=256).numpy() for c in channels])
    values, weights = np.arange(256), counts / counts.sum(axis=1, keepdims=True)
    mean = weights @ values
    variance = (weights * (values - mean[:, None]) ** 2).sum(axis=1)
    return mean, np.where(variance > 0, np.sqrt(variance), 1.0)


def area_average(images, size):
    """Shrink images (N, C, S, S) uint8 to (N, C, size, size), each pixel the mean over its area.

    Input pixels that are covered in part count in part. Sums are exact integers, rounded half up
    once at the end. Raises ValueError for a size larger than the images.
    """
    side = images.shape[-1]
    require(size <= side, f"image_size is {size}; images of {side} can only be made smaller")
    if size == side:
        return images
    # Overlap of output pixel j with input pixel i, in units of 1 / size pixel; rows sum to side.
    inputs, outputs = np.arange(side) * size, np.arange(size)[:, None] * side
    ends = np.minimum(inputs + size, outputs + side)
    overlaps = np.clip(ends - np.maximum(inputs, outputs), 0, None).astype(np.float64)
    shrunk = np.empty((*images.shape[:2], size, size), dtype=np.uint8)
    for part in slices_of(images, 500):
        sums = overlaps @ images[part].astype(np.float64) @ overlaps.T
        shrunk[part] = np.floor(sums / side**2 + 0.5)
    return shrunk
