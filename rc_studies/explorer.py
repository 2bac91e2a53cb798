"""The explorer: regions of a few triangles over the epochs of two trainings, in a browser.

`explorer_html` writes what it shows; `book/_static/explorer.js` draws it. Everything is inside the
page, so that it works offline and from a file.
"""

import base64
import io
import json
from collections.abc import Mapping

import matplotlib.image
import numpy as np

from rc_utils.counting.sampling import draw_distinct
from rc_utils.datasets import Dataset
from rc_utils.plotting import class_colours
from rc_utils.validation import check_count, require


def draw_triangles(data: Dataset, number: int, seed: int = 0) -> np.ndarray:
    """Triangles (number, 3): indices of three distinct training images each, drawn uniformly."""
    check_count("the number of triangles", number, 1)
    return draw_distinct(np.random.default_rng(seed), len(data.x_train), number, 3)


def explorer_html(
    grids: Mapping, counts: Mapping, data: Dataset, triangles: np.ndarray, notes: Mapping
) -> str:
    """The explorer as an HTML element that contains its data.

    grids: {run: {epoch: labels (B, R, R)}}, by `label_grid`, of the `triangles`, indices (B, 3) of
    training images; every run has the same epochs and R. counts: {run: (B, epochs)}, the number
    shown beside each picture. notes: {run: {epoch: text}}, a sentence below each picture.
    """
    pictures = data.x_train.raw.cpu().numpy()[triangles].transpose(0, 1, 3, 4, 2)
    labels = data.y_train.cpu().numpy()[triangles]
    by_epoch, colours = next(iter(grids.values())), class_colours(np.arange(data.num_classes))
    shown = {
        "resolution": next(iter(by_epoch.values())).shape[1],
        "epochs": list(by_epoch),
        "classes": [{"name": str(n), "colour": colours[k]} for k, n in enumerate(data.class_names)],
        "triangles": [
            {"images": [data_url(picture) for picture in corners], "classes": classes.tolist()}
            for corners, classes in zip(pictures, labels, strict=True)
        ],
        "runs": [_run_data(run, grids[run], counts[run], notes[run]) for run in grids],
    }
    text = json.dumps(shown, separators=(",", ":")).replace("</", "<\\/")
    return (
        '<div class="rc-explorer" role="group" aria-label="Explorer of decision regions">\n'
        '<p class="rc-explorer-off">A script draws the pictures; it needs the built book and '
        f'JavaScript.</p>\n<script type="application/json">{text}</script>\n</div>'
    )


def _run_data(run, by_epoch, counts, notes):
    flat = [grid[:, grid[0] >= 0] for grid in by_epoch.values()]
    labels = np.stack(flat, axis=1)  # (B, epochs, points of the lattice)
    require(labels.max() < 256, f"labels reach {labels.max()}; the explorer has a byte per label")
    return {
        "name": run,
        "counts": np.asarray(counts).tolist(),
        "notes": [notes.get(epoch, "") for epoch in by_epoch],
        "labels": base64.b64encode(labels.astype(np.uint8).tobytes()).decode(),
    }


def data_url(picture):
    """Data URL of a picture (H, W, 1 or 3) uint8, as PNG."""
    buffer = io.BytesIO()
    picture = np.broadcast_to(picture, (*picture.shape[:2], 3))
    matplotlib.image.imsave(buffer, np.ascontiguousarray(picture), format="png")
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"
