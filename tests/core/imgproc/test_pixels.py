"""Images resized, padded, rotated and recolored, against OpenCV 3.4 and known properties."""

from __future__ import annotations

import colorsys
import io

import numpy as np
import pytest

from core import imgproc
from core.errors import FormatError, UsageError
from oracle import golden_file
from oracle.topics.pixels import BORDERS, SIZES, image_of

ROUNDING = 0.51
"""Results are rounded to whole numbers, which moves them by up to a half."""


@pytest.mark.parametrize("method", range(5))
@pytest.mark.parametrize("name", SIZES)
def test_resizing_matches_opencv(name: str, method: int) -> None:
    golden = golden_file.topic("pixels")
    old, new = SIZES[name]
    found = imgproc.resize(image_of(old), new, method)
    np.testing.assert_array_equal(found, golden[f"{name}/uint8/{method}"])
    floats = imgproc.resize(image_of(old, "float32"), new, method)
    assert floats.dtype == np.float32
    np.testing.assert_allclose(floats, golden[f"{name}/float32/{method}"], atol=1e-3)


@pytest.mark.parametrize("name", BORDERS)
def test_borders_match_opencv(name: str) -> None:
    options = dict(BORDERS[name])
    kind, values = options.pop("type"), options.get("value", options.get("values", 0.0))
    found = imgproc.add_border(image_of((4, 5)), (3, 1, 6, 2), kind, values)
    np.testing.assert_array_equal(found, golden_file.topic("pixels")[f"border/{name}"])


def test_a_ramp_stays_a_ramp() -> None:
    ramp = np.repeat(np.arange(0, 200, 10, dtype="uint8")[None, :, None], 4, axis=0)
    wider = imgproc.resize(ramp, (4, 40))[0, :, 0].astype(int)
    np.testing.assert_allclose(wider[2:-2], np.arange(40)[2:-2] * 5 - 2.5, atol=ROUNDING)


def test_resizing_to_the_same_size_copies() -> None:
    image = image_of((4, 5))
    again = imgproc.resize(image, (4, 5), imgproc.LANCZOS)
    np.testing.assert_array_equal(again, image)
    assert not np.shares_memory(again, image)


def test_interpolation_is_chosen_by_size() -> None:
    choose = imgproc.choose_method
    assert choose(imgproc.AUTOMATIC, (4, 4), (5, 5)) == imgproc.CUBIC
    assert choose(imgproc.AUTOMATIC, (4, 4), (3, 3)) == imgproc.AREA
    assert choose(imgproc.AUTOMATIC, (4, 4), (3, 5)) == imgproc.LINEAR
    assert choose(imgproc.NEAREST, (4, 4), (3, 5)) == imgproc.NEAREST


@pytest.mark.parametrize("method", range(5))
def test_remapping_by_whole_pixels(method: int) -> None:
    image = image_of((6, 8))
    moved = imgproc.warp_affine(image, np.array([[1, 0, 2], [0, 1, -1]]), (6, 8), method, fill=9)
    np.testing.assert_array_equal(moved[:-1, 2:], image[1:, :-2])
    np.testing.assert_array_equal(moved[:, :2], np.full((6, 2, 3), 9))
    turned = imgproc.warp_affine(image, np.array([[0, -1, 5], [1, 0, 0]]), (8, 6), method)
    np.testing.assert_array_equal(turned, np.rot90(image, -1))


def test_hues_match_colorsys() -> None:
    colors = np.random.RandomState(0).randint(0, 256, (20, 30, 3)).astype("uint8")
    colors[0, 0], colors[0, 1] = (7, 7, 7), (255, 0, 255)
    found = imgproc.to_hls(colors)
    for place in np.ndindex(20, 30):
        expected = colorsys.rgb_to_hls(*(colors[place] / 255))
        np.testing.assert_allclose(
            found[place], np.array(expected) * (180, 255, 255), atol=ROUNDING
        )
    # There are only 180 hues: a bright color comes back up to four off.
    assert np.abs(imgproc.from_hls(found).astype(int) - colors).max() <= 5


def test_grey_is_a_weighted_sum() -> None:
    image = image_of((5, 6))
    expected = image @ np.array([0.299, 0.587, 0.114])
    np.testing.assert_allclose(imgproc.grey_of_bytes(image), expected, atol=ROUNDING)


@pytest.mark.parametrize(
    ("mode", "channels", "shape"),
    [
        ("L", None, (4, 5, 1)),
        ("L", 3, (4, 5, 3)),
        ("RGB", None, (4, 5, 3)),
        ("RGB", 1, (4, 5, 1)),
        ("P", 3, (4, 5, 3)),
        ("RGBA", 3, (4, 5, 3)),
        ("RGBA", 4, (4, 5, 4)),
    ],
)
def test_image_files_are_decoded(mode: str, channels: int | None, shape: tuple[int, ...]) -> None:
    pillow = pytest.importorskip("PIL.Image")
    picture = pillow.fromarray(image_of((4, 5))).convert(mode)
    stream = io.BytesIO()
    picture.save(stream, "PNG")
    found = imgproc.decode(stream.getvalue(), channels)
    assert found.shape == shape
    if mode == "RGB" and channels is None:
        np.testing.assert_array_equal(found, image_of((4, 5)))


def test_16_bit_files_keep_the_upper_bits() -> None:
    pillow = pytest.importorskip("PIL.Image")
    values = np.arange(20, dtype="uint16").reshape(4, 5) * 3000
    stream = io.BytesIO()
    pillow.fromarray(values).save(stream, "PNG")
    np.testing.assert_array_equal(imgproc.decode(stream.getvalue(), 1)[..., 0], values >> 8)


def test_invalid_arguments_are_refused() -> None:
    image = image_of((4, 5))
    with pytest.raises(UsageError, match="interpolation 7 is unknown"):
        imgproc.resize(image, (2, 2), 7)
    with pytest.raises(UsageError, match="cannot be resized to"):
        imgproc.resize(image, (0, 2))
    with pytest.raises(UsageError, match="images of int32 cannot be resized"):
        imgproc.resize(image.astype("int32"), (2, 2))
    with pytest.raises(UsageError, match="border type 5 is unknown"):
        imgproc.add_border(image, (1, 1, 1, 1), 5)
    with pytest.raises(UsageError, match="not below 0"):
        imgproc.add_border(image, (1, -1, 1, 1))
    with pytest.raises(FormatError, match="9 bytes are not an image"):
        imgproc.decode(b"not image")
