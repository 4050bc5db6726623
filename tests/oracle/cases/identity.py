"""Copies, gradient stops, casts, and operators on shapes."""

from __future__ import annotations

from oracle.case import Case, integers, normal, values

CASES = (
    Case("copy", "_copy", {}, {"data": (2, 3, 4)}),
    Case("identity", "identity", {}, {"data": normal(2, 3, dtype="float64")}),
    Case("block_grad", "BlockGrad", {}, {"data": (2, 3)}, numeric=False),
    Case("make_loss", "make_loss", {}, {"data": (2, 3)}, numeric=False),
    Case(
        "like_rhs",
        "_identity_with_attr_like_rhs",
        {},
        {"lhs": (2, 3), "rhs": (2, 3)},
        grads=("lhs",),
    ),
    *(
        Case(
            f"cast_{dtype}",
            "Cast",
            {"dtype": dtype},
            {"data": normal(3, 4, scale=5.0)},
            numeric=False,
        )
        for dtype in ("float16", "float64", "int32", "int8", "float32")
    ),
    Case(
        "cast_from_int",
        "Cast",
        {"dtype": "float32"},
        {"data": integers(3, 4, low=-9, high=9, dtype="int32")},
        train=False,
    ),
    Case("cast_bool", "Cast", {"dtype": "bool"}, {"data": values([0.0, 0.5, -2.0])}, train=False),
    Case("amp_cast", "amp_cast", {"dtype": "float16"}, {"data": (3, 4)}, numeric=False),
    Case(
        "amp_cast_int",
        "amp_cast",
        {"dtype": "float16"},
        {"data": integers(3, high=9, dtype="int32")},
        train=False,
    ),
    Case(
        "amp_multicast",
        "amp_multicast",
        {"num_outputs": 2},
        {"a": (2, 3), "b": (2, 3)},
        positional=True,
    ),
    Case(
        "amp_multicast_narrow",
        "amp_multicast",
        {"num_outputs": 2, "cast_narrow": True},
        {"a": (2, 3), "b": (2, 3)},
        positional=True,
    ),
    Case("np_copy", "_np_copy", {}, {"a": (2, 3)}),
    Case("shape_array", "shape_array", {}, {"data": (2, 3, 4)}, grads=False),
    Case("size_array", "size_array", {}, {"data": (2, 3, 4)}, grads=False),
)
