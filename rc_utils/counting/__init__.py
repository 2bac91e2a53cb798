"""Counting the connected regions of equal predicted label of a classifier."""

from rc_utils.counting.classifier import predict_labels
from rc_utils.counting.lattice import Lattice, count_components, make_lattice
from rc_utils.counting.mesh import outlines, triangle_regions
from rc_utils.counting.regions import AUTHORS, RegionCount, label_grid, region_count
from rc_utils.counting.sampling import median_distance, sample_vertices

__all__ = [
    "AUTHORS", "Lattice", "RegionCount", "count_components", "label_grid", "make_lattice",
    "median_distance", "outlines", "predict_labels", "region_count", "sample_vertices",
    "triangle_regions",
]  # fmt: skip
