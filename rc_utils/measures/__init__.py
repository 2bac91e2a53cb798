"""Scalar measures of a trained network that compete with the region count."""

from rc_utils.measures.activations import linear_pieces, local_complexity
from rc_utils.measures.outputs import input_gradient, jacobian_norm, margin_over_gradient, output_margin
from rc_utils.measures.registry import MEASURES, measure, measure_all, some_images
from rc_utils.measures.segments import boundary_thickness, gi_score, mixup_accuracy, mixup_curve, pal_score
from rc_utils.measures.weights import distance_from_init, log_path_norm, log_spectral_product, sharpness

__all__ = [
    "MEASURES",
    "boundary_thickness",
    "distance_from_init",
    "gi_score",
    "input_gradient",
    "jacobian_norm",
    "linear_pieces",
    "local_complexity",
    "log_path_norm",
    "log_spectral_product",
    "margin_over_gradient",
    "measure",
    "measure_all",
    "mixup_accuracy",
    "mixup_curve",
    "output_margin",
    "pal_score",
    "sharpness",
    "some_images",
]
