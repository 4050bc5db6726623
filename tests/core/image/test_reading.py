"""Decoding, resizing and padding images as NDArrays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import core as mx
from core.errors import FormatError, MXNetError, ShapeError, UsageError
from oracle import golden_file
from oracle.topics.images import png
from oracle.topics.pixels import image_of

pytest.importorskip("PIL")

PIXELS = np.random.RandomState(0).randint(0, 256, (6, 7, 3)).astype("uint8")
ENCODED = png(PIXELS)


def test_imread_reads_a_file(tmp_path: Path) -> None:
    (tmp_path / "x.png").write_bytes(ENCODED)
    image = mx.img.imread(str(tmp_path / "x.png"))
    assert image.dtype == np.uint8
    np.testing.assert_array_equal(image.asnumpy(), PIXELS)
    swapped = mx.image.imread(str(tmp_path / "x.png"), to_rgb=0)
    np.testing.assert_array_equal(swapped.asnumpy(), PIXELS[..., ::-1])


@pytest.mark.parametrize(
    "wrap",
    [bytes, bytearray, lambda one: np.frombuffer(one, "uint8"), None],
    ids=["bytes", "bytearray", "array", "NDArray"],
)
def test_imdecode_reads_bytes(wrap: object) -> None:
    if wrap is None:
        source = mx.nd.array(np.frombuffer(ENCODED, "uint8"), dtype="uint8")
    else:
        source = wrap(ENCODED)  # type: ignore[operator]
    np.testing.assert_array_equal(mx.image.imdecode(source).asnumpy(), PIXELS)
    assert mx.image.imdecode(source, flag=0).shape == (6, 7, 1)


def test_a_colored_png_read_as_grey_matches_mxnet() -> None:
    found = mx.image.imdecode(png(image_of((12, 16))), flag=0)
    np.testing.assert_array_equal(found.asnumpy(), golden_file.topic("pixels")["grey/png"])


def test_results_are_written_to_out() -> None:
    out = mx.nd.zeros((6, 7, 3), dtype="uint8")
    assert mx.image.imdecode(ENCODED, out=out) is out
    np.testing.assert_array_equal(out.asnumpy(), PIXELS)
    with pytest.raises(ShapeError, match=r"out has shape \(6, 7, 3\); the image has \(4, 5, 3\)"):
        mx.image.imresize(out, 5, 4, out=out)
    framed = mx.image.copyMakeBorder(out, 1, 0, 0, 2, value=3)
    assert framed.shape == (7, 9, 3)
    assert framed.asnumpy()[0].tolist() == [[3, 3, 3]] * 9


def test_random_interpolation_picks_a_known_method() -> None:
    image = mx.nd.array(PIXELS, dtype="uint8")
    known = [mx.image.imresize(image, 11, 9, interp=method).asnumpy() for method in range(5)]
    for _ in range(5):
        found = mx.image.imresize(image, 11, 9, interp=10).asnumpy()
        assert any(np.array_equal(found, one) for one in known)


def test_invalid_arguments_are_refused(tmp_path: Path) -> None:
    with pytest.raises(MXNetError, match=r"absent\.png cannot be read: No such file"):
        mx.image.imread(str(tmp_path / "absent.png"))
    (tmp_path / "bad.png").write_bytes(b"no image")
    with pytest.raises(FormatError, match=r"bad\.png: 8 bytes are not an image"):
        mx.image.imread(str(tmp_path / "bad.png"))
    with pytest.raises(ValueError, match="buf must be of type bytes"):
        mx.image.imdecode("text")
    with pytest.raises(UsageError, match="flag is -1"):
        mx.image.imdecode(ENCODED, flag=-1)
    with pytest.raises(UsageError, match="interpolation 7"):
        mx.image.imresize(mx.nd.ones((2, 2, 3)), 3, 3, interp=7)
    with pytest.raises(ShapeError, match="an image has shape"):
        mx.image.imresize(mx.nd.ones((2, 2)), 3, 3)


def test_crops_larger_than_the_image_are_scaled_down() -> None:
    assert mx.image.scale_down((640, 480), (720, 120)) == (640, 106)
    assert mx.image.scale_down((640, 480), (20, 30)) == (20, 30)
    _, place = mx.image.center_crop(mx.nd.array(PIXELS), (4, 4))
    assert place == (1, 1, 4, 4)


def test_min_area_is_a_deprecated_name_of_area() -> None:
    image = mx.nd.array(PIXELS)
    with pytest.warns(DeprecationWarning, match="use `area`"):
        mx.image.random_size_crop(image, (3, 3), 0.9, (1, 1), min_area=0.2)
    with pytest.warns(DeprecationWarning, match="use `area`"):
        augmenter = mx.image.RandomSizedCropAug((3, 3), 0.9, (1, 1), min_area=0.2)
    assert augmenter.area == 0.2
    with pytest.raises(AssertionError, match=r"unexpected keyword arguments .*max_area"):
        mx.image.random_size_crop(image, (3, 3), 0.9, (1, 1), max_area=0.2)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: mx.image.imrotate(x, 3, True, True), ValueError, "cannot be both True"),
        (lambda x: mx.image.imrotate(x.astype("uint8"), 3), TypeError, "Only `float32`"),
        (lambda x: mx.image.imrotate(x, mx.nd.ones((1,))), TypeError, "angle is a number"),
        (lambda x: mx.image.imrotate(x[0], 3), ValueError, "Only 3D and 4D"),
        (
            lambda x: mx.image.imrotate(x.expand_dims(0), mx.nd.ones((2,))),
            ValueError,
            "1 images, 2 angles",
        ),
    ],
)
def test_invalid_rotations_are_refused(call: object, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call(mx.nd.ones((3, 4, 5)))  # type: ignore[operator]


def test_operators_of_images_have_their_internal_names() -> None:
    internal, buffer = mx.nd._internal, mx.nd.array(np.frombuffer(ENCODED, "uint8"), dtype="uint8")
    image = internal._cvimdecode(buffer, 1, to_rgb=0)
    np.testing.assert_array_equal(image.asnumpy(), PIXELS[..., ::-1])
    assert internal._cvimresize(image, w=3, h=2, interp=1).shape == (2, 3, 3)
    padded = internal._cvcopyMakeBorder(image, 1, 0, 2, 0, type=0, values=(1, 2, 3))
    assert padded.shape == (PIXELS.shape[0] + 1, PIXELS.shape[1] + 2, 3)
    assert padded[0, 0].asnumpy().tolist() == [1, 2, 3]
    assert "_cvimread" in dir(internal)
