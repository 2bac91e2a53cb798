"""Every statement and number of the papers, from published.csv: one row a statement, values in our units.

v1 is the first version of the region-count paper and v3 its third; where both print a table the numbers are the same
unless the table says otherwise. `rc_utils.paper.verdict` holds results of ours against them.
"""

from __future__ import annotations

import pathlib
from functools import cache

import pandas as pd

MAIN_NETWORKS = ("ResNet18", "EfficientNetB0", "SENet18")
ARCHITECTURES_COLUMNS = ("CIFAR-10", "CIFAR-100", "ImageNet", "d=2", "d=3", "d=4", "d=5")
OPTIMIZERS_COLUMNS = ("SGD", "Adam", "Adagrad")
HYPERPLANES_COLUMNS = ("Test", "Train", "Random")


@cache
def statements() -> pd.DataFrame:
    """published.csv as it stands: texts, in the order of the paper, indexed by id.

    Columns: group, statement, quantity, source, kind, side and smallest (what is claimed, see `verdict`), value (as
    printed, or empty), page (the notebook that tests it).
    """
    path = pathlib.Path(__file__).with_name("published.csv")
    return pd.read_csv(path, dtype=str, keep_default_na=False).set_index("id")


def _number(id_: str) -> float | None:
    rows = statements()
    return float(rows.loc[id_, "value"]) if id_ in rows.index else None


def _grid(group: str, columns: tuple[str, ...]) -> tuple[tuple[float | None, ...], ...]:
    return tuple(tuple(_number(f"{group}/{network}/{column}") for column in columns) for network in NETWORKS)


_ROWS = [id_.split("/") for id_ in statements().index]
NETWORKS = tuple(dict.fromkeys(row[1] for row in _ROWS if row[0] == "architectures"))
ARCHITECTURES = _grid("architectures", ARCHITECTURES_COLUMNS)  # Rows as NETWORKS.
HYPERPLANES = _grid("hyperplanes", HYPERPLANES_COLUMNS)
GRID_SIZE = {  # Dimension -> (points per edge, mean count).
    1: tuple((points, _number(f"grid-size/1d/{points}")) for points in (50, 100, 200, 300, 500)),
    2: tuple((points, _number(f"grid-size/2d/{points}")) for points in (10, 20, 30, 40, 50)),
}
SAMPLE_SIZE = tuple((number, _number(f"sample-size/{number}")) for number in (10, 50, 100, 300, 500))
RANGE = tuple(  # Range of alpha, mean count, correlation.
    (span, _number(f"range/{span}/count"), _number(f"range/{span}/correlation"))
    for span in ("[0, 1]", "[-1, 2]", "[-2, 3]", "[-3, 4]")
)
EVOLUTION = tuple(  # Epoch, mean count, gap in v1, gap in v3 (they part from epoch 80 on), correlation.
    (epoch, *(_number(f"evolution/{name}/{epoch}") for name in ("count", "gap-v1", "gap-v3", "correlation")))
    for epoch in (0, 20, 40, 60, 80, 100, 130, 160, 200)
)
