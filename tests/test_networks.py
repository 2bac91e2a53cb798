"""The nine architectures, the small networks, the registry and classes from outside."""

import math
import random
import sys

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torchvision import models

from rc_utils.networks import architectures, build_network, register_network

# Parameters of the published form at ten classes, inputs of its last layer, side of its maps.
PUBLISHED = {
    "ResNet18": (11_173_962, 512, 4),
    "ResNet34": (21_282_122, 512, 4),
    "VGG19": (20_040_522, 512, 1),
    "MobileNetV2": (2_296_922, 1280, 4),
    "SENet18": (11_260_354, 512, 4),
    "ShuffleNetV2": (1_263_854, 1024, 4),
    "EfficientNetB0": (3_598_598, 320, 2),
    "RegNetX_200MF": (2_321_946, 368, 8),
    "SimpleDLA": (15_142_970, 512, 4),
}
every_image_network = pytest.mark.parametrize("name", PUBLISHED)


def count_parameters(network):
    return sum(p.numel() for p in network.parameters())


def random_images(batch_size=2, channels=3, size=16):
    return torch.rand(batch_size, channels, size, size, generator=torch.Generator().manual_seed(1))


@every_image_network
def test_parameters_and_maps_are_the_published_ones_and_grow_with_the_square_of_the_width(name):
    parameters, feature_channels, size = PUBLISHED[name]
    with torch.device("meta"):
        assert count_parameters(build_network(name)) == parameters
        more_classes = build_network(name, num_classes=100)
        assert count_parameters(more_classes) == parameters + 90 * (feature_channels + 1)
        narrow = count_parameters(build_network(name, width=32))
        assert math.log2(parameters / narrow) == pytest.approx(2, abs=0.2)
    assert build_network(name, width=4).features(random_images(size=32)).shape[2:] == (size, size)


@every_image_network
@pytest.mark.parametrize(("width", "size", "channels"), [(1, 8, 2), (4, 28, 1)])
def test_any_image_of_at_least_8_by_8_trains_every_parameter(name, width, size, channels):
    network = build_network(name, num_classes=7, in_channels=channels, image_size=size, width=width)
    logits = network(random_images(2, channels, size))
    assert logits.shape == (2, 7)
    logits.square().sum().backward()
    gradients = {key: p.grad for key, p in network.named_parameters()}
    assert [key for key, g in gradients.items() if g is None or not g.isfinite().all()] == []


@pytest.mark.parametrize("name", ["ResNet18", "ShuffleNetV2"])
def test_networks_equal_torchvisions_with_a_small_stem_and_one_linear_layer(name):
    with torch.device("meta"):
        network = build_network(name)
    if name == "ResNet18":
        reference = models.resnet18(num_classes=10)
        reference.conv1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
    else:
        reference = models.shufflenet_v2_x1_0(num_classes=10)
        reference.conv1[0] = nn.Conv2d(3, 24, 3, 1, 1, bias=False)
    reference.maxpool = nn.Identity()
    # Their tensors are in the same order under other names.
    tensors = zip(network.state_dict(), reference.state_dict().values(), strict=True)
    network.load_state_dict(dict(tensors), assign=True)
    images = random_images(size=32)
    torch.testing.assert_close(network.eval()(images), reference.eval()(images))


def test_residual_blocks_add_their_shortcut():
    images = random_images(channels=8)
    for block, expected in (
        (architectures.x_block(8, 8, stride=1), images.relu()),
        (architectures.inverted_residual(8, 8, expansion=6, stride=1), images),
        (architectures.inverted_residual(8, 8, expansion=6, stride=2), torch.zeros(2, 8, 8, 8)),
    ):
        nn.init.zeros_(block.residual[-1][1].weight)
        assert torch.equal(block.eval()(images), expected)


def test_squeeze_excitation_is_the_published_pair_of_1x1_convolutions():
    block = architectures.SqueezeExcitation(8, 1)
    first, second = (layer for layer in block.gate if isinstance(layer, nn.Linear))
    images = random_images(channels=8)
    mean = images.mean((2, 3), keepdim=True)
    squeezed = F.conv2d(mean, first.weight[:, :, None, None], first.bias).relu()
    gate = F.conv2d(squeezed, second.weight[:, :, None, None], second.bias).sigmoid()
    torch.testing.assert_close(block(images), images * gate)
    assert first.out_features == 2  # at least


