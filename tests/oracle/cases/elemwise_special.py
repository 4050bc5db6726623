"""Elementwise operators with special attributes or any number of inputs."""

from __future__ import annotations

from oracle.case import Case, integers, normal, permutation, values

CASES = (
    Case("clip", "clip", {"a_min": -1.0, "a_max": 0.5}, {"data": permutation(4, 5, step=0.11)}),
    Case(
        "clip_ties",
        "clip",
        {"a_min": 0, "a_max": 6},
        {"data": values([-1.0, 0.0, 3.0, 6.0, 9.0])},
        numeric=False,
    ),
    Case(
        "clip_nan",
        "clip",
        {"a_min": 0, "a_max": 6},
        {"data": values([float("nan"), 1.0])},
        train=False,
    ),
    Case(
        "clip_nan_gradient",
        "clip",
        {"a_min": 0, "a_max": 6},
        {"data": values([float("nan"), 1.0, -1.0, 7.0, 0.0])},
        numeric=False,
    ),
    *(
        Case(
            f"clip_swapped_{dtype}",
            "clip",
            {"a_min": 4, "a_max": 2},
            {"data": values([1, 2, 3, 4, 5], dtype=dtype)},
            numeric=False,
        )
        for dtype in ("float16", "float32", "float64", "int32", "uint8")
    ),
    Case(
        "clip_swapped_nan",
        "clip",
        {"a_min": 4, "a_max": 2},
        {"data": values([float("nan"), 3.0, 5.0])},
        numeric=False,
    ),
    Case(
        "clip_int",
        "clip",
        {"a_min": -1, "a_max": 2},
        {"data": integers(9, low=-5, high=6, dtype="int32")},
        train=False,
    ),
    Case(
        "clip_float16",
        "clip",
        {"a_min": 0, "a_max": 6},
        {"data": normal(9, scale=6.0, dtype="float16")},
        numeric=False,
    ),
    Case("hard_sigmoid", "hard_sigmoid", {}, {"data": permutation(5, 5, step=0.37)}),
    Case(
        "hard_sigmoid_attrs",
        "hard_sigmoid",
        {"alpha": 0.5, "beta": 0.1},
        {"data": permutation(4, 4, step=0.37)},
    ),
    Case(
        "hard_sigmoid_float16", "hard_sigmoid", {}, {"data": normal(9, scale=3.0, dtype="float16")}
    ),
    Case("div_sqrt_dim", "_contrib_div_sqrt_dim", {}, {"data": (2, 3, 5)}),
    Case("add_one", "add_n", {"num_args": 1}, {"a": (2, 3)}, positional=True),
    Case("add_two", "add_n", {"num_args": 2}, {"a": (2, 3), "b": (2, 3)}, positional=True),
    Case(
        "add_four",
        "ElementWiseSum",
        {"num_args": 4},
        {"a": (2, 3), "b": (2, 3), "c": (2, 3), "d": (2, 3)},
        positional=True,
    ),
)
