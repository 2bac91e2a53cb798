"""The table of measures, and the value of one by its name."""

import torch

from rc_utils.checks import check_name
from rc_utils.counting.evaluation import full_precision
from rc_utils.measures.activations import linear_pieces, local_complexity
from rc_utils.measures.inputs import input_gradient, jacobian_norm, margin_over_gradient, output_margin
from rc_utils.measures.segments import OWN, boundary_thickness, gi_score, mixup_accuracy, mixup_curve, pal_score
from rc_utils.measures.weights import distance_from_init, log_path_norm, log_spectral_product, sharpness

# Images of the measures that cost more than a pass through the data.
SHARPNESS_IMAGES, JACOBIAN_IMAGES, COMPLEXITY_IMAGES, GRADIENT_IMAGES = 250, 250, 100, 3000


def some_images(data, number):
    """(images, labels): the first `number` for training or, where those lack a class, as many at equal distances.

    Subsets are balanced by class throughout; data that are taken as they are stored may be sorted by class.
    """
    return _some(data.x_train, data.y_train, number)


def _some(images, labels, number):
    if len(labels[:number].unique()) == len(labels.unique()):
        return images[:number], labels[:number]
    index = torch.linspace(0, len(labels) - 1, number, device=labels.device).round().long()
    return images[index], labels[index]


# Name -> a number, or a list of numbers, of (network, the same network at its start, data).
#
# The first round of the book's studies took measures along segments on the segments of the count. Those that end in
# `_own` draw their own, for the second round. Three measures of the first round are withdrawn, whose values stay in its
# records: `boundary_thickness` counted places where a third class wins, `pal_score_*` took means of the curve for areas
# below the cumulated one, `jacobian_norm` was taken at training images.
MEASURES = {
    "distance_from_init": lambda network, initial, data: distance_from_init(network, initial),
    "margin": lambda network, initial, data: output_margin(network, data.x_train, data.y_train),
    "margin_over_gradient": lambda network, initial, data: margin_over_gradient(
        network, *some_images(data, GRADIENT_IMAGES)
    ),
    "num_parameters": lambda network, initial, data: sum(p.numel() for p in network.parameters()),
    "sharpness": lambda network, initial, data: sharpness(network, *some_images(data, SHARPNESS_IMAGES)),
    "log_spectral_product": lambda network, initial, data: log_spectral_product(network),
    "log_path_norm": lambda network, initial, data: log_path_norm(network, data.x_train),
    "input_gradient": lambda network, initial, data: input_gradient(network, data.x_train, data.y_train),
    "jacobian_norm_test": lambda network, initial, data: jacobian_norm(
        network, _some(data.x_test, data.y_test, JACOBIAN_IMAGES)[0]
    ),
    "mixup_accuracy": lambda network, initial, data: mixup_accuracy(network, data.x_train, data.y_train),
    "mixup_accuracy_own": lambda network, initial, data: mixup_accuracy(network, data.x_train, data.y_train, OWN),
    "gi_score_inter": lambda network, initial, data: gi_score(network, data.x_train, data.y_train, "inter"),
    "gi_score_inter_own": lambda network, initial, data: gi_score(network, data.x_train, data.y_train, "inter", OWN),
    "gi_score_intra": lambda network, initial, data: gi_score(network, data.x_train, data.y_train, "intra"),
    "pal_score_inter_own": lambda network, initial, data: pal_score(network, data.x_train, data.y_train, "inter", OWN),
    "pal_score_intra_own": lambda network, initial, data: pal_score(network, data.x_train, data.y_train, "intra"),
    "mixup_curve_inter": lambda network, initial, data: mixup_curve(
        network, data.x_train, data.y_train, "inter", OWN
    ).tolist(),
    "mixup_curve_intra": lambda network, initial, data: mixup_curve(
        network, data.x_train, data.y_train, "intra"
    ).tolist(),
    "boundary_thickness_own": lambda network, initial, data: boundary_thickness(network, data.x_train, seed=OWN),
    "linear_pieces": lambda network, initial, data: linear_pieces(network, data.x_train),
    "linear_pieces_own": lambda network, initial, data: linear_pieces(network, data.x_train, seed=OWN),
    "local_complexity": lambda network, initial, data: local_complexity(
        network, some_images(data, COMPLEXITY_IMAGES)[0]
    ),
}


def measure_all(names, network, initial, data):
    """{name: value} of several measures; arguments and errors as for `measure`."""
    return {name: measure(name, network, initial, data) for name in names}


def measure(name, network, initial, data):
    """Value of the measure `name` (a key of MEASURES) of `network` that started as `initial` and trained on `data`.

    A measure may be a list of numbers. Raises ValueError for an unknown measure and for one that returns anything else.
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
        raise ValueError(f"measure {name!r} returned {value!r}; expected one number ({error})") from error
