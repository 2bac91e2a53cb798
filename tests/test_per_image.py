"""Which images of a stored dataset a run gets right, as its record keeps it."""

import base64

import numpy as np
import pytest

import rc_utils as rc
from rc_utils.sweep import parse_campaign, sweep, trained_network
from rc_utils.sweep.records import live_record, load_runs
from rc_utils.sweep.run import dataset_of

CAMPAIGN = {
    "title": "Digits one by one",
    "dataset": {"name": "digits", "n_train": 200, "n_test": 100},
    "train": {"epochs": 4, "batch_size": 8, "lr": 0.02},
    "networks": {"MLP": {}},
    "counts": {"main": {"num_samples": 5, "resolution": 20}},
    "experiments": [{
        "name": "main", "networks": ["MLP"], "seeds": [3], "own_draw": True, "per_image": True,
        "measures": ["mixup_curve_intra"],
    }],
}  # fmt: skip


def test_a_record_says_which_images_of_the_stored_dataset_are_right():
    campaign = parse_campaign(CAMPAIGN, "one-by-one")
    (outcome,) = sweep(campaign)
    assert outcome.status == "done", outcome.text
    (planned,) = campaign.runs().values()
    record = live_record(planned.spec.run_id)
    network, data = trained_network(planned), dataset_of(planned.spec)
    stored, right = rc.load_dataset("digits", seed=3), {}  # all 360 and 1,437, by the run's seed
    for name, images, labels in (
        ("test", stored.x_test, stored.y_test), ("pool", stored.x_train, stored.y_train),
    ):  # fmt: skip
        raw = images.raw.numpy().astype(np.float32)
        standardised = (raw - float(data.x_train.mean)) / float(data.x_train.std)
        bits = np.unpackbits(np.frombuffer(base64.b64decode(record["per_image"][name]), np.uint8))
        right[name] = bits[: len(labels)].astype(bool)
        expected = rc.predict_labels(network, standardised) == labels.numpy()
        assert right[name].tolist() == expected.tolist()
        assert 0.5 < expected.mean() < 1
    trained_on = {image.tobytes() for image in data.x_train.raw.numpy()}
    unused = np.array([image.tobytes() not in trained_on for image in stored.x_train.raw.numpy()])
    assert sum(unused) == 1437 - 200
    (row,) = load_runs(campaign).to_dict("records")
    assert row["unused_accuracy"] == pytest.approx(right["pool"][unused].mean())
    curve = [row[f"mixup_curve_intra_{i}"] for i in range(6)]
    assert curve == record["measures"]["mixup_curve_intra"]
