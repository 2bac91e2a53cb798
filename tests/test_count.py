"""The command that counts the regions of somebody's model."""

import base64

import numpy as np
import pytest
from PIL import Image

from rc_utils import count, region_count
from rc_utils.correlation import mean
from rc_utils.counting import sample_vertices

MODULE = """
import torch
class Stripes(torch.nn.Module):
    "Label 0 or 1 by the sign of sin(9 x_0)."
    def forward(self, x):
        s = torch.sin(9 * x[:, :1])
        return torch.cat([s, -s], 1)
stripes = Stripes()
def half(x):
    return x[:, 0] - 0.5
def make():
    return stripes
"""


@pytest.fixture
def folder(tmp_path, monkeypatch, rng):
    """A reader's folder with a module, points in the unit square, and pictures."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "stripes_module.py").write_text(MODULE)
    np.savez(tmp_path / "points.npz", x=rng.random((50, 2)), y=rng.integers(0, 2, 50))
    for i in range(6):
        (tmp_path / "images" / str(i % 2)).mkdir(parents=True, exist_ok=True)
        pixels = rng.integers(0, 256, (9 + i, 12, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "images" / str(i % 2) / f"{i}.png")
    return tmp_path


def test_the_command_prints_the_count_with_its_interval_and_draws(folder, capsys):
    words = "stripes_module:stripes points.npz --num-samples 30 -o new/picture.svg"
    assert count.main([*words.split(), "--strategy", "adaptive", "--coarse", "8"]) == 0
    printed = capsys.readouterr().out
    model, points = count.load_model("stripes_module:stripes"), count.load_points("points.npz")
    expected = region_count(model, points, num_samples=30, strategy="adaptive", coarse=8)
    assert expected.mean > 1
    assert "strategy='adaptive', coarse=8" in printed
    assert f"95 % interval: {mean(expected.counts, 'segments')}" in printed
    picture = (folder / "new" / "picture.svg").read_text()
    assert all(text in picture for text in ("segment", "predicted", "$x_3$", "class 1"))


def test_a_picture_that_cannot_be_drawn_loses_no_count(folder, capsys):
    """The drawn segments end at points whose only score might be a probability."""
    points = np.linspace(0.1, 0.9, 50, dtype=np.float32)[:, None]
    drawn = [sample_vertices(points, dim=d, num_samples=n) for d, n in ((1, 8), (2, 2))]
    rare = np.setdiff1d(points, np.concatenate([d.ravel() for d in drawn]))
    points[points == rare[0]] = -5
    np.save("points.npy", points)
    (folder / "logit_module.py").write_text("def logit(x):\n    return x[:, 0]\n")
    assert count.main(["logit_module:logit", "points.npy"]) == 0
    printed = capsys.readouterr().out
    assert "picture: none (the model returns one number per point" in printed
    assert f"{region_count(lambda x: x[:, 0], points).mean:.3f} ± " in printed


def test_a_function_is_counted_on_triangles_and_of_two_points_a_segment_is_drawn(folder, capsys):
    words = "stripes_module:half points.npz --dim 2 --num-samples 5 --resolution 6"
    assert count.main(words.split()) == 0
    assert "dim=2, num_samples=5, " in capsys.readouterr().out
    np.save("two.npy", np.eye(2))  # a file of one array; class 1 is between the points
    assert count.main(["stripes_module:stripes", "two.npy", "--resolution", "2"]) == 0
    assert not any(text in (folder / "regions.svg").read_text() for text in ("$x_3$", "class 1"))


# ONNX files, version 13, of one MatMul: scores = batch @ [[1, -1, 0.5], [-1, 1, 0.5]].
MODELS = {
    "rows.onnx":
        "CAg68QAKFgoBeAoBdxIGc2NvcmVzIgZNYXRNdWwSAWcqIwgCCAMQAUIBd0oYAACAPwAAgL8AAAA/AACAvwAAgD8AAAA/WhQKAXgS"
        "DwoNCAESCQoDEgFuCgIIAmIZCgZzY29yZXMSDwoNCAESCQoDEgFuCgIIA0IECgAQDQ==",
    "any.onnx":  # does not say what shape it takes
        "CAg6WwoWCgF4CgF3EgZzY29yZXMiBk1hdE11bBIBZyojCAIIAxABQgF3ShgAAIA/AACAvwAAAD8AAIC/AACAPwAAAD9aCQoBeBIECg"
        "IIAWIOCgZzY29yZXMSBAoCCAFCBAoAEA0=",
    "one.onnx":  # takes one row, and squeezes it
        "CAg6OgoPCgF4EgFzIgdTcXVlZXplEgFnWhMKAXgSDgoMCAESCAoCCAEKAggCYg8KAXMSCgoICAESBAoCCAJCBAoAEA0=",
    "four.onnx":  # takes four rows in double precision; its input is an output, too, "boxes"
        "CAg6ugEKGAoBeAoBdxIIc2NvcmVzOjAiBk1hdE11bAoUCgF4EgVib3hlcyIISWRlbnRpdHkSAWcqOwgCCAMQC0IBd0owAAAAAAAA8D"
        "8AAAAAAADwvwAAAAAAAOA/AAAAAAAA8L8AAAAAAADwPwAAAAAAAOA/WhMKAXgSDgoMCAsSCAoCCAQKAggCYhcKBWJveGVzEg4KDAgL"
        "EggKAggECgIIAmIaCghzY29yZXM6MBIOCgwICxIICgIIBAoCCANCBAoAEA0=",
}  # fmt: skip


def test_an_onnx_file_counts_as_its_function_and_one_of_its_outputs_is_named(folder):
    for name, content in MODELS.items():
        (folder / name).write_bytes(base64.b64decode(content))
    weights = np.array([[1, -1, 0.5], [-1, 1, 0.5]], dtype=np.float32)
    points = count.load_points("points.npz")
    expected = region_count(lambda batch: batch @ weights, points, num_samples=21).counts
    for name in ("rows.onnx", "any.onnx", "four.onnx:scores:0"):
        found = region_count(count.load_model(name), points, num_samples=21).counts
        assert found.tolist() == expected.tolist()
    for name in ("four.onnx", "four.onnx:masks"):
        with pytest.raises(ValueError, match=r"name one of.*four\.onnx:boxes, four\.onnx:scores:0"):
            count.load_model(name)
    with pytest.raises(ValueError, match=r"one\.onnx gives 2 rows of scores for 1"):
        count.load_model("one.onnx")(points[:9])


def test_images_become_channels_and_numbers_keep_their_precision(folder, rng):
    images = count.load_points("images", image_size=8)
    assert (images.shape, images.dtype) == ((6, 3, 8, 8), np.float32)
    assert 0 <= images.min() < images.max() <= 1
    pixels = rng.integers(0, 256, (4, 5, 6, 3), dtype=np.uint8)
    np.savez("bytes.npz", pixels)
    expected = pixels.transpose(0, 3, 1, 2) / 255
    np.testing.assert_allclose(count.load_points("bytes.npz"), expected, rtol=1e-6)
    shifted = count.standardise(images, [0.1, 0.2, 0.3], [0.5])
    np.testing.assert_allclose(shifted[:, 1], (images[:, 1] - 0.2) * 2, rtol=1e-5)
    points = count.standardise(count.load_points("points.npz"), [0.1], [1.0])
    assert (points == np.load("points.npz")["x"] - 0.1).all()


@pytest.mark.parametrize(("words", "message"), [
    ("stripes_module:strips points.npz", "has no attribute 'strips'"),
    ("stripes_module:stripes points.npz --std 60", "divide by 255 what was taken of bytes"),
    ("stripes_module:make points.npz", "stripes_module:make() takes no batch"),
    ("weights.pt points.npz", "neither module:name nor a file .onnx"),
    ("stripes_module:stripes points.npz --points z", "has the arrays x, y"),
    ("stripes_module:stripes points.npz --points y", "of type int64 and shape (50,), expected"),
    ("stripes_module:stripes bytes.npz", "bytes of shape (4, 7) are no images"),
    ("stripes_module:stripes colours.npz", "bytes of shape (2, 4, 4, 5) are no images"),
    ("stripes_module:stripes stripes_module.py", "stripes_module.py is no .npz or .npy file"),
    ("stripes_module:stripes torn.npz", "torn.npz is damaged, or holds other things than numbers"),
    ("stripes_module:stripes images", "give the model's size with --image-size"),
    ("stripes_module:stripes images/none --image-size 8", "no images in images/none"),
    ("stripes_module:stripes points.npz --mean 1 2 3", "--mean is [1.0, 2.0, 3.0]; expected"),
    ("stripes_module:stripes points.npz --mean nan", "--mean is [nan]; expected"),
    ("stripes_module:stripes points.npz --image-size 8", "--image-size for folders: leave it out"),
    ("stripes_module:stripes points.npz -o regions", "--output regions has no suffix"),
    ("stripes_module:stripes points.npz --std 1 -2", "--std is [1.0, -2.0]; expected"),
])  # fmt: skip
def test_wrong_words_are_named(folder, capsys, words, message):
    np.savez("bytes.npz", x=np.zeros((4, 7), dtype=np.uint8))
    np.savez("colours.npz", x=np.zeros((2, 4, 4, 5), dtype=np.uint8))
    (folder / "torn.npz").write_bytes(b"torn")
    (folder / "images" / "none").mkdir()
    assert count.main(words.split()) == 1
    assert message in capsys.readouterr().err


def test_linked_folders_are_followed_and_hidden_files_passed_over(folder, capsys):
    (folder / "more").mkdir()
    Image.new("RGB", (8, 8), "red").save(folder / "more" / "PHOTO.TIFF")
    (folder / "images" / "linked").symlink_to(folder / "more")
    Image.new("RGB", (8, 8)).save(folder / "images" / "._0.png")
    (folder / "images" / "labels.csv").write_text("")
    assert len(count.load_points("images", image_size=8)) == 7
    assert "7 images in images\n" in capsys.readouterr().out


def test_images_of_more_than_eight_bits_are_refused(tmp_path):
    Image.fromarray(np.full((8, 8), 77, np.uint8)).save(tmp_path / "eight.png")
    assert (count.decode(tmp_path / "eight.png", 8) == 77).all()
    for value, kind in ((0.5, np.float32), (1 << 20, np.int32), (255, np.uint16)):
        Image.fromarray(np.full((4, 4), value, kind)).save(tmp_path / "x.tif")
        with pytest.raises(ValueError, match=r"x\.tif has pixels of mode [IF].*with 8 bits"):
            count.decode(tmp_path / "x.tif", 4)
