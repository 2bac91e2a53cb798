"""Decision rules of the second round (`book/protocol.md`): studies 6 and 7.

`python -m rc_studies.second_round` writes campaigns/twins-*/disagreement.csv from CIFAR-10.
"""

import base64

import numpy as np
import pandas as pd

from rc_studies.studies import COUNT, RIVALS, decision, study_runs
from rc_utils.correlation import correlate, partial_correlation, with_logs
from rc_utils.paths import campaigns_dir, data_dir, write_atomically
from rc_utils.sweep.campaign import load_campaign
from rc_utils.sweep.records import find_count
from rc_utils.validation import require

# The bar of r, and the margin of equivalence; 120 twins cannot reach a margin of 0.1.
BARS = {"twins": 0.2, "gap": 0.7}
MARGINS = {"twins": 0.2, "gap": 0.1}
TEST_IMAGES, UNUSED_IMAGES = 10_000, 47_000  # images on which the accuracy of twins is measured
CAMPAIGNS = {"twins": ("twins-resnet18", "twins-vgg19"), "gap": ("gap-resnet18", "gap-vgg19")}
RIVAL = "mixup_accuracy"
DISAGREEMENT = "disagreement.csv"  # in the folder of a campaign: run_id, disagreement


def outcome(group, networks):
    """Deciding numbers of study 6 ("twins") or 7 ("gap"), one row per network, and the decision.

    networks: the `Study` of each. Columns: network, runs, r (an `Estimate`), "against mixup"
    (decision on equivalence with mixup accuracy); for twins also the `reliabilities` and r over the
    root of their product; at the paper's gap r given log lr and log batch size. Raises ValueError
    if a study is not complete.
    """
    rows = []
    for study in networks:
        study.require_complete()
        runs = deciding_runs(group, study)
        row = {"network": runs["network"].iloc[0], "runs": len(runs)}
        count, rival, gap = (runs[column].to_numpy(float) for column in (COUNT, RIVAL, "gap"))
        row["r"] = correlate(count, gap, unit="runs")
        if group == "twins":
            shares = reliabilities(study, runs)
            row["reliability of log count"], row["of accuracy"] = shares
            row["r without noise"] = row["r"].value / np.prod(shares) ** 0.5
        else:
            given = partial_correlation(with_logs(runs), COUNT, "gap", "log2_lr + log2_batch")
            row["r given the settings"] = given
        difference = difference_of_correlations(count, rival, gap)
        row["against mixup"] = decide_equivalence(difference, MARGINS[group])
        rows.append(row)
    estimates = [(row["r"].value, row["r"].low, row["r"].high) for row in rows]
    return pd.DataFrame(rows), decide(estimates, BARS[group])


def deciding_runs(group, study):
    """The interpolating runs of a study, with the rivals named as in the first round.

    The gap of twins is the training accuracy minus the accuracy on 57,000 images: the test images
    of CIFAR-10 and the training images that a run did not use. Twins also have the `disagreement`
    from its committed table.
    """
    runs = study.runs[study.runs["interpolates"].astype(bool)]
    if group == "twins":
        correct = TEST_IMAGES * runs["test_accuracy"] + UNUSED_IMAGES * runs["unused_accuracy"]
        runs = runs.assign(gap=runs["train_accuracy"] - correct / (TEST_IMAGES + UNUSED_IMAGES))
        table = pd.read_csv(campaigns_dir() / study.name / DISAGREEMENT)
        runs = runs.merge(table, on="run_id", how="left")
    suffixes = ("_own", "_test")
    return runs.rename(columns={f"{name}{suffix}": name for name in RIVALS for suffix in suffixes})


def reliabilities(study, runs):
    """`reliability_of_log_count` and `reliability_of_accuracy` of twins, from their records."""
    records = [study.records[run_id] for run_id in runs["run_id"]]
    settings = load_campaign(study.name).counts["main"]
    counts = [find_count(record["counts"], settings)["counts"] for record in records]
    correct = [unpacked(record["per_image"]["test"], TEST_IMAGES) for record in records]
    of_accuracy = reliability_of_accuracy(correct, TEST_IMAGES + UNUSED_IMAGES)
    return reliability_of_log_count(counts), of_accuracy


def decide(estimates, bar):
    """Supports: the intervals of two or more networks lie above the bar; refutes: all lie below.

    estimates: (value, low, high) of each network.
    """
    several = len(estimates) > 1
    supports = several and all(low > bar for _, low, _ in estimates)
    return decision(supports, several and all(high < bar for _, _, high in estimates))


