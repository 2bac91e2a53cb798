"""The nine architectures, the small networks, the registry and classes from outside."""

import math
import sys
import textwrap

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torchvision import models

from rc_utils.networks import NETWORKS, build_network, network_options, register_network
from rc_utils.networks.mobile import DropConnect, InvertedResidual
from rc_utils.networks.registry import check_network, find_builder
from rc_utils.networks.residual import BasicBlock, SqueezeExcitation, XBlock

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


@pytest.mark.parametrize("name", ["ResNet18", "ShuffleNetV2", "VGG19"])
def test_networks_equal_torchvisions_with_a_small_stem_and_one_linear_layer(name):
    with torch.device("meta"):
        network = build_network(name)
    if name == "VGG19":
        features = models.vgg19_bn(init_weights=False).features
        reference = nn.Sequential(features, nn.Flatten(), nn.Linear(512, 10))
    elif name == "ResNet18":
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
        (BasicBlock(8, 8), images.relu()),
        (XBlock(8, 8, stride=1), images.relu()),
        (InvertedResidual(8, 8, expansion=6, stride=1), images),
        (InvertedResidual(8, 8, expansion=6, stride=2), torch.zeros(2, 8, 8, 8)),
    ):
        nn.init.zeros_(block.residual[-1][1].weight)
        assert torch.equal(block.eval()(images), expected)


def test_squeeze_excitation_is_the_published_pair_of_1x1_convolutions():
    """To two channels at least."""
    block = SqueezeExcitation(8, 1)
    first, second = (layer for layer in block.gate if isinstance(layer, nn.Linear))
    images = random_images(channels=8)
    mean = images.mean((2, 3), keepdim=True)
    squeezed = F.conv2d(mean, first.weight[:, :, None, None], first.bias).relu()
    gate = F.conv2d(squeezed, second.weight[:, :, None, None], second.bias).sigmoid()
    torch.testing.assert_close(block(images), images * gate)
    assert first.out_features == 2


def test_drop_connect_drops_whole_samples_in_training_only():
    layer = DropConnect(0.25)
    ones = torch.ones(4000, 2, 2, 2)
    torch.manual_seed(0)
    dropped = layer(ones)
    kept = dropped[:, 0, 0, 0] > 0
    torch.testing.assert_close(dropped, ones * kept[:, None, None, None] / 0.75)
    assert kept.float().mean().item() == pytest.approx(0.75, abs=0.03)
    assert layer.eval()(ones) is ones


def test_dropout_options_reach_the_layers():
    """Random in training alone, and with a rate of 0 not even there."""
    images = random_images(8)
    network = build_network("EfficientNetB0", width=4, dropout=0.5, drop_connect=0.5)
    assert not torch.equal(network(images), network(images))
    assert torch.equal(network.eval()(images), network(images))
    plain = build_network("EfficientNetB0", width=4, dropout=0, drop_connect=0)
    assert torch.equal(plain(images), plain(images))
    default = build_network("EfficientNetB0", width=4)
    rates = [module.rate for module in default.modules() if isinstance(module, DropConnect)]
    assert rates == sorted(rates)
    assert 0 < rates[0] < rates[-1] < 0.2


def test_mlp_layers():
    shape = {"in_channels": 1, "image_size": 4}
    network = build_network("MLP", num_classes=3, widths=(5, 7), width=8, **shape)
    assert [m.out_features for m in network.modules() if isinstance(m, nn.Linear)] == [5, 7, 3]
    assert count_parameters(build_network("MLP", in_channels=2, image_size=1, widths=())) == 30


def test_the_seed_alone_decides_the_weights():
    """The global random state is neither used nor changed."""
    torch.manual_seed(11)
    before = torch.get_rng_state()
    first = build_network("ResNet18", width=4, seed=3).state_dict()
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(12)
    same, other = (build_network("ResNet18", width=4, seed=seed).state_dict() for seed in (3, 4))
    assert all(torch.equal(first[key], same[key]) for key in first)
    assert not torch.equal(first["features.0.0.weight"], other["features.0.0.weight"])


@pytest.mark.parametrize(("name", "arguments", "message"), [
    ("resnet18", {}, "network 'resnet18'. Did you mean 'ResNet18'.*VGG19.*module:Class"),
    ("EfficientNetB0", {"drop_conect": 0.1}, "Did you mean 'drop_connect'.*Valid: drop_c"),
    ("ResNet18", {"dropout": 0.1}, "option of network 'ResNet18' 'dropout'. Valid: in_channels"),
    ("EfficientNetB0", {"drop_connect": 1.0}, r"drop_connect=1.0; expected a number in \[0, 1\)"),
    ("ResNet18", {"num_classes": 2.5}, "num_classes=2.5; expected an integer of at least 1"),
    ("MLP", {"widths": (3, 0)}, "widths=0"),
])  # fmt: skip
def test_bad_arguments_are_named(name, arguments, message):
    with pytest.raises(ValueError, match=message):
        build_network(name, **arguments)


