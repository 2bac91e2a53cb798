"""The fragmentation score of planes (Somepalli et al., 2022): regions of 50 x 50 points around three images."""

import copy

import numpy as np
import torch
from scipy import ndimage

from benchmarks.adaptive import trained_networks
from benchmarks.registry import Row, at_least, benchmark
from benchmarks.timing import in_turns, timed
from rc_utils.regions import make_lattice, region_count, sample_vertices
from rc_utils.regions.grid import lattice_corners

RESOLUTION = 50
LOADER_BATCH = 128
NUM_CLASSES = 10


@benchmark("planes")
def planes(scale):
    """Ours, every point evaluated, against a data loader for each plane and components class by class."""
    data, networks = trained_networks(scale.images // 4)
    network = networks[0]
    # As a network is that nobody has touched: channels-last, which ours are trained in, is faster.
    untouched = copy.deepcopy(network).to(memory_format=torch.contiguous_format)
    draw = {"dim": 2, "domain": "box", "resolution": RESOLUTION, "num_samples": scale.planes, "adjacency": "face"}
    corners = plane_corners(data.x_train, scale.planes)

    def grid():
        return region_count(network, data.x_train, **draw).counts

    def loaders():
        return np.array([count_with_a_loader(untouched, plane) for plane in corners])

    # The layouts differ in the last bits of the scores.
    differing = int((grid() != loaders()).sum())
    seconds = in_turns([timed(side) for side in (grid, loaders)], min(scale.repeats, 3))
    what = f"{scale.planes} planes of {RESOLUTION} x {RESOLUTION} ({differing} counts differ)"
    yield Row(what, "a data loader a plane, components per class", *seconds, at_least(1.5))


def plane_corners(points, number):
    """Corners (number, 3, C, H, W) of the rectangles that `region_count` lays around triangles of data points."""
    lattice = make_lattice(2, RESOLUTION, domain="box")
    return lattice_corners(sample_vertices(points, dim=2, num_samples=number), lattice)


class Plane(torch.utils.data.Dataset):
    """The points of one plane, each made when it is asked for."""

    def __init__(self, corners):
        self.corners = corners
        self.coordinates = torch.from_numpy(make_lattice(2, RESOLUTION, domain="box").coordinates.astype(np.float32))

    def __len__(self):
        return len(self.coordinates)

    def __getitem__(self, index):
        return torch.einsum("k,kchw->chw", self.coordinates[index], self.corners)


@torch.no_grad()
def count_with_a_loader(network, corners):
    """Regions of one plane: batches from a DataLoader, then `ndimage.label` for every class."""
    loader = torch.utils.data.DataLoader(Plane(corners), batch_size=LOADER_BATCH)
    labels = torch.cat([network(batch).argmax(1) for batch in loader]).view(RESOLUTION, RESOLUTION).numpy()
    return sum(ndimage.label(labels == k)[1] for k in range(NUM_CLASSES))
