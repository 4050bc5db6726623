"""Images."""

from __future__ import annotations

from oracle.case import Case, integers, uniform

_PHOTO = integers(4, 5, 3, high=256, dtype="uint8")
# MXNet leaves the middle of an odd number of columns or rows unwritten.
_EVEN = integers(4, 6, 3, high=256, dtype="uint8")
_PART = {"x": 1, "y": 2, "width": 3, "height": 2}

CASES = (
    Case("tensor", "_image_to_tensor", {}, {"data": _PHOTO}, grads=False),
    Case("tensors", "_image_to_tensor", {}, {"data": uniform(2, 4, 5, 1, high=255)}, grads=False),
    Case("normal", "_image_normalize", {"mean": (0.5,), "std": (2.0,)}, {"data": (1, 4, 5)}),
    Case(
        "channels",
        "_image_normalize",
        {"mean": (0.5, 1.0, -1.0), "std": (2.0, 0.5, 3.0)},
        {"data": (2, 3, 2, 4)},
    ),
    Case("crop", "_image_crop", _PART, {"data": (4, 5, 3)}),
    Case("crops", "_image_crop", _PART, {"data": (2, 4, 5, 1)}),
    Case("crop_bytes", "_image_crop", _PART, {"data": _PHOTO}, grads=False),
    Case("left_right", "_image_flip_left_right", {}, {"data": _EVEN}, grads=False),
    Case("top_bottom", "_image_flip_top_bottom", {}, {"data": (4, 5, 3)}, grads=False),
)
