"""Elementwise functions of two operands: equal shapes, broadcast, with a scalar."""

from __future__ import annotations

from oracle.case import Case, Spec, integers, permutation, positive, uniform, values

_ARITHMETIC = ("add", "sub", "mul", "div")
_OTHER = ("mod", "power", "maximum", "minimum", "hypot")
_LOGIC = (
    "equal",
    "not_equal",
    "greater",
    "greater_equal",
    "lesser",
    "lesser_equal",
    "logical_and",
    "logical_or",
    "logical_xor",
)
_ZERO_OR_MORE = ((2, 1, 3), (1, 4, 1))
_SCALAR = ("plus", "minus", "mul", "div", "mod", "power", "maximum", "minimum", "hypot")
_REVERSED = ("rminus", "rdiv", "rmod", "rpower")


def _small(*shape: int, dtype: str = "float32") -> Spec:
    """Integers from -2 to 2, so that some are equal and some are zero."""
    return integers(*shape, low=-2, high=3, dtype=dtype)


def _operands(kind: str, left: tuple[int, ...], right: tuple[int, ...], dtype: str = "float32"):
    if kind in _LOGIC:
        return {"lhs": _small(*left, dtype=dtype), "rhs": _small(*right, dtype=dtype)}
    if kind == "mod":
        # Far from multiples of the divisor, where the remainder jumps.
        return {
            "lhs": uniform(*left, low=5.2, high=5.8, dtype=dtype),
            "rhs": uniform(*right, low=1.9, high=2.1, dtype=dtype),
        }
    return {"lhs": positive(*left, dtype=dtype), "rhs": positive(*right, dtype=dtype)}


def _elementwise_name(kind: str) -> str:
    return f"elemwise_{kind}" if kind in _ARITHMETIC else f"_{kind}"


_KINDS = (*_ARITHMETIC, *_OTHER, *_LOGIC)

