"""Sliding windows over images, and layouts."""

from __future__ import annotations

import numpy as np
import pytest

from core.errors import AttributeValueError
from core.ops.window import (
    Window,
    channels_first,
    channels_last,
    check_layout,
    check_window,
    is_channels_last,
)


@pytest.mark.parametrize(
    ("window", "image"),
    [
        (Window((3,), (1,), (1,), (0,)), (7,)),
        (Window((3,), (2,), (2,), (1,)), (8,)),
        (Window((2, 3), (3, 1), (1, 2), (0, 2)), (9, 6)),
    ],
)
def test_slices_match_the_definition(window: Window, image: tuple[int, ...]) -> None:
    padded = np.zeros([n + 2 * p for n, p in zip(image, window.pad, strict=True)])
    padded.flat = np.arange(padded.size)
    counts = window.counts(image)
    for position in window.positions():
        seen = padded[window.padded_slices(position, counts)]
        assert seen.shape == counts
        for o in np.ndindex(*counts):
            place = tuple(
                i * s + k * d
                for i, s, k, d in zip(o, window.stride, position, window.dilate, strict=True)
            )
            assert seen[o] == padded[place]
    beyond = [
        n * s + span > size
        for n, s, span, size in zip(counts, window.stride, window.spans, padded.shape, strict=True)
    ]
    assert all(beyond), "one more window would fit"


def test_layouts_move_the_channel_axis() -> None:
    assert is_channels_last("NHWC")
    assert not is_channels_last("NCHW")
    assert not is_channels_last(None)
    assert channels_first((2, 5, 6, 3), "NHWC") == (2, 3, 5, 6)
    assert channels_last((2, 3, 5, 6), "NHWC") == (2, 5, 6, 3)
    assert channels_first((2, 3, 5), "NCW") == channels_last((2, 3, 5), None) == (2, 3, 5)
    assert channels_first(None, "NHWC") is None


def test_invalid_windows_are_refused() -> None:
    check_window((3, 3), stride=(), pad=(1, 1))
    with pytest.raises(AttributeValueError, match=r"kernel is \(\); expected 1 to 3 axes"):
        check_window(())
    with pytest.raises(AttributeValueError, match=r"pad is \(1,\), kernel is \(3, 3\)"):
        check_window((3, 3), pad=(1,))
    with pytest.raises(AttributeValueError, match="layout is 'NHWC'; expected one with 1 spatial"):
        check_layout("NHWC", 1)
