"""Arrays made from attributes alone."""

from __future__ import annotations

from oracle.case import Case

CASES = (
    *(
        Case(f"zeros_{dtype}", "_zeros", {"shape": (2, 3), "dtype": dtype}, grads=False)
        for dtype in ("float32", "float64", "int32", "uint8")
    ),
    Case("ones", "_ones", {"shape": (2, 3)}, grads=False),
    Case("ones_float16", "_ones", {"shape": (2, 3), "dtype": "float16"}, grads=False),
    Case("full", "_full", {"shape": (2, 3), "value": 2.5}, grads=False),
    Case("full_int", "_full", {"shape": (4,), "value": 2.5, "dtype": "int32"}, grads=False),
    Case("arange_stop", "_arange", {"start": 5}, grads=False),
    Case("arange", "_arange", {"start": 0, "stop": 5}, grads=False),
    Case("arange_tenths", "_arange", {"start": 0.3, "stop": 9, "step": 0.1}, grads=False),
    Case("arange_step", "_arange", {"start": 0.5, "stop": 3.2, "step": 0.3}, grads=False),
    Case(
        "arange_integers",
        "_arange",
        {"start": 1.3, "stop": 8.6, "step": 1.3, "dtype": "int32"},
        grads=False,
    ),
    Case(
        "arange_repeat",
        "_arange",
        {"start": 384, "stop": 388, "step": 1.0, "repeat": 2},
        grads=False,
    ),
    Case("arange_down", "_arange", {"start": 5, "stop": 0, "step": -1.5}, grads=False),
    Case(
        "arange_int", "_arange", {"start": 0, "stop": 6, "step": 2, "dtype": "int32"}, grads=False
    ),
    Case("linspace", "_linspace", {"start": 0, "stop": 1, "num": 5}, grads=False),
    Case(
        "linspace_open",
        "_linspace",
        {"start": -1, "stop": 1, "num": 4, "endpoint": False},
        grads=False,
    ),
    Case("linspace_one", "_linspace", {"start": 3, "stop": 1, "num": 1}, grads=False),
    Case("eye", "_eye", {"N": 3}, grads=False),
    Case("eye_above", "_eye", {"N": 3, "M": 4, "k": 1}, grads=False),
    Case("eye_below", "_eye", {"N": 3, "M": 0, "k": -1, "dtype": "int32"}, grads=False),
    Case("arange_like", "_contrib_arange_like", {}, {"data": (2, 3)}, grads=False),
    Case(
        "arange_like_axis",
        "_contrib_arange_like",
        {"axis": -1, "start": 1.5, "step": 0.5},
        {"data": (2, 4)},
        grads=False,
    ),
    Case(
        "arange_like_repeat",
        "_contrib_arange_like",
        {"repeat": 2, "axis": 1},
        {"data": (2, 4)},
        grads=False,
    ),
)
