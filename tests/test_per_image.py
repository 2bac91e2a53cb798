"""Which images of a stored dataset a run gets right, as its record keeps it."""

import base64

import numpy as np
import pytest

import rc_utils as rc
from rc_utils.sweep import parse_campaign, sweep, trained_network
from rc_utils.sweep.records import live_record, load_runs
from rc_utils.sweep.run import dataset_of, make_record

CAMPAIGN = {
    "title": "Images one by one",
    "dataset": {"name": "striped", "n_train": 24, "n_test": 10, "image_size": 8},
    "train": {"epochs": 4, "batch_size": 8},
    "networks": {"ResNet18": {"width": 4}},
    "counts": {"main": {"num_samples": 5, "resolution": 20}},
}
EXPERIMENT = {"name": "main", "networks": ["ResNet18"], "seeds": [3], "own_draw": True}
EXPERIMENT |= {"per_image": True, "measures": ["mixup_curve_intra"]}
CAMPAIGN["experiments"] = [EXPERIMENT]


@pytest.fixture
def striped(tmp_path, monkeypatch):
    """A stored dataset of two classes, each with images of its own brightness and noise."""
    rng = np.random.default_rng(0)
    arrays = {}
    for split, number in (("train", 60), ("test", 31)):
        labels = rng.integers(0, 2, number)
        images = labels[:, None, None] * 60 + rng.integers(0, 190, (number, 8, 8))
        arrays[f"x_{split}"] = images.astype(np.uint8)
        arrays[f"y_{split}"] = labels
    np.savez(tmp_path / "striped.npz", **arrays)
    monkeypatch.setenv("RC_DATA", str(tmp_path))
    return arrays


def test_a_record_says_which_images_of_the_stored_dataset_are_right(striped):
    campaign = parse_campaign(CAMPAIGN, "one-by-one")
    (outcome,) = sweep(campaign)
    assert outcome.status == "done", outcome.text
    (planned,) = campaign.runs().values()
    record = live_record(planned.spec.run_id)
    network, data = trained_network(planned), dataset_of(planned.spec)
    for name, split in (("test", "test"), ("pool", "train")):
        images = striped[f"x_{split}"][:, None].astype(np.float32)
        standardised = (images - float(data.x_train.mean)) / float(data.x_train.std)
        expected = rc.predict_labels(network, standardised) == striped[f"y_{split}"]
        bits = np.unpackbits(np.frombuffer(base64.b64decode(record["per_image"][name]), np.uint8))
        assert bits[: len(expected)].astype(bool).tolist() == expected.tolist()
    trained_on = {image.tobytes() for image in data.x_train.raw.numpy()}
    unused = [image.tobytes() not in trained_on for image in striped["x_train"]]
    assert sum(unused) == 60 - 24
    (row,) = load_runs(campaign).to_dict("records")
    pool = np.unpackbits(np.frombuffer(base64.b64decode(record["per_image"]["pool"]), np.uint8))
    assert row["unused_accuracy"] == pytest.approx(pool[:60][np.array(unused)].mean())
    curve = [row[f"mixup_curve_intra_{i}"] for i in range(6)]
    assert curve == record["measures"]["mixup_curve_intra"]


def test_the_split_of_digits_is_that_of_the_run():
    dataset, networks = {"name": "digits"}, {"MLP": {}}
    experiment = EXPERIMENT | {"networks": ["MLP"], "measures": []}
    experiment |= {"train": {"lr": 0.01}}  # so that it learns more than one label
    changes = {"dataset": dataset, "networks": networks, "experiments": [experiment]}
    (planned,) = parse_campaign(CAMPAIGN | changes, "t").runs().values()
    record, _ = make_record(planned)
    packed = np.frombuffer(base64.b64decode(record["per_image"]["test"]), np.uint8)
    assert np.unpackbits(packed)[:360].mean() == record["results"]["test_accuracy"]
