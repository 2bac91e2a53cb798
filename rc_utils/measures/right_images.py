"""Which images of a stored dataset a network gets right."""

import base64

import numpy as np

from rc_utils.counting import predict_labels
from rc_utils.datasets import ImageTensor


def right_images(network, data, whole):
    """Which images of the stored dataset `whole` are classified right, and the accuracy on unused ones.

    Returns {"test", "pool"}, bits in the stored order, eight a byte, as base64 text
    (`numpy.packbits`): of all test images and of all images that the training images of `data` were
    drawn from; and the accuracy on images of the pool that are none of these. All are standardised
    as the training images are.
    """
    right = {}
    splits = {"test": (whole.x_test, whole.y_test), "pool": (whole.x_train, whole.y_train)}
    for name, (images, labels) in splits.items():
        standardised = ImageTensor(images.raw, data.x_train.mean.cpu(), data.x_train.std.cpu())
        right[name] = np.asarray(predict_labels(network, standardised)) == labels.numpy()
    used = {image.tobytes() for image in data.x_train.raw.cpu().numpy()}
    unused = np.array([image.tobytes() not in used for image in whole.x_train.raw.numpy()])
    bits = {name: base64.b64encode(np.packbits(values)).decode() for name, values in right.items()}
    return bits, float(right["pool"][unused].mean())
