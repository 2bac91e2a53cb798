"""Depthwise convolutions as products are the same function with the same gradients."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from rc_utils.networks import build_network
from rc_utils.training.depthwise import depthwise_product, fast_depthwise


@pytest.mark.parametrize("size", [(1, 1), (3, 1), (5, 3)])
@pytest.mark.parametrize(("kernel", "stride"), [(3, 1), (3, 2), (5, 1), (5, 2)])
def test_product_is_the_convolution_with_its_gradients(size, kernel, stride):
    torch.manual_seed(0)
    x = torch.randn(4, 6, *size, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(6, 1, kernel, kernel, dtype=torch.float64, requires_grad=True)
    where = (stride, stride), (kernel // 2, kernel // 2)
    ours, other = depthwise_product(x, weight, *where), F.conv2d(x, weight, None, *where, groups=6)
    torch.testing.assert_close(ours, other)
    direction = torch.randn_like(other)
    for a, b in zip(*(torch.autograd.grad(y, (x, weight), direction) for y in (ours, other)), strict=True):
        torch.testing.assert_close(a, b)


def test_what_is_kept_from_inference_serves_training():
    x, weight = torch.rand(1, 2, 2, 3), torch.rand(2, 1, 4, 5, requires_grad=True)
    with torch.inference_mode():
        depthwise_product(x, weight, padding=(2, 2))
    depthwise_product(x, weight, padding=(2, 2)).sum().backward()
    assert weight.grad is not None


def test_the_network_is_left_as_it_was():
    network = build_network("MobileNetV2", image_size=16, width=16)
    before = [sorted(vars(m)) for m in network.modules()]
    with fast_depthwise(network):
        patched = sum("_conv_forward" in vars(m) for m in network.modules())
    assert patched == sum(1 < m.groups == m.in_channels for m in network.modules() if isinstance(m, nn.Conv2d))
    assert [sorted(vars(m)) for m in network.modules()] == before


@pytest.mark.parametrize(
    "settings", [{}, {"stride": 2}, {"dilation": 2}, {"padding": "same"}, {"padding_mode": "circular"}]
)
def test_convolutions_give_what_they_gave(settings):
    torch.manual_seed(0)
    conv = nn.Conv2d(4, 4, 5, groups=4, **{"padding": 2} | settings)
    x = torch.randn(2, 4, 4, 4) if settings != {"dilation": 2} else torch.randn(2, 4, 8, 8)
    expected = conv(x)
    with fast_depthwise(conv):
        torch.testing.assert_close(conv(x), expected)
