"""Decision rules of the second round (`book/protocol.md`): twins, and settings at the paper's gap.

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

# The bar of r, and the margin of equivalence, of which 0.1 is out of reach of 120 twins.
BARS = {"twins": 0.2, "gap": 0.7}
MARGINS = {"twins": 0.2, "gap": 0.1}
TEST_IMAGES, UNUSED_IMAGES = 10_000, 47_000  # on which the accuracy of twins is measured
CAMPAIGNS = {"twins": ("twins-resnet18", "twins-vgg19"), "gap": ("gap-resnet18", "gap-vgg19")}
RIVAL = "mixup_accuracy"
DISAGREEMENT = "disagreement.csv"  # in the folder of twins: run_id, disagreement


def outcome(group, networks):
    """Deciding numbers of study 6 ("twins") or 7 ("gap"), one row per network, and the decision.

    networks: the complete `Study` of each. Columns: network, runs, r (an `Estimate`) and against
    mixup, the decision on equivalence with mixup accuracy; for twins also the `reliabilities` of
    log count and accuracy, and r without noise, over the root of both; at the paper's gap r given
    log lr and log batch size, both linear.
    """
    rows = []
    for study in networks:
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
    """The runs of a study that interpolate, with the names that rivals have in the first round.

    The gap of twins is that to the accuracy on 57,000 images: the test images of CIFAR-10, and
    those of its training images that a run did not use. Beside it the `disagreement` of twins, from
    its committed table.
    """
    runs = study.runs[study.runs["interpolates"].astype(bool)]
    if group == "twins":
        right = TEST_IMAGES * runs["test_accuracy"] + UNUSED_IMAGES * runs["unused_accuracy"]
        runs = runs.assign(gap=runs["train_accuracy"] - right / (TEST_IMAGES + UNUSED_IMAGES))
        table = pd.read_csv(campaigns_dir() / study.name / DISAGREEMENT)
        runs = runs.merge(table, on="run_id", how="left")
    ends = ("_own", "_test")
    return runs.rename(columns={f"{name}{end}": name for name in RIVALS for end in ends})


def reliabilities(study, runs):
    """Shares of the variances between twins, of log count and of accuracy, that are not noise."""
    records = [study.records[run_id] for run_id in runs["run_id"]]
    settings = load_campaign(study.name).counts["main"]
    counts = [find_count(record["counts"], settings)["counts"] for record in records]
    right = [unpacked(record["per_image"]["test"], TEST_IMAGES) for record in records]
    of_accuracy = reliability_of_accuracy(right, TEST_IMAGES + UNUSED_IMAGES)
    return reliability_of_log_count(counts), of_accuracy


def decide(estimates, bar):
    """Supports: all of two or more intervals lie above the bar; refutes: all below; else neither.

    estimates: (value, low, high) of each network.
    """
    _, lower, upper = zip(*estimates, strict=True)
    return decision(len(lower) > 1 and min(lower) > bar, len(upper) > 1 and max(upper) < bar)


def difference_of_correlations(count, rival, gap, resamples=10_000, rng=None):
    """(value, low, high) of |r of the count| - |r of a rival|, both with the gap.

    Each array (runs,) is of one network. The interval: a paired bootstrap with the sample's signs.
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
    """Equivalent: the interval of the difference lies within `margin` of 0; else who is ahead."""
    _, low, high = difference
    if -margin < low and high < margin:
        return "equivalent"
    if low > 0:
        return "count ahead"
    return "mixup ahead" if high < 0 else "open"


def reliability_of_log_count(counts):
    """Share of the variance of log(mean count) between runs that is not noise of its segments.

    counts: (runs, segments). The noise of a run's logarithm is (standard error / mean)².
    """
    counts = np.asarray(counts, float)
    means = counts.mean(axis=1)
    noise = counts.var(axis=1, ddof=1) / counts.shape[1] / means**2
    return float(1 - noise.mean() / np.log(means).var(ddof=1))


def reliability_of_accuracy(right, images):
    """Share of the variance of accuracy between runs that is not noise of the images it is from.

    right: (runs, test images) of 0 and 1, the same images for every run. The noise is the residual
    variance of the two-way layout of runs and images (how hard an image is for all runs is no
    noise), over the `images` that the accuracy is a mean of.
    """
    right = np.asarray(right, float)
    runs, number = right.shape
    of_run, of_image = (right.mean(axis=axis, keepdims=True) for axis in (1, 0))
    residual = right - of_run - of_image + right.mean()
    variance = (residual**2).sum() / ((runs - 1) * (number - 1))
    between = right.mean(axis=1).var(ddof=1) - variance / number
    return float(between / (between + variance / images))


def unpacked(text, number):
    """The first `number` bits of a `per_image` field of a record, as an array of booleans."""
    return np.unpackbits(np.frombuffer(base64.b64decode(text), np.uint8))[:number].astype(bool)


def disagreement(predictions, images, number):
    """Mean share of images on which a network and each other one predict other classes: (runs,).

    Two networks are compared on the images that both have a prediction of: where each seed draws
    its data, the first 2,000 test images of two runs are not the same. predictions: (runs, k)
    labels. images: (runs, k) which image of the stored dataset each is of, from 0 to number - 1.
    Raises ValueError where two networks have no image in common.
    """
    label_of = np.full((len(predictions), number), -1)
    np.put_along_axis(label_of, np.asarray(images), np.asarray(predictions), axis=1)
    shares = []
    for run, own in enumerate(label_of):
        others = np.delete(label_of, run, axis=0)
        both = (own >= 0) & (others >= 0)
        in_common = both.any(axis=1).all()
        require(in_common, f"run {run} and another one predict no image in common")
        shares.append(np.mean((both & (others != own)).sum(axis=1) / both.sum(axis=1)))
    return np.array(shares)


def order_of_test_images(arrays, spec):
    """Order in which a run sees the test images of a stored dataset; it predicts the first ones."""
    from rc_utils.datasets.load import choose  # with torch, which a page of records does not need

    labels = {split: arrays[f"y_{split}"] for split in ("train", "test")}
    places = arrays | {f"x_{split}": np.arange(len(y)) for split, y in labels.items()}
    sizes = {key: spec["dataset"][key] for key in ("n_train", "n_test", "seed")}
    return choose(places, **sizes, classes=None)["x_test"]


def main():
    """Write the tables of disagreement of both campaigns of twins; needs CIFAR-10."""
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
