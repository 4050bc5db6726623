"""Images."""

from __future__ import annotations

from oracle.case import Case, integers, uniform

_PHOTO = integers(4, 5, 3, high=256, dtype="uint8")
# MXNet leaves the middle of an odd number of columns or rows unwritten.
_EVEN = integers(4, 6, 3, high=256, dtype="uint8")
_COLORS = uniform(3, 4, 3, high=255)
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
    *(
        Case(f"resize_{number}", "_image_resize", attrs, {"data": data}, grads=False)
        for number, (attrs, data) in enumerate(
            [
                ({"size": (7, 3)}, _PHOTO),
                ({"size": (4,), "keep_ratio": True}, _PHOTO),
                ({"size": (6,), "keep_ratio": True, "interp": 2}, uniform(6, 4, 1, high=255)),
                ({"size": (3, 2), "interp": 0}, integers(2, 4, 5, 3, high=256)),
                ({"size": (6,), "interp": 3}, uniform(2, 4, 5, 3, high=255)),
            ]
        )
    ),
    *(
        # Both limits are equal, so that the factor is not random.
        Case(
            f"{color}_{number}",
            f"_image_random_{color}",
            {"min_factor": factor, "max_factor": factor},
            {"data": data},
            numeric=False,
            grads=data is _COLORS,
        )
        for color in ("brightness", "contrast", "saturation", "hue")
        for number, (factor, data) in enumerate(
            [(0.5, _PHOTO), (1.375, _PHOTO), (0.75, _COLORS), (2.0, uniform(3, 2, 1, high=255))]
        )
        # MXNet writes nothing where there is one channel.
        if not (color == "hue" and number == 3)
    ),
    Case(
        "lit", "_image_adjust_lighting", {"alpha": (0.1, -0.2, 0.3)}, {"data": _PHOTO}, grads=False
    ),
    Case(
        "lit_floats",
        "_image_adjust_lighting",
        {"alpha": (0.5, 0.1, 0.2)},
        {"data": _COLORS},
        numeric=False,
    ),
    Case("not_lit", "_image_random_lighting", {"alpha_std": 0.0}, {"data": _PHOTO}, grads=False),
)
