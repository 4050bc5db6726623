"""Image resizing in C gives the bytes of the reference."""

from __future__ import annotations

import os
import sys

import numpy as np
import pytest

from core import imgproc
from core.imgproc import resize
from core.kernels import native
from core.kernels.native import resize as native_resize

pytestmark = pytest.mark.skipif(
    not native.is_available() and not os.environ.get("CI"), reason="the kernels are not compiled"
)


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize("method", [imgproc.LINEAR, imgproc.AREA])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ((17, 23), (9, 31)),
        ((5, 4), (40, 33)),
        ((40, 33), (5, 41)),
        ((40, 33), (7, 6)),
        ((1, 1), (3, 2)),
        ((9, 300), (10, 1)),
    ],
)
def test_bytes_match_numpys(
    channels: int,
    method: int,
    old: tuple[int, int],
    new: tuple[int, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    larger = np.random.RandomState(0).randint(0, 256, (old[0] + 2, old[1] + 3, channels), "uint8")
    larger[::2] = 255
    part = larger[1:-1, 2:-1]
    found = resize(part, new, method)
    module = sys.modules["core.imgproc.resize"]  # The package exports a function of the same name.
    monkeypatch.setattr(module, "resize_bytes", lambda image, taps: None)
    np.testing.assert_array_equal(found, resize(part, new, method))


def test_strided_images_are_copied_first() -> None:
    image = np.random.RandomState(0).randint(0, 256, (6, 8, 3), "uint8")
    expected = imgproc.resize(np.ascontiguousarray(image[::-1, ::2]), (9, 9))
    np.testing.assert_array_equal(imgproc.resize(image[::-1, ::2], (9, 9)), expected)


def test_without_the_library_nothing_is_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_resize, "library", lambda: None)
    numbers = np.zeros((2, 2))
    assert (
        native_resize.resize_bytes(np.zeros((2, 2, 1), "uint8"), [(numbers, numbers)] * 2) is None
    )
