"""`shapes`: ten shapes in colour on textured backgrounds, drawn by formula, in any number and size.

Images are drawn in blocks of fixed length, each from a random stream of its own, so that the first n images do not
depend on how many are asked for, and training and test images never share a stream. All coordinates are in units
of half the image, so that the same scene is drawn at every size; only the pixel noise differs.
"""

import numpy as np

MIN_IMAGE_SIZE = 8

_BLOCK = 500
_STREAMS = {"train": 0, "test": 1}
_NUM_GRATINGS = 3
_NUM_BLOBS = 2
_MAX_TILT = np.pi / 6  # of a shape, either way: a few hundred images then suffice to learn something


def make_shapes(n, *, image_size, split, seed, classes):
    """Images (n, image_size, image_size, 3) uint8 and their labels (n,) int64.

    split: "train" or "test", which draw from separate random streams. classes: indices into `SHAPE_NAMES`; label k is
    the k-th of them. Every run of len(classes) labels that starts at a multiple of len(classes) within a block of
    500 // len(classes) such runs holds each class once. Raises ValueError for an image_size below 8.
    """
    if image_size < MIN_IMAGE_SIZE:
        raise ValueError(f"image_size is {image_size}; shapes need at least {MIN_IMAGE_SIZE} pixels a side")
    images = np.empty((n, image_size, image_size, 3), dtype=np.uint8)
    labels = np.empty(n, dtype=np.int64)
    length = _BLOCK // len(classes) * len(classes)
    for block, start in enumerate(range(0, n, length)):
        rng = np.random.default_rng([seed, _STREAMS[split], block])
        block_labels = rng.permuted(np.tile(np.arange(len(classes)), (length // len(classes), 1)), axis=1).ravel()
        block_images = _draw(np.asarray(classes)[block_labels], image_size, rng)
        kept = min(length, n - start)
        images[start : start + kept], labels[start : start + kept] = block_images[:kept], block_labels[:kept]
    return images, labels


def _draw(shapes, image_size, rng):
    """Scenes of the given shape indices (B,): background, shape, blobs over both, then noise; (B, S, S, 3) uint8."""
    centres = (np.arange(image_size) + 0.5) * 2 / image_size - 1
    x, y = np.meshgrid(centres, centres)
    base = rng.uniform(0.1, 0.6, (len(shapes), 3))
    canvas = base[:, None, None, :] + _texture(len(shapes), x, y, rng)
    canvas = _paint_shapes(canvas, base, shapes, x, y, rng)
    canvas = _paint_blobs(canvas, x, y, rng)
    noise = rng.uniform(0.02, 0.08, (len(shapes), 1, 1, 1))
    canvas += noise * rng.standard_normal(canvas.shape)
    return np.floor(np.clip(canvas, 0, 1) * 255 + 0.5).astype(np.uint8)


def _texture(num, x, y, rng):
    """Sum of plane waves of random direction, wavelength, phase and colour, (num, S, S, 3)."""
    angle, phase = rng.uniform(0, 2 * np.pi, (2, num, _NUM_GRATINGS, 1, 1))
    frequency = rng.uniform(1.5, 9, (num, _NUM_GRATINGS, 1, 1))
    colour = rng.uniform(-0.09, 0.09, (num, _NUM_GRATINGS, 3))
    waves = np.sin(frequency * (np.cos(angle) * x + np.sin(angle) * y) + phase)
    return np.einsum("bkij,bkc->bijc", waves, colour)


def _paint_shapes(canvas, base, shapes, x, y, rng):
    """Cover each canvas with its shape, lighter than the base colour, at a random place, scale, stretch and angle."""
    num = len(shapes)
    centre_x, centre_y = rng.uniform(-0.35, 0.35, (2, num, 1, 1))
    scale = rng.uniform(0.5, 0.85, (num, 1, 1))
    stretch = rng.uniform(0.8, 1.25, (num, 1, 1))
    angle = rng.uniform(-_MAX_TILT, _MAX_TILT, (num, 1, 1))
    contrast = rng.uniform(0.4, 0.8, (num, 1))
    direction = np.abs(rng.standard_normal((num, 3)))
    colour = base + contrast * direction / np.linalg.norm(direction, axis=1, keepdims=True)

    u = (np.cos(angle) * (x - centre_x) + np.sin(angle) * (y - centre_y)) / (scale * stretch)
    v = (np.cos(angle) * (y - centre_y) - np.sin(angle) * (x - centre_x)) / (scale / stretch)
    distance = np.empty_like(u)
    for index, level in enumerate(SHAPES.values()):
        chosen = shapes == index
        distance[chosen] = level(u[chosen], v[chosen])
    return _cover(canvas, distance * scale, np.clip(colour, 0, 1))


def _paint_blobs(canvas, x, y, rng):
    """Small discs of random colour over everything, as many as chance shows (each with probability 1/2)."""
    for _ in range(_NUM_BLOBS):
        centre_x, centre_y = rng.uniform(-1, 1, (2, len(canvas), 1, 1))
        radius = rng.uniform(0.08, 0.24, (len(canvas), 1, 1))
        shown = rng.random((len(canvas), 1, 1)) < 0.5
        colour = rng.uniform(0, 1, (len(canvas), 3))
        distance = np.hypot(x - centre_x, y - centre_y) - np.where(shown, radius, -1)
        canvas = _cover(canvas, distance, colour)
    return canvas


def _cover(canvas, distance, colour):
    """Blend colour (B, 3) into canvas (B, S, S, 3) where distance (B, S, S) is negative, over one pixel's width."""
    pixel = 2 / canvas.shape[1]
    opacity = np.clip(0.5 - distance / pixel, 0, 1)[..., None]
    return canvas + opacity * (colour[:, None, None, :] - canvas)


def _star(u, v):
    # All ten edges are mirror images of the one from the tip at angle 0 to the notch at angle pi / 5.
    sector = 2 * np.pi / 5
    angle = np.abs(np.mod(np.arctan2(v, u) + sector / 2, sector) - sector / 2)
    radius = np.hypot(u, v)
    tip, notch = np.array([1.05, 0.0]), 0.45 * np.array([np.cos(sector / 2), np.sin(sector / 2)])
    normal = np.array([notch[1] - tip[1], tip[0] - notch[0]])
    normal /= np.linalg.norm(normal)
    return normal[0] * (radius * np.cos(angle) - tip[0]) + normal[1] * (radius * np.sin(angle) - tip[1])


# Negative inside the shape, positive outside, close to the distance from the outline near it; radii are about one.
SHAPES = {
    "disc": lambda u, v: np.hypot(u, v) - 0.85,
    "square": lambda u, v: np.maximum(np.abs(u), np.abs(v)) - 0.75,
    "triangle": lambda u, v: np.maximum(-v, np.sqrt(3) / 2 * np.abs(u) + v / 2) - 0.55,
    "ring": lambda u, v: np.abs(np.hypot(u, v) - 0.7) - 0.22,
    "cross": lambda u, v: np.maximum(np.maximum(np.abs(u), np.abs(v)) - 0.95, np.minimum(np.abs(u), np.abs(v)) - 0.28),
    "star": _star,
    "crescent": lambda u, v: np.maximum(np.hypot(u, v) - 0.9, 0.7 - np.hypot(u - 0.45, v)),
    "bars": lambda u, v: np.maximum(np.minimum(np.abs(v), np.abs(np.abs(v) - 0.62)) - 0.18, np.abs(u) - 0.85),
    "half-disc": lambda u, v: np.maximum(np.hypot(u, v + 0.4) - 1, -(v + 0.4)),
    "hourglass": lambda u, v: np.maximum((np.abs(u) - np.abs(v)) / np.sqrt(2) - 0.08, np.abs(v) - 0.85),
}
SHAPE_NAMES = tuple(SHAPES)
