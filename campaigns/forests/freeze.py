"""Fit and freeze the trees and forests of page 03: `python campaigns/forests/freeze.py`."""

import importlib.metadata
import json

from rc_exact import forests
from rc_utils import load_dataset
from rc_utils.paths import write_atomically

DATASET, NUM_SAMPLES = {"name": "cifar10", "n_train": 3000}, 200

if __name__ == "__main__":
    settings = forests.forest_settings(DATASET, NUM_SAMPLES)
    settings["scikit-learn"] = importlib.metadata.version("scikit-learn")
    found = {"settings": settings, "data": load_dataset(**DATASET).provenance}
    found["rows"] = list(forests.fit_grid(DATASET, NUM_SAMPLES, progress=True))
    write_atomically(forests.committed(DATASET), json.dumps(found, indent=1).encode() + b"\n")
