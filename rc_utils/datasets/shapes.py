"""`shapes`: ten shapes in colour on textured backgrounds, drawn by formula, in any number and size.

Images are drawn in blocks of fixed length, each from a random stream of its own, so that the first
n images do not depend on how many are asked for, and training and test images never share a stream.
All coordinates are in units of half the image, so that the same scene is drawn at every size; only
the pixel noise differs.
"""

import math

import numpy as np

_BLOCK = 500
_STREAMS = {"train": 0, "test": 1}


def make_shapes(n, *, image_size, split, seed, classes):
    """Images (n, image_size, image_size, 3) uint8 and their labels (n,) int64.

    classes: indices into `SHAPE_NAMES`; label k is the k-th of them. Within a block every run of
    len(classes) labels holds each class once.
    """
    runs = _BLOCK // len(classes)
    images, labels = [], []
    for block in range(math.ceil(n / (runs * len(classes)))):
        rng = np.random.default_rng([seed, _STREAMS[split], block])
        drawn = rng.permuted(np.tile(np.arange(len(classes)), (runs, 1)), axis=1).ravel()
        images.append(_draw(np.asarray(classes)[drawn], image_size, rng))
        labels.append(drawn)
    return np.concatenate(images)[:n], np.concatenate(labels)[:n]


def _draw(shapes, image_size, rng):
    """Scenes (B, S, S, 3) uint8 of shapes (B,): background, shape, blobs over both, then noise."""
    num = len(shapes)
    centres = (np.arange(image_size) + 0.5) * 2 / image_size - 1
    x, y = np.meshgrid(centres, centres)
    base = rng.uniform(0.1, 0.6, (num, 3))
    canvas = base[:, None, None, :] + _texture(num, x, y, rng)

    distance, colour = _shapes(shapes, base, x, y, rng)
    canvas = _cover(canvas, distance, colour)
    for _ in range(2):  # small discs of random colour, each of them with probability 1/2
        centre_x, centre_y = rng.uniform(-1, 1, (2, num, 1, 1))
        radius = rng.uniform(0.08, 0.24, (num, 1, 1))
        shown = rng.random((num, 1, 1)) < 0.5
        colour = rng.uniform(0, 1, (num, 3))
        distance = np.hypot(x - centre_x, y - centre_y) - np.where(shown, radius, -1)
        canvas = _cover(canvas, distance, colour)
    noise = rng.uniform(0.02, 0.08, (num, 1, 1, 1))
    canvas += noise * rng.standard_normal(canvas.shape)
    return np.floor(np.clip(canvas, 0, 1) * 255 + 0.5).astype(np.uint8)


def _texture(num, x, y, rng):
    """Sum of three plane waves of random direction, wavelength, phase, colour: (num, S, S, 3)."""
    angle, phase = rng.uniform(0, 2 * np.pi, (2, num, 3, 1, 1))
    frequency = rng.uniform(1.5, 9, (num, 3, 1, 1))
    colour = rng.uniform(-0.09, 0.09, (num, 3, 3))
    waves = np.sin(frequency * (np.cos(angle) * x + np.sin(angle) * y) + phase)
    return np.einsum("bkij,bkc->bijc", waves, colour)


def _shapes(shapes, base, x, y, rng):
    """Distance (B, S, S) from outlines placed at random, colours (B, 3) lighter than `base`."""
    num = len(shapes)
    centre_x, centre_y = rng.uniform(-0.35, 0.35, (2, num, 1, 1))
    scale = rng.uniform(0.5, 0.85, (num, 1, 1))
    stretch = rng.uniform(0.8, 1.25, (num, 1, 1))
    # Small angles, so that a few hundred images suffice to learn something.
    angle = rng.uniform(-np.pi / 6, np.pi / 6, (num, 1, 1))
    contrast = rng.uniform(0.4, 0.8, (num, 1))
    direction = np.abs(rng.standard_normal((num, 3)))
    colour = base + contrast * direction / np.linalg.norm(direction, axis=1, keepdims=True)

    u = (np.cos(angle) * (x - centre_x) + np.sin(angle) * (y - centre_y)) / (scale * stretch)
    v = (np.cos(angle) * (y - centre_y) - np.sin(angle) * (x - centre_x)) / (scale / stretch)
    distance = np.empty_like(u)
    for index, level in enumerate(SHAPES.values()):
        chosen = shapes == index
        distance[chosen] = level(u[chosen], v[chosen])
    return distance * scale, np.clip(colour, 0, 1)


def _cover(canvas, distance, colour):
    """Blend colour (B, 3) into canvas (B, S, S, 3) where distance (B, S, S) < 0, over one pixel."""
    pixel = 2 / canvas.shape[1]
    opacity = np.clip(0.5 - distance / pixel, 0, 1)[..., None]
    return canvas + opacity * (colour[:, None, None, :] - canvas)


def _star(u, v):
    # All ten edges are mirror images of the edge from the tip at angle 0 to the notch at pi / 5.
    sector = 2 * np.pi / 5
    angle = np.abs(np.mod(np.arctan2(v, u) + sector / 2, sector) - sector / 2)
    radius = np.hypot(u, v)
    tip, notch = np.array([1.05, 0.0]), 0.45 * np.array([np.cos(sector / 2), np.sin(sector / 2)])
    normal = np.array([notch[1] - tip[1], tip[0] - notch[0]])
    normal /= np.linalg.norm(normal)
    along, across = radius * np.cos(angle) - tip[0], radius * np.sin(angle) - tip[1]
    return normal[0] * along + normal[1] * across


# Negative inside the shape, positive outside, close to the distance from the outline near it; radii
# are about one.
SHAPES = {
    "disc": lambda u, v: np.hypot(u, v) - 0.85,
    "square": lambda u, v: np.maximum(abs(u), abs(v)) - 0.75,
    "triangle": lambda u, v: np.maximum(-v, np.sqrt(3) / 2 * abs(u) + v / 2) - 0.55,
    "ring": lambda u, v: abs(np.hypot(u, v) - 0.7) - 0.22,
    "cross": lambda u, v: np.maximum(
        np.maximum(abs(u), abs(v)) - 0.95, np.minimum(abs(u), abs(v)) - 0.28
    ),
    "star": _star,
    "crescent": lambda u, v: np.maximum(np.hypot(u, v) - 0.9, 0.7 - np.hypot(u - 0.45, v)),
    "bars": lambda u, v: np.maximum(np.minimum(abs(v), abs(abs(v) - 0.62)) - 0.18, abs(u) - 0.85),
    "half-disc": lambda u, v: np.maximum(np.hypot(u, v + 0.4) - 1, -(v + 0.4)),
    "hourglass": lambda u, v: np.maximum((abs(u) - abs(v)) / np.sqrt(2) - 0.08, abs(v) - 0.85),
}
SHAPE_NAMES = tuple(SHAPES)
