"""Joining and repeating arrays."""

from __future__ import annotations

from oracle.case import Case, normal

CASES = (
    Case("concat", "Concat", {"dim": 1}, {"a": (2, 3), "b": (2, 1), "c": (2, 2)}, positional=True),
    Case("concat_first", "concat", {"dim": 0}, {"a": (2, 3), "b": (1, 3)}, positional=True),
    Case("concat_last", "Concat", {"dim": -1}, {"a": (2, 3, 1), "b": (2, 3, 2)}, positional=True),
    Case("concat_maps", "Concat", {}, {"a": (2, 3, 2, 2), "b": (2, 1, 2, 2)}, positional=True),
    Case(
        "rnn_parameters",
        "_rnn_param_concat",
        {"dim": 0},
        {"a": (6,), "b": (4,), "c": (2,)},
        positional=True,
    ),
    Case("concat_one", "Concat", {"dim": 1}, {"a": (2, 3)}, positional=True),
    Case(
        "concat_float16",
        "Concat",
        {"dim": 1},
        {"a": normal(2, 3, dtype="float16"), "b": normal(2, 1, dtype="float16")},
        positional=True,
    ),
    Case("stack", "stack", {"axis": 0}, {"a": (2, 3), "b": (2, 3)}, positional=True),
    Case(
        "stack_middle",
        "stack",
        {"axis": 1},
        {"a": (2, 3), "b": (2, 3), "c": (2, 3)},
        positional=True,
    ),
    Case("stack_last", "stack", {"axis": -1}, {"a": (2, 3), "b": (2, 3)}, positional=True),
    Case("stack_one", "stack", {}, {"a": (2, 3)}, positional=True),
    Case("tile_less", "tile", {"reps": (2,)}, {"data": (2, 3)}),
    Case("tile_number", "tile", {"reps": 1}, {"data": (2, 3)}),
    Case("tile_more", "tile", {"reps": (2, 1, 3)}, {"data": (3,)}),
    Case("tile_row", "tile", {"reps": (1, 4)}, {"data": (3, 1)}),
    Case("tile_maps", "tile", {"reps": (1, 3, 1, 1)}, {"data": (2, 1, 2, 2)}),
    Case("tile_float16", "tile", {"reps": (3, 2)}, {"data": normal(2, 2, dtype="float16")}),
    Case("repeat", "repeat", {"repeats": 2}, {"data": (2, 3)}),
    Case("repeat_last", "repeat", {"repeats": 4, "axis": -1}, {"data": (2, 3)}),
    Case("repeat_before_last", "repeat", {"repeats": 2, "axis": -2}, {"data": (2, 3, 2)}),
    Case("repeat_one", "repeat", {"repeats": 1, "axis": 0}, {"data": (2, 3)}),
    Case(
        "repeat_float16",
        "repeat",
        {"repeats": 3, "axis": 0},
        {"data": normal(2, 3, dtype="float16")},
    ),
)
