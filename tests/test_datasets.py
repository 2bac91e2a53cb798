"""Datasets: what is drawn, chosen, shrunk and standardised; damaged or absent data are named."""

import functools
import pathlib
import pickle
import shutil
from unittest.mock import Mock
from urllib.error import URLError

import numpy as np
import pytest
import torch

from rc_utils.datasets import ImageTensor, load_dataset
from rc_utils.datasets.images import area_average


@pytest.fixture
def fruit(tmp_path, rng, monkeypatch):
    """Random images cached as the dataset `fruit`: 90 and 40 in four classes, many of the first."""
    arrays = {"classes": ("apple", "pear", "plum", "quince"), "note": "encoded twice"}
    for split, n in (("train", 90), ("test", 40)):
        arrays[f"x_{split}"] = rng.integers(0, 256, (n, 12, 12, 3), dtype=np.uint8)
        more = rng.choice([0, 0, 0, 0, 1, 2, 3], n - 4)
        arrays[f"y_{split}"] = np.concatenate([np.arange(4), more])
    np.savez(tmp_path / "fruit.npz", **arrays)
    monkeypatch.setenv("RC_DATA", str(tmp_path))
    return arrays


def test_shapes_are_balanced_and_depend_on_the_seed_and_not_on_how_many_are_drawn():
    draw = functools.partial(load_dataset, "shapes", image_size=11, classes=["ring", 0, "bars"])
    few, many = (draw(n_train=n, n_test=m, seed=1) for n, m in ((30, 20), (1131, 519)))
    other = draw(n_train=30)
    assert torch.equal(few.x_train.raw, many.x_train.raw[:30])
    assert torch.equal(few.y_test, many.y_test[:20])
    assert not torch.equal(few.x_train.raw, other.x_train.raw)
    assert not torch.equal(few.x_train.raw[:20], few.x_test.raw)
    assert many.class_names == ("ring", "disc", "bars")
    sizes = [many.y_train.bincount().tolist(), many.y_test.bincount().tolist()]
    assert sizes == [[377] * 3, [173] * 3]
    assert (many.num_classes, many.in_channels, many.image_size) == (3, 3, 11)


def test_a_subset_is_nested_and_balanced_and_keeps_images_with_their_labels(fruit):
    sizes = np.bincount(fruit["y_train"])
    data = load_dataset("fruit", n_train=4 * sizes.min(), n_test=7, seed=5)
    assert data.y_train.bincount().tolist() == [sizes.min()] * 4
    assert data.y_test.bincount().max() - data.y_test.bincount().min() <= 1
    whole, other = (load_dataset("fruit", n_train=90, seed=seed) for seed in (5, 6))
    pairs = zip(fruit["x_train"], fruit["y_train"], strict=True)
    label_of = {image.tobytes(): label for image, label in pairs}
    for image, label in zip(whole.x_train.raw, whole.y_train, strict=True):
        assert label_of.pop(image.permute(1, 2, 0).contiguous().numpy().tobytes()) == label
    assert torch.equal(data.x_train.raw, whole.x_train.raw[: len(data.x_train)])
    assert not torch.equal(other.x_train.raw, whole.x_train.raw)


def test_all_in_stored_order_or_the_classes_chosen_relabelled_in_the_order_given(fruit):
    data = load_dataset("fruit")
    assert data.provenance["note"] == "encoded twice"
    assert np.array_equal(data.x_train.raw.permute(0, 2, 3, 1).numpy(), fruit["x_train"])
    assert np.array_equal(data.y_test.numpy(), fruit["y_test"])
    some = load_dataset("fruit", classes=("plum", 0))
    assert some.class_names == ("plum", "apple")
    sizes = [(fruit["y_train"] == label).sum() for label in (2, 0)]
    assert some.y_train.bincount().tolist() == sizes
    assert torch.equal(some.x_test.raw[some.y_test == 0], data.x_test.raw[data.y_test == 2])