def test_register_network(monkeypatch):
    monkeypatch.setattr("rc_utils.networks.registry.NETWORKS", dict(NETWORKS))

    def define():
        @register_network("Probe")
        class Probe(nn.Linear):
            def __init__(self, num_classes, scale=2):
                super().__init__(scale, num_classes)

        return Probe

    define()
    latest = define()
    network = build_network("Probe", num_classes=3, scale=5)
    assert type(network) is latest
    assert network.weight.shape == (3, 5)
    with pytest.raises(ValueError, match=r"'Probe' is taken by .*Probe"):
        register_network("Probe")(nn.Linear)
    with pytest.raises(ValueError, match="contains ':'"):
        register_network("a:b")


USER_MODULE = """
    from torch import nn
    import mine_helper

    class Net(nn.Module):
        def __init__(self, num_classes, image_size, depth=2):
            super().__init__()
            self.seen = (num_classes, image_size, depth)
            self.layer = nn.Linear(image_size, num_classes)

    class Greedy(nn.Module):
        def __init__(self, **options):
            super().__init__()
            self.seen = options

    class Demanding(nn.Module):
        def __init__(self, in_channels, depth):
            super().__init__()

    class Plain:
        pass

    def make(in_channels):
        return nn.Linear(in_channels, 1)

    def make_nothing():
        return 3
"""


@pytest.fixture
def user_module(tmp_path, monkeypatch):
    """Modules `mine`, its helper, `mine_shell` and `mine_broken` in the working directory."""
    (tmp_path / "mine.py").write_text(textwrap.dedent(USER_MODULE))
    (tmp_path / "mine_helper.py").write_text("")
    (tmp_path / "mine_broken.py").write_text("import package_that_is_not_there")
    (tmp_path / "mine_shell.py").write_text("from subprocess import call")
    monkeypatch.chdir(tmp_path)
    yield
    for key in [key for key in sys.modules if key.startswith("mine")]:
        del sys.modules[key]


@pytest.mark.usefixtures("user_module")
def test_user_class_gets_the_arguments_it_names():
    path = list(sys.path)
    network = build_network("mine:Net", num_classes=4, image_size=9, depth=3)
    assert network.seen == (4, 9, 3)
    assert sys.path == path
    assert build_network("mine:make", in_channels=6).in_features == 6
    # Of a library, and says that it returns a network.
    assert callable(find_builder("torchvision.models:resnet18"))
    assert build_network("mine:Greedy", anything=1).seen == {"anything": 1}
    again = build_network("mine:Net", num_classes=4, image_size=9)
    assert torch.equal(network.layer.weight, again.layer.weight)


@pytest.mark.usefixtures("user_module")
def test_options_of_networks_and_of_user_classes():
    assert network_options("EfficientNetB0") == {"dropout": 0.2, "drop_connect": 0.2}
    assert network_options("ResNet18") == {}
    assert network_options("mine:Net") == {"depth": 2}
    with pytest.raises(ValueError, match=r"'dept'. Did you mean 'depth'"):
        build_network("mine:Net", dept=3)
    with pytest.raises(ValueError, match="needs the options depth"):
        build_network("mine:Demanding")


@pytest.mark.parametrize(("name", "error", "message"), [
    ("mine:Missing", AttributeError, "module 'mine' has no attribute 'Missing'"),
    ("mine:Plain", TypeError, "Plain.*expected a class derived from torch.nn.Module"),
    ("mine:make_nothing", TypeError, "built 'int': expected a torch.nn.Module"),
    ("mine.py:Net", ModuleNotFoundError, "No module named 'mine.py'"),
    ("elsewhere:Net", ModuleNotFoundError, "No module named 'elsewhere'"),
    ("mine:", TypeError, "module 'mine'.*expected a class"),
    ("../mine:Net", ValueError, "invalid format"),
    # Functions of others, which are not called.
    ("os:system", TypeError, "expected a class derived from torch.nn.Module, or a function"),
    ("torch.utils.collect_env:run", TypeError, "one of a library says so by its annotation"),
    ("rc_utils.notebooks:execute_notebook", TypeError, "expected a class"),
    ("mine_shell:call", TypeError, "expected a class"),
    ("mine_broken:Net", ModuleNotFoundError, r"^No module named 'package_that_is_not_there'$"),
])  # fmt: skip
@pytest.mark.usefixtures("user_module")
def test_user_class_errors(name, error, message):
    path = list(sys.path)
    with pytest.raises(error, match=message):
        build_network(name)
    assert sys.path == path


@pytest.mark.usefixtures("user_module")
def test_a_network_is_checked_without_being_built():
    check_network("ResNet18", width=4)
    for width in (0, math.nan, True):
        with pytest.raises(ValueError, match=r"width=.*finite number above 0"):
            check_network("ResNet18", width=width)
    for name in ("torch.nn:Flatten", "mine:Greedy"):  # neither of which would get it
        with pytest.raises(ValueError, match="takes no width"):
            check_network(name, width=4)
