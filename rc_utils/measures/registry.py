"""The table of measures, and the value of one by its name."""

import torch

from rc_utils.checks import check_name
from rc_utils.counting.evaluation import full_precision
from rc_utils.measures.activations import linear_pieces, local_complexity
from rc_utils.measures.outputs import input_gradient, jacobian_norm, margin_over_gradient, output_margin
from rc_utils.measures.segments import (
    OWN,
    boundary_thickness,
    gi_score,
    mixup_accuracy,
    mixup_curve,
    pal_score,
)
from rc_utils.measures.weights import distance_from_init, log_path_norm, log_spectral_product, sharpness

# Images of the measures that cost more than a pass through the data.
SHARPNESS_IMAGES, JACOBIAN_IMAGES, COMPLEXITY_IMAGES, GRADIENT_IMAGES = 250, 250, 100, 3000


def some_images(data, number, test=False):
    """(images, labels): the first `number` or, where those lack a class, as many at equal distances.

    Of the training images, or of the test images. Subsets are balanced by class throughout; data
    that are taken as they are stored may be sorted by class.
    """
    images, labels = (data.x_test, data.y_test) if test else (data.x_train, data.y_train)
    if len(labels[:number].unique()) == len(labels.unique()):
        return images[:number], labels[:number]
    index = torch.linspace(0, len(labels) - 1, number, device=labels.device).round().long()
    return images[index], labels[index]


def _of_images(function, *options):
    """A measure that takes all training images and their labels."""
    return lambda network, initial, data: function(network, data.x_train, data.y_train, *options)


def _of_some(function, number, labels=True, test=False):
    """A measure that takes some images, with their labels or without."""

    def value(network, initial, data):
        images, of_images = some_images(data, number, test)
        return function(network, images, of_images) if labels else function(network, images)

    return value


# Name -> a number, or a list of numbers, of (network, the same network at its start, data).
#
# The first round of the book's studies took measures along segments on the segments of the count.
# Those that end in `_own` draw their own, for the second round. Three measures of the first round
# are withdrawn, whose values stay in its records: `boundary_thickness` counted places where a third
# class wins, `pal_score_*` took means of the curve for areas below the cumulated one,
# `jacobian_norm` was taken at training images.
MEASURES = {
    "distance_from_init": lambda network, initial, data: distance_from_init(network, initial),
    "margin": _of_images(output_margin),
    "margin_over_gradient": _of_some(margin_over_gradient, GRADIENT_IMAGES),
    "num_parameters": lambda network, initial, data: sum(p.numel() for p in network.parameters()),
    "sharpness": _of_some(sharpness, SHARPNESS_IMAGES),
    "log_spectral_product": lambda network, initial, data: log_spectral_product(network),
    "log_path_norm": lambda network, initial, data: log_path_norm(network, data.x_train),
    "input_gradient": _of_images(input_gradient),
    "jacobian_norm_test": _of_some(jacobian_norm, JACOBIAN_IMAGES, labels=False, test=True),
    "mixup_accuracy": _of_images(mixup_accuracy),
    "mixup_accuracy_own": _of_images(mixup_accuracy, OWN),
    "gi_score_inter": _of_images(gi_score, "inter"),
    "gi_score_inter_own": _of_images(gi_score, "inter", OWN),
    "gi_score_intra": _of_images(gi_score, "intra"),
    "pal_score_inter_own": _of_images(pal_score, "inter", OWN),
    "pal_score_intra_own": _of_images(pal_score, "intra"),
    "mixup_curve_inter": _of_images(mixup_curve, "inter", OWN),
    "mixup_curve_intra": _of_images(mixup_curve, "intra"),
    "boundary_thickness_own": lambda network, initial, data: boundary_thickness(network, data.x_train, seed=OWN),
    "linear_pieces": lambda network, initial, data: linear_pieces(network, data.x_train),
    "linear_pieces_own": lambda network, initial, data: linear_pieces(network, data.x_train, seed=OWN),
    "local_complexity": _of_some(local_complexity, COMPLEXITY_IMAGES, labels=False),
}


def measure_all(names, network, initial, data):
    """{name: value} of several measures; arguments and errors as for `measure`."""
    return {name: measure(name, network, initial, data) for name in names}


def measure(name, network, initial, data):
    """Value of a measure of `network` that started as `initial` and was trained on `data`.

    name: a key of MEASURES. The value is a number, or a list of numbers. Raises ValueError for an
    unknown measure and for one that returns anything else.
    """
    check_name("measure", name, MEASURES)
    with full_precision():
        value = MEASURES[name](network, initial, data)
    try:
        if isinstance(value, str | bytes):
            raise TypeError("it is a text")
        if isinstance(value, list):
            return [float(number) for number in value]
        return value if isinstance(value, int) else float(value)
    except (TypeError, ValueError, RuntimeError) as error:
        expected = f"expected one number ({error})"
        raise ValueError(f"measure {name!r} returned {value!r}; {expected}") from error
