"""Slicing and splitting."""

from __future__ import annotations

from oracle.case import Case, normal, zeros

_BOUNDS = (
    ("start", {"begin": (1,), "end": (3,)}),
    ("none", {"begin": (None, 1), "end": (None, -1)}),
    ("beyond", {"begin": (0,), "end": (9,)}),
    ("negative", {"begin": (-3,), "end": (4,)}),
    ("empty_bounds", {"begin": (None, None), "end": (None, None)}),
    ("step", {"begin": (0, 1), "end": (None, 4), "step": (2, 2)}),
    ("step_none", {"begin": (0, 1), "end": (None, 4), "step": (2, None)}),
    ("back", {"begin": (3,), "end": (1,), "step": (-1,)}),
    ("back_all", {"begin": (None,), "end": (None,), "step": (-2,)}),
    ("back_beyond", {"begin": (4,), "end": (-6,), "step": (-1,)}),
)

CASES = (
    *(Case(f"slice_{name}", "slice", attrs, {"data": (5, 4)}) for name, attrs in _BOUNDS),
    Case(
        "slice_maps",
        "slice",
        {"begin": (None, 1, None, None), "end": (None, 3, None, None)},
        {"data": (2, 4, 2, 2)},
    ),
    Case("crop_alias", "crop", {"begin": (0, 1), "end": (2, 3)}, {"data": (3, 4)}),
    Case(
        "assign",
        "_slice_assign",
        {"begin": (1, 0), "end": (3, 2)},
        {"lhs": (4, 3), "rhs": (2, 2)},
        grads=False,
    ),
    Case(
        "assign_step",
        "_slice_assign",
        {"begin": (None,), "end": (None,), "step": (2,)},
        {"lhs": (4, 3), "rhs": (2, 3)},
        grads=False,
    ),
    Case(
        "assign_scalar",
        "_slice_assign_scalar",
        {"scalar": 2.5, "begin": (1, 0), "end": (3, 2)},
        {"data": (4, 3)},
        grads=False,
    ),
    Case("axis", "slice_axis", {"axis": 0, "begin": 1, "end": 3}, {"data": (4, 3)}),
    Case("axis_none", "slice_axis", {"axis": 1, "begin": 1, "end": None}, {"data": (4, 3)}),
    Case("axis_negative", "slice_axis", {"axis": -1, "begin": -3, "end": -1}, {"data": (2, 3, 4)}),
    Case(
        "axis_float16",
        "slice_axis",
        {"axis": 2, "begin": 0, "end": 1},
        {"data": normal(2, 3, 4, dtype="float16")},
    ),
    Case("like", "slice_like", {}, {"data": (5, 4), "shape_like": (2, 3)}),
    Case(
        "like_integers",
        "slice_like",
        {},
        {"data": (3, 4), "shape_like": zeros(2, 3, dtype="int32")},
        grads=("data",),
    ),
    Case(
        "like_axes",
        "slice_like",
        {"axes": (2, 3)},
        {"data": (1, 2, 5, 4), "shape_like": (1, 7, 3, 2)},
    ),
    Case("like_negative", "slice_like", {"axes": (-1,)}, {"data": (5, 4), "shape_like": (2, 3)}),
    Case("split", "SliceChannel", {"num_outputs": 3}, {"data": (2, 6)}),
    Case("split_last", "split", {"num_outputs": 2, "axis": -1}, {"data": (2, 3, 4)}),
    Case("split_first", "SliceChannel", {"num_outputs": 2, "axis": 0}, {"data": (4, 3)}),
    Case(
        "split_squeeze", "SliceChannel", {"num_outputs": 3, "squeeze_axis": 1}, {"data": (2, 3, 4)}
    ),
    Case(
        "split_squeeze_last",
        "SliceChannel",
        {"num_outputs": 3, "axis": 2, "squeeze_axis": True},
        {"data": (2, 2, 3)},
    ),
    Case("split_one", "SliceChannel", {"num_outputs": 1}, {"data": (2, 3)}),
    Case(
        "split_one_squeeze",
        "SliceChannel",
        {"num_outputs": 1, "squeeze_axis": True},
        {"data": (2, 1, 3)},
    ),
    Case("split_v2", "_split_v2", {"indices": (0, 1, 3), "axis": 1}, {"data": (2, 6)}),
    Case(
        "split_v2_sections",
        "_split_v2",
        {"indices": (), "axis": 1, "sections": 4},
        {"data": (2, 6)},
    ),
    Case(
        "split_v2_squeeze",
        "_split_v2",
        {"indices": (), "axis": 0, "sections": 2, "squeeze_axis": True},
        {"data": (2, 3)},
    ),
    Case(
        "crop_like",
        "Crop",
        {"num_args": 2},
        {"a": (1, 2, 5, 6), "b": (1, 3, 3, 4)},
        positional=True,
        grads=("a",),
    ),
    Case(
        "crop_offset",
        "Crop",
        {"num_args": 2, "offset": (2, 1)},
        {"a": (1, 2, 5, 6), "b": (1, 3, 3, 4)},
        positional=True,
        grads=("a",),
    ),
    Case(
        "crop_center",
        "Crop",
        {"num_args": 2, "center_crop": True},
        {"a": (1, 2, 6, 7), "b": (1, 3, 3, 4)},
        positional=True,
        grads=("a",),
    ),
    Case(
        "crop_one",
        "Crop",
        {"num_args": 1, "h_w": (3, 2), "offset": (1, 2)},
        {"a": (2, 2, 5, 6)},
        positional=True,
    ),
    Case(
        "crop_one_center",
        "Crop",
        {"num_args": 1, "h_w": (2, 3), "center_crop": True},
        {"a": (2, 2, 5, 6)},
        positional=True,
    ),
)
