"""The table of measures, and the value of one by its name."""

import torch

from rc_utils.checks import check_name
from rc_utils.counting.evaluation import full_precision
from rc_utils.measures.activations import linear_pieces, local_complexity
from rc_utils.measures.inputs import input_gradient, jacobian_norm, output_margin
from rc_utils.measures.segments import boundary_thickness, gi_score, mixup_accuracy, pal_score
from rc_utils.measures.weights import distance_from_init, log_path_norm, log_spectral_product, sharpness

# Images of the measures that cost more than a pass through the data.
SHARPNESS_IMAGES, JACOBIAN_IMAGES, COMPLEXITY_IMAGES = 250, 250, 100


def some_images(data, number):
    """(images, labels): the first `number` for training or, where those lack a class, as many at equal distances.

    Subsets are balanced by class throughout; data that are taken as they are stored may be sorted by class.
    """
    labels = data.y_train
    if len(labels[:number].unique()) == len(labels.unique()):
        return data.x_train[:number], labels[:number]
    index = torch.linspace(0, len(labels) - 1, number, device=labels.device).round().long()
    return data.x_train[index], labels[index]


MEASURES = {
    "distance_from_init": lambda network, initial, data: distance_from_init(network, initial),
    "margin": lambda network, initial, data: output_margin(network, data.x_train, data.y_train),
    "num_parameters": lambda network, initial, data: sum(p.numel() for p in network.parameters()),
    "sharpness": lambda network, initial, data: sharpness(network, *some_images(data, SHARPNESS_IMAGES)),
    "log_spectral_product": lambda network, initial, data: log_spectral_product(network),
    "input_gradient": lambda network, initial, data: input_gradient(network, data.x_train, data.y_train),
    "mixup_accuracy": lambda network, initial, data: mixup_accuracy(network, data.x_train, data.y_train),
    "gi_score_inter": lambda network, initial, data: gi_score(network, data.x_train, data.y_train, "inter"),
    "gi_score_intra": lambda network, initial, data: gi_score(network, data.x_train, data.y_train, "intra"),
    "pal_score_inter": lambda network, initial, data: pal_score(network, data.x_train, data.y_train, "inter"),
    "pal_score_intra": lambda network, initial, data: pal_score(network, data.x_train, data.y_train, "intra"),
    "boundary_thickness": lambda network, initial, data: boundary_thickness(network, data.x_train),
    "linear_pieces": lambda network, initial, data: linear_pieces(network, data.x_train),
    "jacobian_norm": lambda network, initial, data: jacobian_norm(network, some_images(data, JACOBIAN_IMAGES)[0]),
    "local_complexity": lambda network, initial, data: local_complexity(
        network, some_images(data, COMPLEXITY_IMAGES)[0]
    ),
    "log_path_norm": lambda network, initial, data: log_path_norm(network, data.x_train),
}


def measure_all(names, network, initial, data):
    """{name: value} of several measures; arguments and errors as for `measure`."""
    return {name: measure(name, network, initial, data) for name in names}


def measure(name, network, initial, data):
    """Value of the measure `name` (a key of MEASURES) of `network` that started as `initial` and trained on `data`.

    Raises ValueError for an unknown measure and for one that returns something else than a number.
    """
    check_name("measure", name, MEASURES)
    with full_precision():
        value = MEASURES[name](network, initial, data)
    try:
        if isinstance(value, str | bytes):
            raise TypeError("it is a text")
        return value if isinstance(value, int) else float(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"measure {name!r} returned {value!r}; expected one number ({error})") from error