@pytest.mark.parametrize(("fraction", "wrong"), [(0.1, 200), (1.0, 2000)])
def test_label_noise_changes_exactly_the_fraction_and_to_any_other_class(fraction, wrong):
    load = functools.partial(load_dataset, "shapes", n_train=2000, n_test=10, image_size=8)
    clean, noisy = load(), load(label_noise=fraction)
    shift = ((noisy.y_train - clean.y_train) % 10).bincount(minlength=10)
    assert shift[0] == 2000 - wrong
    assert (shift[1:] - wrong / 9).abs().max() <= 4 * (wrong / 9) ** 0.5
    assert torch.equal(noisy.x_train.raw, clean.x_train.raw)
    assert torch.equal(noisy.y_test, clean.y_test)


@pytest.mark.parametrize(("height", "size"), [(12, 6), (9, 8), (7, 1), (5, 5)])
def test_area_average_equals_brute_force(height, size):
    images = np.random.default_rng(height).integers(0, 256, (3, 2, height, height), dtype=np.uint8)
    # Repeating every pixel `size` times makes every cell of the result a whole number of pixels.
    fine = images.repeat(size, axis=2).repeat(size, axis=3).astype(np.int64)
    sums = fine.reshape(3, 2, size, height, size, height).sum(axis=(3, 5))
    assert np.array_equal(area_average(images, size), (2 * sums + height**2) // (2 * height**2))


def test_training_statistics_standardise_both_sets(fruit, tmp_path):
    fruit["x_train"][..., 1] = 9
    np.savez(tmp_path / "fruit.npz", **fruit)
    data = load_dataset("fruit", n_train=40, image_size=6)
    shrunk = area_average(fruit["x_test"].transpose(0, 3, 1, 2), 6)
    assert torch.equal(data.x_test.raw, torch.from_numpy(shrunk))
    raw = data.x_train.raw.double()
    mean, std = raw.mean(dim=(0, 2, 3)), raw.std(dim=(0, 2, 3), correction=0)
    mean, std = mean.view(3, 1, 1), std.view(3, 1, 1)
    std[1] = 1  # of a constant channel, which becomes zero
    for images in (data.x_train, data.x_test):
        np.testing.assert_allclose(images[:], (images.raw - mean) / std, rtol=1e-5, atol=1e-6)


def test_images_are_standardised_when_indexed_as_numpy_is_and_are_bytes(rng):
    raw = rng.integers(0, 256, (20, 2, 5, 5), dtype=np.uint8)
    images = ImageTensor(torch.from_numpy(raw), mean=[100.0, 20.0], std=[50.0, 3.0])
    mean, std = (np.array(values).reshape(2, 1, 1) for values in ([100.0, 20.0], [50.0, 3.0]))
    for index in (
        -1, np.int64(5), slice(2, 9, 3), [4, -2, 4], np.array([2, 0], np.uint8),
        np.arange(20) % 7 == 0, torch.tensor([[0, 1], [2, 3]]), torch.arange(20) % 3 == 0,
    ):  # fmt: skip
        chosen = raw[index.numpy() if isinstance(index, torch.Tensor) else index]
        assert images[index].dtype == images.dtype == torch.float32
        np.testing.assert_allclose(images[index], (chosen - mean) / std, rtol=1e-5, atol=1e-6)
    assert np.array_equal(np.asarray(images), images[:].numpy())


@pytest.mark.parametrize(("changes", "message"), [
    ({"y_test": None}, "y_test is not a file in the archive"),
    ({"x_train": np.zeros((90, 12, 12, 3), np.float32)}, "x_train is float32.*square uint8"),
    ({"x_train": np.zeros((90, 12, 9, 3), "u1")}, r"shape \(90, 12, 9, 3\).*square uint8"),
    ({"x_test": np.zeros((40, 144), "u1")}, r"x_test is uint8 of shape \(40, 144\).*square uint8"),
    ({"y_test": np.zeros(40)}, "y_test float64 of .*an integer for each"),
    ({"y_train": np.arange(91) % 4}, r"y_train int64 of \(91,\); expected .* an integer for each"),
    ({"y_train": np.arange(90) % 3 % 2 * 2}, r"labels \[0 2\] for 4 classes, .* without a gap"),
    ({"x_test": np.array([{}, None], dtype=object)}, "allow_pickle=False"),
    ({"x_test": np.zeros((40, 9, 9, 3), "u1")}, r"x_train has images of shape .* x_test of"),
    ({"y_test": np.arange(40) % 5 - 1}, r"y_test has the labels \[-1\], which y_train has not"),
])  # fmt: skip
def test_wrong_arrays_are_named(fruit, tmp_path, changes, message):
    contents = {key: value for key, value in (fruit | changes).items() if value is not None}
    np.savez(tmp_path / "bad.npz", **contents)
    with pytest.raises(ValueError, match=message):
        load_dataset("bad")


def test_a_damaged_cache_is_named(fruit, tmp_path):
    path = tmp_path / "fruit.npz"
    content = path.read_bytes()
    flipped = bytearray(content)
    flipped[content.index(fruit["x_train"].tobytes()) + 9] ^= 4
    for wrong in (b"", content[:-9], pickle.dumps({"x_train": 1}), bytes(flipped)):
        path.write_bytes(wrong)
        with pytest.raises(ValueError, match=r"fruit\.npz is not .* damaged.*Correct it, or put"):
            load_dataset("fruit")


def test_without_network_the_error_names_file_and_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("urllib.request.urlopen", Mock(side_effect=URLError("no route to host")))
    with pytest.raises(FileNotFoundError, match=rf"cifar100\.npz, .* into {tmp_path / 'empty'}"):
        load_dataset("cifar100", data_dir=tmp_path / "empty")


def test_an_archive_in_the_data_folder_is_read_without_network(tmp_path, rng, monkeypatch):
    for module in ("cifar", "utils"):  # torchvision takes another than the published one
        check = f"torchvision.datasets.{module}.check_integrity"
        monkeypatch.setattr(check, lambda path, md5=None: pathlib.Path(path).is_file())
    folder = tmp_path / "unpacked" / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    for name in (*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"):
        pixels = rng.integers(0, 256, (20, 3072), dtype=np.uint8)
        (folder / name).write_bytes(pickle.dumps({"data": pixels, "labels": [*range(10)] * 2}))
    names = [f"thing {k}" for k in range(10)]
    (folder / "batches.meta").write_bytes(pickle.dumps({"label_names": names}))
    archive = shutil.make_archive(tmp_path / "cifar-10-python", "gztar", folder.parent)
    data = load_dataset("cifar10", data_dir=tmp_path)
    assert np.array_equal(data.x_test.raw.numpy(), pixels.reshape(20, 3, 32, 32))
    assert len(data.x_train) == 100
    assert data.class_names[3] == "thing 3"
    pathlib.Path(archive).unlink()
    assert load_dataset("cifar10", data_dir=tmp_path).provenance == data.provenance


@pytest.mark.parametrize(("name", "options", "message"), [
    ("fruit", {"label_noise": 1.5}, "label_noise is 1.5; expected a fraction"),
    ("fruit", {"label_noise": True}, "label_noise is True; expected a fraction"),
    ("fruit", {"label_noise": "all"}, "label_noise is 'all'; expected a fraction"),
    ("fruit", {"n_train": 91}, "n_train is 91, but there are 90 train samples in the 4 chosen"),
    ("fruit", {"n_test": 0}, "n_test=0; expected an integer of at least 1"),
    ("fruit", {"seed": -1}, "seed=-1; expected an integer of at least 0"),
    ("fruit", {"image_size": 13}, "images of 12 can only be made smaller"),
    ("shapes", {"image_size": 7}, "image_size=7; expected an integer of at least 8"),
    ("fruit", {"classes": ["apple", 0]}, "at least two different classes"),
    ("fruit", {"classes": ["0", "apple"]}, r"unknown class '0'. Valid: apple, pear, plum, quince"),
    ("cranes", {"classes": ["crane", "pear"]}, "several classes are named 'crane': choose them by"),
    ("digits", {}, r"digits.npz has the name of a dataset that is built in"),
])  # fmt: skip
def test_wrong_arguments_are_named(fruit, tmp_path, name, options, message):
    cranes = np.array(["crane", "pear", "crane", "quince"])  # as ImageNet has a bird and a machine
    for other in ("cranes", "digits"):
        np.savez(tmp_path / f"{other}.npz", **fruit | {"classes": cranes})
    with pytest.raises(ValueError, match=message):
        load_dataset(name, **options)
    assert load_dataset("cranes", classes=[2, 1]).class_names == ("crane", "pear")
