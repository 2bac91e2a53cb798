"""Every table of the region-count paper, with the numbers as printed.

v1 is the first version of the paper and v3 its third; where both print a table the numbers are the same unless a
comment says otherwise. `rc_utils.paper.verdict` gives access to them.
"""

NETWORKS = (
    "ResNet18",
    "ResNet34",
    "VGG19",
    "MobileNetV2",
    "SENet18",
    "ShuffleNetV2",
    "EfficientNetB0",
    "RegNetX_200MF",
    "SimpleDLA",
)
MAIN_NETWORKS = ("ResNet18", "EfficientNetB0", "SENet18")

ARCHITECTURES_SOURCE = "v1 Table 5, v3 Table 2"
ARCHITECTURES_COLUMNS = ("CIFAR-10", "CIFAR-100", "ImageNet", "d=2", "d=3", "d=4", "d=5")
ARCHITECTURES = (  # Rows as NETWORKS; the tables print MobileNetV2 as "MobileNet".
    (0.98, 0.96, 0.91, 0.96, 0.97, 0.97, 0.96),
    (0.98, 0.98, 0.82, 0.98, 0.98, 0.98, 0.99),
    (0.94, 0.85, 0.78, 0.88, 0.86, 0.84, 0.86),
    (0.95, 0.95, 0.92, 0.99, 0.99, 0.99, 0.99),
    (0.98, 0.85, 0.80, 0.97, 0.97, 0.97, 0.93),
    (0.95, 0.92, 0.92, 0.94, 0.95, 0.95, 0.93),
    (0.98, 0.84, 0.93, 0.99, 0.99, 0.99, 0.98),
    (0.98, 0.87, 0.97, 0.98, 0.99, 0.99, 0.98),
    (0.98, 0.94, 0.84, 0.99, 0.99, 0.98, 0.99),
)

OPTIMIZERS_SOURCE = "v1 Table 7, v3 Table 7"
OPTIMIZERS_COLUMNS = ("SGD", "Adam", "Adagrad")
OPTIMIZERS = (
    (0.98, 0.92, 0.96),
    (0.98, 0.92, 0.91),
    (0.94, 0.92, 0.87),
    (0.95, 0.95, 0.99),
    (0.98, 0.78, 0.91),
    (0.95, 0.83, 0.99),
    (0.98, 0.97, 0.99),
    (0.98, 0.95, 0.99),
    (0.98, 0.95, 0.88),
)

HYPERPLANES_SOURCE = "v1 Table 8, v3 Table 8"
HYPERPLANES_COLUMNS = ("Test", "Train", "Random")
HYPERPLANES = (
    (0.98, 0.98, 0.98),
    (0.98, 0.96, 0.94),
    (0.94, 0.89, 0.78),
    (0.95, 0.94, 0.88),
    (0.98, 0.96, 0.99),
    (0.95, 0.95, 0.92),
    (0.98, 0.98, 0.92),
    (0.98, 0.97, 0.92),
    (0.98, 0.97, 0.96),
)

GRID_SIZE_SOURCE = "v1 Table 2, v3 Table 4"
GRID_SIZE = {  # Dimension -> (points per edge, mean count).
    1: ((50, 2.74), (100, 2.76), (200, 2.78), (300, 2.78), (500, 2.78)),
    2: ((10, 2.76), (20, 2.76), (30, 2.78), (40, 2.78), (50, 2.78)),
}

SAMPLE_SIZE_SOURCE = "v1 Table 3, v3 Table 5"
SAMPLE_SIZE = ((10, 2.24), (50, 2.56), (100, 2.78), (300, 2.80), (500, 2.79))

RANGE_SOURCE = "v1 Table 4, v3 Table 6"
RANGE = (  # Range of alpha, mean count, correlation.
    ("[0, 1]", 3.56, 0.98),
    ("[-1, 2]", 4.47, 0.96),
    ("[-2, 3]", 5.86, 0.92),
    ("[-3, 4]", 6.39, 0.93),
)

EVOLUTION_SOURCE = "v1 Table 6, v3 Table 3"
EVOLUTION = (  # Epoch, mean count, gap in v1, gap in v3 (percent; they part from epoch 80 on), correlation.
    (0, 1.13, None, None, None),
    (20, 3.14, 0.11, 11.2, -0.53),
    (40, 3.02, 0.07, 7.3, -0.29),
    (60, 3.10, 0.18, 18.2, 0.35),
    (80, 3.22, 0.36, 26.7, 0.77),
    (100, 3.25, 0.48, 30.4, 0.98),
    (130, 3.28, 0.51, 31.2, 0.97),
    (160, 3.27, 0.51, 31.7, 0.98),
    (200, 3.26, 0.49, 31.6, 0.98),
)
