"""Datasets as uint8 arrays on a device, with balanced subsets and label noise by seed."""

from rc_utils.datasets.images import Dataset, ImageTensor
from rc_utils.datasets.load import load_dataset

__all__ = ["Dataset", "ImageTensor", "load_dataset"]