def difference_of_correlations(count, rival, gap, resamples=10_000, rng=None):
    """|r of the count with the gap| - |r of a rival with the gap|: (value, low, high).

    Each array (runs,) is of one network. Interval: paired bootstrap with the sample's signs of r.
    """
    rng = np.random.default_rng(0) if rng is None else rng
    values = np.stack([gap, count, rival])
    index = rng.integers(0, len(gap), (resamples, len(gap)))
    drawn = values[:, index]
    centred = drawn - drawn.mean(axis=2, keepdims=True)
    spread = np.sqrt((centred**2).sum(axis=2))
    with_gap = (centred[1:] * centred[0]).sum(axis=2) / (spread[1:] * spread[0])
    r = np.corrcoef(values)[0, 1:]
    lead = np.sign(r) * [1, -1]
    low, high = np.quantile(lead @ with_gap, [0.025, 0.975])
    return float(lead @ r), float(low), float(high)


def decide_equivalence(difference, margin):
    """Equivalent: interval of the difference within `margin` of 0; ahead: on one side of 0."""
    _, low, high = difference
    if -margin < low and high < margin:
        return "equivalent"
    if low > 0:
        return "count ahead"
    return "mixup ahead" if high < 0 else "open"


def reliability_of_log_count(counts):
    """Share of the variance of log(mean count) between runs that is not sampling noise.

    counts: (runs, segments). The noise variance of a run's logarithm is (standard error / mean)².
    """
    counts = np.asarray(counts, float)
    means = counts.mean(axis=1)
    noise = counts.var(axis=1, ddof=1) / counts.shape[1] / means**2
    return float(1 - noise.mean() / np.log(means).var(ddof=1))


def reliability_of_accuracy(correct, images):
    """Share of the variance of accuracy between runs that is not sampling noise of the images.

    correct: (runs, test images) of 0 and 1, the same images for every run. The noise variance is
    the residual variance of a two-way layout (so how hard an image is for all runs is not noise),
    divided by the number of `images` that the accuracy is a mean of.
    """
    correct = np.asarray(correct, float)
    runs, number = correct.shape
    of_run, of_image = correct.mean(axis=1, keepdims=True), correct.mean(axis=0, keepdims=True)
    residual = correct - of_run - of_image + correct.mean()
    variance = (residual**2).sum() / ((runs - 1) * (number - 1))
    between = correct.mean(axis=1).var(ddof=1) - variance / number
    return float(between / (between + variance / images))


def unpacked(text, number):
    """The first `number` bits of a `per_image` field of a record, as an array of booleans."""
    return np.unpackbits(np.frombuffer(base64.b64decode(text), np.uint8))[:number].astype(bool)


def disagreement(predictions, images, number):
    """Mean share of images on which a network and another one disagree, for each network: (runs,).

    Two networks are compared on the images that both predict: the first 2,000 test images of a run
    depend on its seed. predictions: (runs, k) labels. images: (runs, k), index in the stored
    dataset of `number` images. Raises ValueError if two networks have no image in common.
    """
    label_of = np.full((len(predictions), number), -1)
    np.put_along_axis(label_of, np.asarray(images), np.asarray(predictions), axis=1)
    shares = []
    for run, own in enumerate(label_of):
        others = np.delete(label_of, run, axis=0)
        both = (own >= 0) & (others >= 0)
        in_common = both.any(axis=1).all()
        require(in_common, f"run {run} and another run predict no image in common")
        shares.append(np.mean((both & (others != own)).sum(axis=1) / both.sum(axis=1)))
    return np.array(shares)


def order_of_test_images(arrays, spec):
    """Indices in the stored dataset of a run's test images, in the order of its predictions."""
    from rc_utils.datasets.load import choose  # with torch, which a page of records does not need

    labels = {split: arrays[f"y_{split}"] for split in ("train", "test")}
    places = arrays | {f"x_{split}": np.arange(len(y)) for split, y in labels.items()}
    sizes = {key: spec["dataset"][key] for key in ("n_train", "n_test", "seed")}
    return choose(places, **sizes, classes=None)["x_test"]


def main():
    """Write the disagreement tables of both campaigns of twins; needs CIFAR-10."""
    from rc_utils.datasets.load import stored

    arrays = stored("cifar10", data_dir())
    for name in CAMPAIGNS["twins"]:
        records, labels, images = study_runs(name).records, [], []
        for record in records.values():
            labels.append([int(label) for label in record["predictions"]])
            images.append(order_of_test_images(arrays, record["spec"])[: len(labels[-1])])
        found = disagreement(labels, images, len(arrays["y_test"]))
        table = pd.DataFrame({"run_id": list(records), "disagreement": found.round(6)})
        path = campaigns_dir() / name / DISAGREEMENT
        write_atomically(path, table.to_csv(index=False).encode())


if __name__ == "__main__":
    main()