CASES = (
    *(
        Case(
            kind,
            _elementwise_name(kind),
            {},
            _operands(kind, (3, 4), (3, 4)),
            numeric=kind not in _LOGIC,
        )
        for kind in _KINDS
    ),
    *(
        Case(f"{kind}_{dtype}", _elementwise_name(kind), {}, _operands(kind, (2, 3), (2, 3), dtype))
        for kind in (*_ARITHMETIC, *_OTHER)
        for dtype in ("float64", "float16")
    ),
    *(
        Case(
            f"{kind}_int32",
            _elementwise_name(kind),
            {},
            {
                "lhs": integers(3, 4, low=-9, high=9, dtype="int32"),
                "rhs": integers(3, 4, low=1, high=4, dtype="int32"),
            },
            train=False,
        )
        for kind in (*_ARITHMETIC, *_OTHER, "greater")
    ),
    *(
        Case(
            f"broadcast_{kind}",
            f"broadcast_{kind}",
            {},
            _operands(kind, (2, 3, 1), (1, 3, 4)),
            numeric=kind not in _LOGIC,
        )
        for kind in _KINDS
    ),
    *(
        Case(
            f"broadcast_{kind}_{dtype}",
            f"broadcast_{kind}",
            {},
            _operands(kind, (2, 3), (2, 1), dtype),
        )
        for kind in ("add", "mul", "div", "maximum")
        for dtype in ("float64", "float16")
    ),
    Case("broadcast_same", "broadcast_mul", {}, {"lhs": (3, 2), "rhs": (3, 2)}),
    Case("broadcast_ranks", "broadcast_add", {}, {"lhs": (2, 3, 4), "rhs": (4,)}),
    Case("broadcast_ranks_left", "broadcast_sub", {}, {"lhs": (3, 1), "rhs": (2, 3, 4)}),
    Case("broadcast_all", "broadcast_mul", {}, {"lhs": (1, 1, 1, 1), "rhs": (2, 3, 2, 3)}),
    *(
        Case(
            f"broadcast_{kind}_{which}",
            f"broadcast_{kind}",
            {},
            {"lhs": (2, 3, 2, 3), "rhs": narrow},
        )
        for kind in ("add", "mul", "sub")
        for which, narrow in (("channels", (1, 3, 1, 1)), ("sample_channels", (2, 3, 1, 1)))
    ),
    Case(
        "broadcast_div_channels",
        "broadcast_div",
        {},
        {"lhs": (2, 3, 2, 3), "rhs": positive(1, 3, 1, 1)},
    ),
    Case("broadcast_mul_left", "broadcast_mul", {}, {"lhs": (2, 3, 1, 1), "rhs": (2, 3, 2, 3)}),
    Case("broadcast_sub_left", "broadcast_sub", {}, {"lhs": (2, 3, 1, 1), "rhs": (2, 3, 2, 3)}),
    *(
        Case(
            f"{kind}_ties",
            f"_{kind}",
            {},
            {"lhs": _small(4, 4), "rhs": _small(4, 4)},
            numeric=False,
        )
        for kind in ("maximum", "minimum")
    ),
    *(
        Case(
            f"broadcast_{kind}_ties",
            f"broadcast_{kind}",
            {},
            {"lhs": _small(4, 4), "rhs": _small(1, 4)},
            numeric=False,
        )
        for kind in ("maximum", "minimum")
    ),
    Case("mod_zero", "_mod", {}, {"lhs": _small(4, 4), "rhs": _small(4, 4)}, train=False),
    *(
        Case(
            f"{kind}_scalar_{number}",
            f"_{kind}_scalar",
            {"scalar": number},
            {"data": positive(3, 4)},
        )
        for kind in (*_SCALAR, *_REVERSED)
        for number in (2.0, 0.3)
        if (kind, number) not in (("mod", 0.3),)
    ),
    *(
        Case(f"{kind}_scalar_default", f"_{kind}_scalar", {}, {"data": permutation(3, 4)})
        for kind in ("plus", "mul", "div")
    ),
    *(
        Case(
            f"{kind}_scalar_logic",
            f"_{kind}_scalar",
            {"scalar": 1.0},
            {"data": _small(4, 4)},
            numeric=False,
        )
        for kind in _LOGIC
    ),
    *(
        Case(
            f"{kind}_scalar_ties",
            f"_{kind}_scalar",
            {"scalar": 1.0},
            {"data": _small(4, 4)},
            numeric=False,
        )
        for kind in ("maximum", "minimum")
    ),
    *(
        Case(
            f"{kind}_scalar_int32_{number}",
            f"_{kind}_scalar",
            {"scalar": number},
            {"data": integers(3, 4, low=1, high=9, dtype="int32")},
            train=False,
        )
        for kind in (*_SCALAR, *_REVERSED, "greater")
        for number in (3, 1.7)
    ),
    *(
        Case(
            f"{kind}_scalar_int32_fraction",
            f"_{kind}_scalar",
            {"scalar": 1.5, "is_int": False},
            {"data": integers(3, 4, low=1, high=9, dtype="int32")},
            train=False,
        )
        for kind in ("plus", "mul", "rdiv", "maximum", "greater")
    ),
    Case(
        "plus_scalar_uint8",
        "_plus_scalar",
        {"scalar": 300},
        {"data": integers(3, high=9, dtype="uint8")},
        train=False,
    ),
    Case(
        "plus_scalar_bool",
        "_plus_scalar",
        {"scalar": 1},
        {"data": values([0, 1, 1], "bool")},
        train=False,
    ),
    Case(
        "plus_scalar_float16",
        "_plus_scalar",
        {"scalar": 0.1},
        {"data": positive(5, dtype="float16")},
    ),
    Case(
        "mul_scalar_float64", "_mul_scalar", {"scalar": 0.1}, {"data": positive(5, dtype="float64")}
    ),
    Case("mul_scalar_far", "_mul_scalar", {"scalar": -1e18}, {"data": positive(5)}, numeric=False),
    Case(
        "div_scalar_zero",
        "_div_scalar",
        {"scalar": 0.0},
        {"data": values([-1.0, 2.0])},
        train=False,
    ),
    Case("mod_scalar_zero", "_mod_scalar", {"scalar": 0.0}, {"data": positive(4)}, numeric=False),
    Case(
        "mod_scalar_negative",
        "_mod_scalar",
        {"scalar": -3.0},
        {"data": values([1.0, 2.0, -1.0, -5.5, 3.5])},
    ),
    *(
        Case(
            f"smooth_l1_{number}",
            "smooth_l1",
            {"scalar": number},
            {"data": permutation(4, 4, step=0.21)},
        )
        for number in (1.0, 3.0)
    ),
    Case("smooth_l1_default", "smooth_l1", {}, {"data": permutation(4, 4, step=0.21)}),
    Case("scatter_div", "_scatter_elemwise_div", {}, {"lhs": (3, 2), "rhs": positive(3, 2)}),
    *(
        Case(f"scatter_{kind}", f"_scatter_{kind}_scalar", {"scalar": 2.5}, {"data": (3, 2)})
        for kind in ("plus", "minus")
    ),
    Case("grad_add", "_grad_add", {}, {"lhs": (3, 2), "rhs": (3, 2)}, grads=False),
    Case("npi_add", "_npi_add", {}, {"lhs": (2, 3), "rhs": (3,)}),
    Case(
        "npi_add_mixed",
        "_npi_add",
        {},
        {"lhs": (2, 3), "rhs": integers(2, 3, high=4, dtype="int32")},
        train=False,
    ),
    Case("npi_subtract", "_npi_subtract", {}, {"lhs": (2, 3), "rhs": (2, 1)}),
    Case("npi_power", "_npi_power", {}, {"lhs": positive(2, 3), "rhs": (2, 1)}),
    Case("npi_subtract_scalar", "_npi_subtract_scalar", {"scalar": 0.5}, {"data": (2, 3)}),
    Case("npi_rpower_scalar", "_npi_rpower_scalar", {"scalar": 2.5}, {"data": (2, 3)}),
    Case("npi_multiply", "_npi_multiply", {}, {"lhs": (2, 3), "rhs": (2, 1)}),
    Case("npi_power_scalar", "_npi_power_scalar", {"scalar": 2.0}, {"data": (2, 3)}),
    Case("npi_multiply_scalar", "_npi_multiply_scalar", {"scalar": 0.5}, {"data": (2, 3)}),
    Case("npi_add_scalar", "_npi_add_scalar", {"scalar": 0.5}, {"data": (2, 3)}),
    Case("npi_rsubtract_scalar", "_npi_rsubtract_scalar", {"scalar": 0.5}, {"data": (2, 3)}),
)
