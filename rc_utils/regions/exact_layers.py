"""Layers of a piecewise-linear network in float64: convolution as a product of tiles, kinks, max-pooling."""

import torch
from torch import nn
from torch.nn import functional as F

# Seconds for one multiply-add of a float64 matrix product and for one number copied, in a ratio that held on CPUs: they
# choose the size of a tile, never the result.
SECONDS_PER_MULTIPLY_ADD = 1 / 30e9
SECONDS_PER_COPY = 4e-9
LARGEST_TILE = 8


class TiledConvolution:
    """A Conv2d as one matrix product: every tile of the output from the patch of the padded input that it sees.

    torch's float64 convolution reaches a few percent of a CPU's speed; its matrix product reaches most of it. Tiles of
    one pixel are the usual unfolding, one tile for the whole image a dense matrix.
    """

    def __init__(self, conv: nn.Conv2d):
        self.conv = conv
        self.size = None

    def __call__(self, x):
        conv = self.conv
        if not _is_plain(conv):
            return conv(x)
        if self.size != x.shape[1:]:
            self._prepare(x.shape[1:])
        rows, channels = x.shape[:2]
        (bottom, right), patch, step, tile = self.margin, self.patch, self.step, self.tile
        top, left = conv.padding
        # Channels last: copies then move runs of numbers that lie side by side.
        x = F.pad(x.permute(0, 2, 3, 1), (0, 0, left, right, top, bottom))
        tiles = x.unfold(1, patch[0], step[0]).unfold(2, patch[1], step[1])
        down, across = tiles.shape[1:3]
        tiles = tiles.reshape(rows, down, across, conv.groups, channels // conv.groups, *patch)
        tiles = tiles.permute(3, 0, 1, 2, 5, 6, 4).reshape(conv.groups, rows * down * across, -1)
        out = torch.bmm(tiles, self.matrix) if conv.groups > 1 else (tiles[0] @ self.matrix[0]).unsqueeze(0)
        out = out.view(conv.groups, rows, down, across, *tile, -1).permute(1, 2, 4, 3, 5, 0, 6)
        out = out.reshape(rows, down * tile[0], across * tile[1], conv.out_channels)
        out = out[:, : self.out_size[0], : self.out_size[1]].permute(0, 3, 1, 2)
        return out if conv.bias is None else out + conv.bias.view(-1, 1, 1)

    def _prepare(self, size):
        conv = self.conv
        self.size = size
        self.out_size = [
            (n + 2 * pad - k) // stride + 1
            for n, pad, k, stride in zip(size[1:], conv.padding, conv.kernel_size, conv.stride, strict=True)
        ]
        side = min(range(1, min(LARGEST_TILE, max(self.out_size)) + 1), key=self._seconds)
        self.tile, self.patch, self.step = self._geometry(side)
        self.margin = [
            max(0, (-(-out // t) - 1) * step + patch - n - pad)
            for out, t, step, patch, n, pad in zip(
                self.out_size, self.tile, self.step, self.patch, size[1:], conv.padding, strict=True
            )
        ]
        self.matrix = self._matrix()

    def _geometry(self, side):
        tile = [min(side, out) for out in self.out_size]
        step = [t * stride for t, stride in zip(tile, self.conv.stride, strict=True)]
        sizes = zip(tile, self.conv.stride, self.conv.kernel_size, strict=True)
        return tile, [(t - 1) * stride + k for t, stride, k in sizes], step

    def _seconds(self, side):
        conv = self.conv
        tile, patch, _ = self._geometry(side)
        count = -(-self.out_size[0] // tile[0]) * -(-self.out_size[1] // tile[1])
        seen, made = conv.in_channels * patch[0] * patch[1], conv.out_channels * tile[0] * tile[1]
        multiply = seen * made / conv.groups * SECONDS_PER_MULTIPLY_ADD
        return count * (multiply + (seen + made) * SECONDS_PER_COPY)

    def _matrix(self):
        """(groups, numbers in a patch, numbers in a tile): the convolution of every unit vector of a patch."""
        conv = self.conv
        channels = conv.in_channels // conv.groups
        count = channels * self.patch[0] * self.patch[1]
        unit = torch.eye(count, dtype=conv.weight.dtype, device=conv.weight.device)
        unit = unit.view(count, *self.patch, channels).permute(0, 3, 1, 2)
        matrices = [
            F.conv2d(unit, weight, stride=conv.stride).permute(0, 2, 3, 1).reshape(count, -1)
            for weight in conv.weight.chunk(conv.groups)
        ]
        return torch.stack(matrices)


def _is_plain(conv):
    simple = conv.padding_mode == "zeros" and conv.dilation == (1, 1) and not isinstance(conv.padding, str)
    return simple and not has_hooks(conv)


def has_hooks(module):
    """Whether something is computed before or after the module's own forward pass."""
    return bool(module._forward_pre_hooks or module._forward_hooks)


def pool_windows(z, kernel_size, stride, padding, ceil_mode):
    """The windows of a max-pool of z (P, C, H, W), as (P, C, H_out, W_out, numbers in a window).

    Padding is filled with a number below all of z: a constant never wins and, unlike -inf, can be interpolated.
    """
    pads = []
    for n, k, s, pad in zip(z.shape[2:], kernel_size, stride, padding, strict=True):
        left_over = (n + 2 * pad - k) % s
        # A last window that would start in the padding on the right is left out, as torch does.
        reaches = ceil_mode and left_over and n + 2 * pad - k - left_over + s < n + pad
        pads.append((pad, pad + (s - left_over if reaches else 0)))
    padded = F.pad(z, (*pads[1], *pads[0]), value=float(z.min()) - 1)
    return padded.unfold(2, kernel_size[0], stride[0]).unfold(3, kernel_size[1], stride[1]).flatten(4)