def test_drop_connect_drops_whole_samples_in_training_only():
    layer = architectures.DropConnect(0.25)
    ones = torch.ones(4000, 2, 2, 2)
    torch.manual_seed(0)
    dropped = layer(ones)
    kept = dropped[:, 0, 0, 0] > 0
    torch.testing.assert_close(dropped, ones * kept[:, None, None, None] / 0.75)
    assert kept.float().mean().item() == pytest.approx(0.75, abs=0.03)
    assert torch.equal(layer.eval()(ones), ones)


@pytest.mark.parametrize("given", [{}, {"dropout": 0.5}, {"drop_connect": 0.5}])
def test_dropout_options_reach_the_layers(given):
    images = random_images(8)
    rates = {"dropout": 0, "drop_connect": 0} | given
    network = build_network("EfficientNetB0", width=4, **rates)
    assert torch.equal(network(images), network(images)) == (not given)


def test_the_seed_alone_decides_the_weights_and_leaves_the_global_state():
    torch.manual_seed(11)
    before = torch.get_rng_state()
    first, same, other = (build_network("MLP", widths=[4, 7], seed=seed) for seed in (3, 3, 4))
    assert torch.equal(torch.get_rng_state(), before)
    weights = [next(network.parameters()) for network in (first, same, other)]
    assert [m.out_features for m in first.modules() if isinstance(m, nn.Linear)] == [4, 7, 10]
    assert [torch.equal(weights[0], other) for other in weights[1:]] == [True, False]


USER_MODULE = """
import random
import numpy
from torch import nn

class Net(nn.Module):
    def __init__(self, num_classes, image_size, depth=2, width=32):
        super().__init__()
        self.seen = (num_classes, image_size, depth, width)
        self.drawn = (random.random(), numpy.random.random())
        self.layer = nn.Linear(image_size, num_classes)
"""


@pytest.fixture
def user_module(tmp_path, monkeypatch):
    """A module `mine` where Python finds it."""
    (tmp_path / "mine.py").write_text(USER_MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("mine", None)


@pytest.mark.usefixtures("user_module")
def test_user_class_gets_the_arguments_it_names():
    of_python = random.getstate()
    network = build_network("mine:Net", num_classes=4, image_size=9, depth=3)
    assert network.seen == (4, 9, 3, 32)
    assert build_network("mine:Net", width=8).seen == (10, 32, 2, 8)
    assert random.getstate() == of_python
    random.seed(5)  # which the draws of a network do not follow
    np.random.seed(5)  # noqa: NPY002
    again = build_network("mine:Net", num_classes=4, image_size=9)
    assert torch.equal(network.layer.weight, again.layer.weight)
    assert network.drawn == again.drawn
    # A function that says by its annotation that it returns a network, and takes any key.
    assert build_network("torchvision.models:squeezenet1_1", num_classes=7).num_classes == 7


@pytest.mark.parametrize(("name", "options", "error", "message"), [
    ("resnet18", {}, ValueError, "Did you mean 'ResNet18'.*VGG19.*module:Class"),
    ("ResNet18", {"width": math.nan}, ValueError, r"width=nan.*finite number above 0"),
    ("mine:Net", {"dept": 3}, ValueError, r"'dept'. Did you mean 'depth'"),
    # They are not called.
    ("os:system", {}, TypeError, "expected a subclass of torch.nn.Module, or a function"),
    ("torch.utils.collect_env:run", {}, TypeError, "function annotated as returning one"),
])  # fmt: skip
@pytest.mark.usefixtures("user_module")
def test_what_makes_no_network_is_named(name, options, error, message):
    with pytest.raises(error, match=message):
        build_network(name, **options)


def test_a_network_of_the_paper_is_not_replaced_by_one_of_that_name():
    with pytest.raises(ValueError, match="'ResNet18' is the paper's: give yours another name"):
        register_network("ResNet18")(nn.Flatten)
