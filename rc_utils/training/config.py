"""Hyper-parameters of a training run."""

import dataclasses

from rc_utils.validation import check_count, check_name, check_number, require

CHOICES = {
    "optimizer": ("sgd", "adam", "adagrad"),
    "schedule": ("cosine", "constant"),
    "precision": ("float32", "tfloat32", "bfloat16"),
    "between_labels": ("nearer", "third"),
}
NEGLIGIBLE_DECAY = 1e-5  # weight decays up to this leave a network nearly as it is


@dataclasses.dataclass(frozen=True)
class TrainConfig:
    """Hyper-parameters of a training run: all that changes its result, and nothing else.

    SGD and the cosine schedule are the paper's (v1 App. C), and so, it seems, is no augmentation on
    CIFAR. It trains 200 epochs with batches of 256 to 1,024. Momentum 0.9 is its code's default.

    Args:
        lr, weight_decay, momentum: as in torch's optimisers; only SGD has momentum.
        mixup_alpha: parameter of the Beta distribution of mixup's weight, 0 switches mixup off.
        crop_padding: pixels of black border before a random crop to the image size, 0 for none.
        flip_probability: of a horizontal flip of each image.
        precision: "float32"; "tfloat32", with TF32 in a GPU's convolutions, as torch has by
            default; or "bfloat16", autocast of the forward pass. Networks are evaluated and counted
            in full float32 all the same.
        pretrain_epochs: epochs on random labels before the training, at the constant learning rate
            `lr`, with an optimiser of their own.
        between_share: number of labelled points between pairs of training images that every batch
            holds beside its images, as a share of these; each counts as an image in the loss.
        between_labels: "nearer" or "third", see `PointsBetween`.
        gradient_penalty: weight of the mean squared norm of the loss's gradient by the image
            (Drucker and LeCun 1992).
        sam_radius: radius of sharpness-aware minimisation (Foret et al. 2021), 0 switches it off.
            Batch normalisation's running statistics follow both of its forward passes.
    """

    lr: float = 0.1
    batch_size: int = 128
    weight_decay: float = 1e-5
    epochs: int = 30
    seed: int = 0
    optimizer: str = "sgd"
    momentum: float = 0.9
    schedule: str = "cosine"
    mixup_alpha: float = 0.0
    crop_padding: int = 0
    flip_probability: float = 0.0
    precision: str = "float32"
    pretrain_epochs: int = 0
    between_share: float = 0.0
    between_labels: str = "nearer"
    gradient_penalty: float = 0.0
    sam_radius: float = 0.0

    def __post_init__(self):
        for field in dataclasses.fields(self):
            name, value = field.name, getattr(self, field.name)
            if name in CHOICES:
                check_name(name, value, CHOICES[name])
                continue
            if isinstance(field.default, int):
                check_count(name, value, 1 if name == "batch_size" else 0)
            else:
                check_number(name, value, 0, above=name == "lr")
            # torch refuses NumPy's numbers.
            object.__setattr__(self, name, type(field.default)(value))
        for name in ("flip_probability", "momentum"):
            value = getattr(self, name)
            require(value <= 1, f"{name}={value} is not in [0, 1]")
        # Runs that differ in it alone would be one run and pass for several.
        unused = self.optimizer != "sgd" and self.momentum != 0.9
        require(not unused, f"{self.optimizer} has no momentum: leave momentum={self.momentum} out")
