"""Networks and data that several benchmarks share: width-8 ResNet18 on shapes of 16 x 16."""

from rc_utils.datasets import load_dataset
from rc_utils.networks import build_network
from rc_utils.training import TrainConfig

IMAGE_SIZE = 16


def shapes(num_images):
    """Shapes of 16 x 16; the test set is as small as may be, as no benchmark times evaluation."""
    return load_dataset("shapes", n_train=num_images, n_test=10, image_size=IMAGE_SIZE)


def narrow_network(name="ResNet18", width=8, **options):
    """A network as the quick campaigns train it."""
    return build_network(name, image_size=IMAGE_SIZE, width=width, **options)


def one_epoch(batch_size=128):
    """Settings of one epoch at a learning rate at which no network here ever diverges."""
    return TrainConfig(lr=0.01, batch_size=batch_size, epochs=1, schedule="constant")
