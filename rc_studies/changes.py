"""Pictures of the regions of a triangle under each change of training in study 4.

`python -m rc_studies.changes` retrains the networks with seed 0, an hour on one core, and writes
campaigns/study-axes/triangles.json: the regions of every network on the same triangles.
"""

import argparse
import json

import numpy as np
from matplotlib.path import Path
from tqdm import tqdm

from rc_studies.explorer import data_url
from rc_studies.studies import SIDE
from rc_utils.counting import outlines, predict_labels, region_count, triangle_regions
from rc_utils.counting.sampling import vertex_indices
from rc_utils.paths import campaigns_dir, write_atomically
from rc_utils.sweep.campaign import load_campaign
from rc_utils.sweep.records import find_records
from rc_utils.sweep.run import dataset_of, trained_network
from rc_utils.validation import require

CAMPAIGN = load_campaign("study-axes")
FILE = campaigns_dir() / CAMPAIGN.name / "triangles.json"
POINTS = 1500  # size of the smallest training set, which the others contain
SHOWN, OF_BASE = 6, 20  # triangles drawn for each network, and for each of the two base networks
LEFT_OUT = "crop-flip"  # an experiment that trains four times as long
COUNTED = 200  # triangles of the mean counts of the base networks; the first of them are drawn


def svg_path(loops):
    """Closed paths (n, 2) as one SVG path of whole numbers, without steps below half a unit."""
    parts = []
    for loop in loops:
        path = Path(np.append(loop, loop[:1], axis=0))
        path.simplify_threshold = 0.5
        places = np.round(path.cleaned(simplify=True).vertices[:-1]).astype(int)
        if len(np.unique(places, axis=0)) > 2:
            steps = " ".join(f"{x},{y}" for x, y in np.diff(places, axis=0))
            parts.append(f"M{places[0, 0]},{places[0, 1]}l{steps}z")
    return "".join(parts)


def drawn_regions(network, vertices):
    """Number of regions of a triangle, vertices (1, 3, *shape), and an SVG path for each label."""
    polygons, labels, number = triangle_regions(network, vertices)
    height = SIDE * 0.75**0.5
    corners = np.array([[0, height], [SIDE, height], [SIDE / 2, 0]])
    paths = outlines([polygon @ corners for polygon in polygons], labels)
    return {"regions": number, "paths": {label: svg_path(loops) for label, loops in paths.items()}}


def is_whole(drawn: dict) -> bool:
    """Whether the SVG paths of a triangle cover it; an outline without an edge leaves a hole."""
    covered = 0.0
    for loop in "".join(drawn["paths"].values()).split("M")[1:]:
        places = [place.split(",") for place in loop.rstrip("z").replace("l", " ").split()]
        x, y = np.array(places, dtype=float).cumsum(axis=0).T
        covered += (x @ np.roll(y, -1) - y @ np.roll(x, -1)) / 2
    return abs(covered / (SIDE**2 * 0.75**0.5 / 2) - 1) < 0.02


def main():
    """Train, draw and write the file; raises ValueError if a network differs from its record."""
    plans = [(e.name, p) for e, _, p in CAMPAIGN.entries() if p.spec.train.seed == 0]
    plans = [(experiment, p) for experiment, p in plans if experiment != LEFT_OUT]
    records = find_records({p.spec.run_id: p for _, p in plans})
    data = dataset_of(plans[0][1].spec)
    triangles = vertex_indices(POINTS, num_samples=COUNTED, distinct=3, seed=0)
    images = data.x_train.raw.cpu().numpy()[triangles[:OF_BASE]].transpose(0, 1, 3, 4, 2)
    found = {
        "images": [[data_url(image) for image in corners] for corners in images[:SHOWN]],
        "classes": np.array(data.class_names)[data.y_train[triangles[:SHOWN]]].tolist(),
        "labels": list(data.class_names),
        "networks": {},
    }
    for experiment, planned in tqdm(plans, unit="network"):
        run_id, own = planned.spec.run_id, dataset_of(planned.spec)
        network, points = trained_network(planned), own.x_train[:POINTS]
        recorded = [int(label) for label in records[run_id][0]["predictions"]]
        same = predict_labels(network, own.x_test[: len(recorded)]).tolist() == recorded
        require(same, f"run {run_id}, trained again here, differs from the network on record")
        number = OF_BASE if experiment == "base" else SHOWN
        shown = [drawn_regions(network, points[corners][None]) for corners in triangles[:number]]
        require(all(map(is_whole, shown)), f"a picture of run {run_id} has a hole")
        found["networks"][run_id] = {"triangles": shown}
        if experiment == "base":
            count = region_count(network, points, dim=2, num_samples=COUNTED, strategy="adaptive")
            found["networks"][run_id]["counts"] = count.counts.tolist()
        tqdm.write(f"{experiment} {planned.spec.train.lr} {[one['regions'] for one in shown]}")
    write_atomically(FILE, json.dumps(found, separators=(",", ":")).encode())


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()  # takes none
    main()
