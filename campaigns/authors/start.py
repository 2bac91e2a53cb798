"""Rebuild the authors' counts before training: `python campaigns/authors/start.py`.

In the authors' code (`main.py`, `train_and_test.py` of lijingwei0502/implicit_bias) one seed fixes
the initial weights and the 100 segments, so the count at epoch 0 can be rebuilt without training.
It needs CIFAR-10 in its original order: in another, segments join other images, and counts agree
within the error of 100 segments at best.

Six of the nine networks begin with the weights of theirs: SENet18 and EfficientNetB0 draw layers
in another order, their MobileNet is version 1. Networks that predict one label tell nothing.
"""

import argparse
import itertools
import pathlib

import numpy as np
import pandas as pd
import torch
from tqdm import tqdm

import rc_utils as rc
from rc_utils.paths import campaigns_dir, data_dir
from rc_utils.published import NETWORKS

MEAN = torch.tensor([0.4914, 0.4822, 0.4465]).view(3, 1, 1)
STD = torch.tensor([0.2023, 0.1994, 0.2010]).view(3, 1, 1)
NUM_POINTS = 200
FIRST_LABELS = [6, 9, 9, 4, 1, 1, 2, 7, 8, 3]
"""Labels of the first ten training images in the original order."""


def drawn_pairs(number: int, seed: int, num_segments: int = 100) -> np.ndarray:
    """Indices (num_segments, 2) of the images that their code joins, out of `number` images."""
    generator = np.random.RandomState(seed)
    return np.stack([generator.choice(number, 2, replace=False) for _ in range(num_segments)])


@torch.inference_mode()
def count_on_segment(network: torch.nn.Module, ends: torch.Tensor, step: int) -> int:
    """Number of regions on 200 points between two standardised images, ends (2, 3, 32, 32).

    The network labels every `step`-th point, then all points between two that differ; with step 1
    every point, as in their code.
    """
    share = torch.linspace(0, 1, NUM_POINTS, dtype=torch.float64).view(-1, 1, 1, 1)
    points = ((1 - share) * ends[0] + share * ends[1]).float()
    places = sorted({*range(0, NUM_POINTS, step), NUM_POINTS - 1})
    labels = network(points[places]).argmax(1).tolist()
    count = 1
    for (place, label), (after, next_label) in itertools.pairwise(zip(places, labels, strict=True)):
        if label != next_label:
            between = points[place + 1 : after]
            inner = network(between).argmax(1).tolist() if len(between) else []
            run = [label, *inner, next_label]
            count += sum(one != other for one, other in itertools.pairwise(run))
    return count


def start_counts(images: np.ndarray, name: str, seed: int, step: int) -> np.ndarray:
    """Counts (100,) of a network before training, between uint8 images (N, 32, 32, 3)."""
    network = rc.build_network(name, num_classes=10, in_channels=3, seed=seed).eval()
    counts = []
    for pair in drawn_pairs(len(images), seed):
        pixels = torch.from_numpy(images[pair]).permute(0, 3, 1, 2).float() / 255
        counts.append(count_on_segment(network, (pixels - MEAN) / STD, step))
    return np.array(counts)


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("networks", nargs="*", default=NETWORKS, help="all nine by default")
    parser.add_argument("--data", type=pathlib.Path, default=data_dir() / "cifar10.npz")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--step", type=int, default=8, help="1 labels every point, as they do")
    options = parser.parse_args()
    data = np.load(options.data)
    original = data["y_train"][:10].tolist() == FIRST_LABELS
    if not original:
        print(f"{options.data} has another order: segments join other images than theirs")
    path = campaigns_dir() / "authors" / "start.csv"
    columns = ["network", "seed", "pairs", "count", "std_error", "original_order"]
    rows = pd.read_csv(path) if path.is_file() else pd.DataFrame(columns=columns)
    starts = list(itertools.product(options.networks, options.seeds, ("train", "test")))
    for name, seed, pairs in tqdm(starts, unit="start"):
        counts = start_counts(data[f"x_{pairs}"], name, seed, options.step)
        error = counts.std(ddof=1) / np.sqrt(len(counts))
        made = [name, seed, pairs, counts.mean(), round(float(error), 4), original]
        tqdm.write(" ".join(map(str, made[:4])))
        rows = pd.concat([rows, pd.DataFrame([made], columns=columns)], ignore_index=True)
        rows = rows.drop_duplicates(columns[:3], keep="last")
        rows.sort_values(columns[:3]).to_csv(path, index=False)


if __name__ == "__main__":
    main()
