"""Measures of the pieces on which a network is linear: sign changes of its units.

A unit is one number that goes into a ReLU or another activation with its bend at 0, as module or as function; for
smooth ones (swish, GELU, ...) the sign of that number is taken as well, although nothing is linear there. Corners of
max-pooling are not counted, nor are sigmoid gates.
"""

import numpy as np
import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

from rc_utils.checks import require
from rc_utils.counting.classifier import as_classifier
from rc_utils.counting.evaluation import evaluation_mode, full_precision
from rc_utils.counting.sampling import gather
from rc_utils.datasets.images import images_per_batch
from rc_utils.measures.segments import counted_pairs

ACTIVATIONS = {
    F.relu, F.relu_, torch.relu, torch.relu_, torch.Tensor.relu, torch.Tensor.relu_, F.relu6, F.leaky_relu,
    F.leaky_relu_, F.prelu, torch.prelu, torch.Tensor.prelu, F.rrelu, F.elu, F.elu_, F.selu, F.celu, F.silu, F.gelu,
    F.mish, F.hardswish,
}  # fmt: skip

# They bend, but not where their input changes its sign alone: refused, so that no bend goes uncounted.
OTHER_BENDS = {
    torch.clamp, torch.Tensor.clamp, torch.Tensor.clamp_, torch.clip, torch.Tensor.clip, torch.clamp_min,
    torch.Tensor.clamp_min, torch.Tensor.clamp_min_, torch.clamp_max, torch.Tensor.clamp_max, torch.maximum,
    torch.Tensor.maximum, torch.minimum, torch.Tensor.minimum, torch.abs, torch.Tensor.abs, F.hardtanh, F.hardtanh_,
    F.threshold, F.threshold_, F.hardsigmoid, F.softshrink, F.hardshrink,
}  # fmt: skip

# On a trained ResNet18 of width 8, 51 points found 8,759 of the 8,809 pieces that `exact_segment` finds.
PIECES_SEGMENTS, PIECES_POINTS = 80, 51
# Humayun et al. 2024: 40 vertices at a distance of 0.005.
FRAME_VECTORS, FRAME_RADIUS = 20, 0.005


class UnitInputs(TorchFunctionMode):
    """Inside the block `visit` gets the input of every activation, the first axis being the batch.

    What it returns stands in the place of the activation's output, unless it is None.
    """

    def __init__(self, visit):
        super().__init__()
        self.visit = visit
        self.found = False

    def check(self):
        """Raise ValueError if no activation was met: nothing would be counted."""
        require(
            self.found,
            "no activation was found in the network: this measure sees ReLU and its kin, as modules or functions of "
            "torch, and would be 1 or 0 without a meaning",
        )

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        require(
            func not in OTHER_BENDS,
            f"the network calls {getattr(func, '__name__', func)}, whose bends this measure does not count: "
            "write it as an activation such as torch.relu, or leave the measure out",
        )
        self.found |= func in ACTIVATIONS
        instead = self.visit(args[0] if args else kwargs["input"]) if func in ACTIVATIONS else None
        return func(*args, **kwargs) if instead is None else instead


@full_precision()
@torch.no_grad()
def linear_pieces(network, x, num_segments=PIECES_SEGMENTS, num_points=PIECES_POINTS, seed=0):
    """1 + sum_k |c(z_k) - c(z_(k+1))|_1, mean over segments; c(z) are the signs, 0 or 1, of all units at z.

    z_1, z_2, ... are equally spaced on a segment. The sum is the number of transitions of Novak et al. 2018,
    Sensitivity and generalization in neural networks, Sec. 3.2; their trajectories are closed and within a class, these
    are the first segments that `region_count` draws with `seed`. For ReLU networks it is the number of linear pieces, a
    lower bound where a unit changes twice between neighbouring points.

    x: images (N, C, H, W). Cost: 80 segments of 51 points, 4,080 forward passes. Raises ValueError for a network
    without an activation that is known here, and for one that bends otherwise.
    """
    classifier = as_classifier(network, x)
    device, dtype = classifier.device, classifier.dtype
    changes = []

    def visit(z):
        signs = z > 0
        changes.append((signs[1:] != signs[:-1]).sum())

    step = images_per_batch(x, 500)
    with evaluation_mode(network), UnitInputs(visit) as units:
        for pair in counted_pairs(x, num_segments, seed):
            first, second = gather(x, pair, device, dtype)
            t = torch.linspace(0, 1, num_points, dtype=dtype, device=device).view(-1, *[1] * first.ndim)
            for start in range(0, num_points - 1, step):
                # Neighbouring parts share a point, so that no change between them is lost.
                network(torch.lerp(first, second, t[start : start + step + 1]))
    units.check()
    return 1 + sum(int(count) for count in changes) / num_segments


@full_precision()
@torch.no_grad()
def local_complexity(network, x, radius=FRAME_RADIUS, num_vectors=FRAME_VECTORS):
    """Share of units whose sign is not the same at all x +- radius v_p, p = 1 ... P; mean over x, in [0, 1].

    The vertices of a cross-polytope around x; v_p are orthonormal, drawn with a fixed seed, the same for every x, at
    most as many as an image has numbers. Humayun et al. 2024, Deep networks always grok and here is why, Sec. 3, with
    the radius and number of vertices of their code; theirs is the number of units by layer, here all have one weight.

    x: standardised images (N, C, H, W), whose unit is that of `radius`. Cost: 40 forward passes per image.
    """
    classifier = as_classifier(network, x)
    device, dtype = classifier.device, classifier.dtype
    size = x[0].numel()
    orthonormal, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((size, min(num_vectors, size))))
    frame = torch.from_numpy(orthonormal.T.copy()).view(-1, *x.shape[1:]).to(device=device, dtype=dtype)
    offsets = radius * torch.cat([frame, -frame])
    changed, sizes = [], []

    def visit(z):
        signs = (z > 0).reshape(-1, len(offsets), z[0].numel())  # in any layout of memory
        changed.append((signs.any(1) & ~signs.all(1)).sum())
        sizes.append(signs[:, 0].numel())

    step = max(1, images_per_batch(x, 500) // len(offsets))
    with evaluation_mode(network), UnitInputs(visit) as units:
        for start in range(0, len(x), step):
            centres = x[start : start + step].to(device=device, dtype=dtype)
            network((centres[:, None] + offsets).flatten(0, 1))
    units.check()
    return sum(int(count) for count in changed) / sum(sizes)
