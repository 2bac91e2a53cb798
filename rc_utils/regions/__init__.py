"""Counting the connected regions of equal predicted label of a classifier, on simplices between data points."""

from rc_utils.regions.components import count_components
from rc_utils.regions.count import RegionCount, region_count
from rc_utils.regions.evaluation import predict_labels
from rc_utils.regions.grid import LabelGrid, label_grid, plane_coordinates
from rc_utils.regions.lattice import Lattice, make_lattice
from rc_utils.regions.sampling import median_distance, sample_vertices

__all__ = [
    "LabelGrid",
    "Lattice",
    "RegionCount",
    "count_components",
    "label_grid",
    "make_lattice",
    "median_distance",
    "plane_coordinates",
    "predict_labels",
    "region_count",
    "sample_vertices",
]
