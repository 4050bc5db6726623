"""The table of elementwise functions of two operands.

Each row defines up to five operators: for equal shapes, for broadcast shapes, for broadcast shapes
with the type promotion of ``mx.np``, with a number on the right, and with a number on the left.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..capabilities.functions import Arithmetic
from ..capabilities.quantized import QuantizedForm
from ..types import Array, is_floating
from .binary_row import BinaryRow, Function, Operand, Slope
from .derivatives import Factor, Functions, Partials, Tensor, logarithm
from .operator import Run
from .sparse_elementwise import product_kernel, quotient_kernel, sum_kernel
from .storage_rules import (
    if_alike,
    if_one_is_sparse,
    of_first,
    of_rows_on_left,
    scaled_matrix,
)

__all__ = ["BINARY"]


def _ufunc(name: str) -> Function:
    """Return a function that calls the ufunc of this name and converts its result to the output's
    dtype."""

    def apply(run: Run, a: Operand, b: Operand, out: Array) -> None:
        getattr(run.xp, name)(a, b, out=out, casting="unsafe")

    return apply


def _extreme(name: str) -> Function:
    """Return a function for the maximum or minimum; with a number it uses ``clip``, which is faster
    in NumPy."""
    choose = _ufunc(name)

    def apply(run: Run, a: Operand, b: Operand, out: Array) -> None:
        if not isinstance(b, float | np.floating) or not is_floating(out.dtype):
            choose(run, a, b, out)
        elif name == "maximum":
            run.xp.clip(a, b, math.inf, out=out)
        else:
            run.xp.clip(a, -math.inf, b, out=out)

    return apply


def _scratch_like(run: Run, a: Operand, b: Operand, dtype: str | None = None) -> Array:
    array = b if isinstance(a, float | np.generic) else a
    return run.scratch(array.shape, dtype or array.dtype)


def _where(name: str) -> Slope:
    """Return a slope that is 1 where the comparison holds, else 0."""

    def slope(run: Run, a: Operand, b: Operand) -> Array:
        mask = _scratch_like(run, a, b, "bool")
        getattr(run.xp, name)(a, b, out=mask)
        return mask

    return Slope(slope, (0, 1))


def _inverse(run: Run, a: Operand, b: Operand) -> Any:
    """Return 1 / b."""
    if isinstance(b, float):
        # Python refuses to divide by 0; arrays follow IEEE 754.
        return 1 / b if b else math.copysign(math.inf, b)
    factor = run.scratch(b.shape, b.dtype)
    run.xp.reciprocal(b, out=factor)
    return factor


def _quotient_slope(run: Run, a: Operand, b: Operand) -> Array:
    """Return -a / b**2."""
    factor = _scratch_like(run, b, b)
    run.xp.multiply(b, b, out=factor)
    run.xp.divide(a, factor, out=factor)
    run.xp.negative(factor, out=factor)
    return factor


def _power(run: Run, a: Operand, b: Operand, out: Array) -> None:
    if is_floating(out.dtype):
        run.xp.power(a, b, out=out)
    else:
        # As in MXNet; NumPy refuses negative powers of integers.
        run.xp.power(a, b, out=out, dtype="float64", casting="unsafe")


def _base_slope(run: Run, a: Operand, b: Operand) -> Array:
    """Return b * a**(b - 1)."""
    factor = _scratch_like(run, a, b)
    if isinstance(b, float):
        run.xp.power(a, b - 1, out=factor)
    else:
        run.xp.subtract(b, 1, out=factor)
        run.xp.power(a, factor, out=factor)
    factor *= b
    return factor


def _exponent_slope(run: Run, a: Operand, b: Operand) -> Array:
    """Return a**b * log(a)."""
    factor = _scratch_like(run, a, b)
    run.xp.power(a, b, out=factor)
    if isinstance(a, float):
        factor *= float(np.log(a))
    else:
        logarithm = run.scratch(a.shape, a.dtype)
        run.xp.log(a, out=logarithm)
        factor *= logarithm
    return factor


def _mod(run: Run, a: Operand, b: Operand, out: Array) -> None:
    """Write the remainder with the sign of b, and 0 where b is 0."""
    if isinstance(b, float | np.generic):
        if b == 0:
            out.fill(0)
        else:
            run.xp.mod(a, b, out=out)
        return
    # Noted first, because the output may lie in the memory of b.
    is_zero = run.scratch(b.shape, "bool")
    run.xp.equal(b, 0, out=is_zero)
    run.xp.mod(a, b, out=out)
    run.xp.copyto(out, 0, where=run.xp.broadcast_to(is_zero, out.shape))


def _mod_step(run: Run, a: Operand, b: Operand) -> float:
    """Return 1; of integers, as in MXNet, 0."""
    return 1.0 if is_floating(a.dtype) else 0.0


def _mod_slope(run: Run, a: Operand, b: Operand) -> Array | float:
    """Return -floor(a / b); of integers, as in MXNet, 0."""
    if not is_floating(b.dtype):
        return 0.0
    factor = _scratch_like(run, a, b)
    run.xp.divide(a, b, out=factor, casting="unsafe")
    run.xp.floor(factor, out=factor)
    run.xp.negative(factor, out=factor)
    return factor


def _hypot_slope(run: Run, a: Operand, b: Operand) -> Array:
    """Return a / hypot(a, b)."""
    factor = _scratch_like(run, a, b)
    run.xp.hypot(a, b, out=factor)
    run.xp.divide(a, factor, out=factor)
    return factor


def _smooth_l1(run: Run, a: Operand, b: Operand, out: Array) -> None:
    """Write (b a)**2 / 2 where |a| < 1 / b**2, else |a| - 1 / (2 b**2)."""
    if not is_floating(out.dtype):
        wide, found = run.scratch(a.shape, "float64"), run.scratch(a.shape, "float64")
        run.xp.copyto(wide, a)
        _smooth_l1(run, wide, float(b), found)
        run.xp.copyto(out, found, casting="unsafe")
        return
    square = b * b
    # With bent = min(|a|, 1 / b**2), both cases are (|a| - bent / 2) * bent * b**2.
    bent = _scratch_like(run, a, b)
    run.xp.abs(a, out=out)
    run.xp.minimum(out, _inverse(run, a, square), out=bent)
    square_bent = _scratch_like(run, a, b)
    run.xp.multiply(bent, 0.5, out=square_bent)
    out -= square_bent
    out *= bent
    out *= square


def _smooth_l1_slope(run: Run, a: Operand, b: Operand) -> Array:
    """Return b**2 a, cut to [-1, 1]."""
    factor = _scratch_like(run, a, b)
    run.xp.multiply(a, b * b, out=factor)
    run.xp.clip(factor, -1, 1, out=factor)
    return factor


def _is_zero(number: float) -> bool:
    return number == 0


def _comparison(
    name: str, ufunc: str, title: str, keeps_zeros: Callable[[float], bool] | None = None
) -> BinaryRow:
    """Return the row of a comparison; ``title`` holds the words of its CamelCase name."""
    return BinaryRow(
        f"1 where {ufunc}(a, b), else 0.".replace("_", " "),
        _ufunc(ufunc),
        elementwise=(f"_{name}", "_" + title.replace(" ", "_")),
        broadcast=(f"broadcast_{name}",),
        scalar=(f"_{name}_scalar", "_" + title.replace(" ", "") + "Scalar"),
        keeps_zeros=keeps_zeros,
    )


_PRODUCT = (
    _ufunc("multiply"),
    Slope(lambda run, a, b: b, (1,)),
    Slope(lambda run, a, b: a, (0,)),
)
_POWER = (
    _power,
    Slope(_base_slope, (0, 1), has_fractions=True),
    Slope(_exponent_slope, (0, 1), has_fractions=True),
)


def _smooth_l1_partial(f: Functions, a: Tensor, b: float, y: Tensor) -> Factor:
    square = b**2
    slope: Factor = f.where(f.abs(a) < 1 / square, square * a, f.sign(a))
    return slope


def _no_partial(f: Functions, a: Tensor, b: float, y: Tensor) -> Factor:
    raise AssertionError("the number has no gradient")


BINARY = (
    BinaryRow(
        "a + b.",
        _ufunc("add"),
        1.0,
        1.0,
        on_bytes=QuantizedForm("_contrib_quantized_elemwise_add"),
        elementwise=("elemwise_add", "_add", "_plus", "_Plus", "_sparse_elemwise_add"),
        broadcast=(
            "broadcast_add",
            "broadcast_plus",
            "_sparse_broadcast_add",
            "_sparse_broadcast_plus",
        ),
        scalar=("_plus_scalar", "_PlusScalar"),
        elementwise_storage=if_alike,
        sparse_kernel=partial(sum_kernel, sign=1.0),
        keeps_zeros=_is_zero,
        names_outputs=True,
        arithmetic=Arithmetic.ADD,
        partials=Partials(lambda f, a, b, y: 1.0, lambda f, a, b, y: 1.0),
    ),
    BinaryRow(
        "a + b, as MXNet sums the gradients of an output used more than once.",
        _ufunc("add"),
        1.0,
        1.0,
        elementwise=("_grad_add",),
        arithmetic=Arithmetic.ADD,
    ),
    BinaryRow(
        "a + b.",
        _ufunc("add"),
        1.0,
        1.0,
        mixed=("_npi_add",),
        scalar=("_npi_add_scalar",),
        arithmetic=Arithmetic.ADD,
    ),
    BinaryRow(
        "a - b.",
        _ufunc("subtract"),
        1.0,
        -1.0,
        elementwise=("elemwise_sub", "_sub", "_minus", "_Minus", "_sparse_elemwise_sub"),
        broadcast=(
            "broadcast_sub",
            "broadcast_minus",
            "_sparse_broadcast_sub",
            "_sparse_broadcast_minus",
        ),
        scalar=("_minus_scalar", "_MinusScalar"),
        reversed=("_rminus_scalar", "_RMinusScalar"),
        elementwise_storage=if_alike,
        sparse_kernel=partial(sum_kernel, sign=-1.0),
        keeps_zeros=_is_zero,
        arithmetic=Arithmetic.SUBTRACT,
        partials=Partials(lambda f, a, b, y: 1.0, lambda f, a, b, y: -1.0),
    ),
    BinaryRow(
        "a - b.",
        _ufunc("subtract"),
        1.0,
        -1.0,
        mixed=("_npi_subtract",),
        scalar=("_npi_subtract_scalar",),
        reversed=("_npi_rsubtract_scalar",),
        arithmetic=Arithmetic.SUBTRACT,
    ),
    BinaryRow(
        "a * b.",
        *_PRODUCT,
        on_bytes=QuantizedForm("_contrib_quantized_elemwise_mul"),
        elementwise=("elemwise_mul", "_mul", "_Mul", "_sparse_elemwise_mul"),
        broadcast=("broadcast_mul", "_sparse_broadcast_mul"),
        scalar=("_mul_scalar", "_MulScalar"),
        elementwise_storage=if_one_is_sparse,
        broadcast_storage=scaled_matrix,
        scalar_storage=of_first,
        sparse_kernel=product_kernel,
        arithmetic=Arithmetic.MULTIPLY,
        partials=Partials(lambda f, a, b, y: b, lambda f, a, b, y: a),
    ),
    BinaryRow(
        "a * b.",
        *_PRODUCT,
        mixed=("_npi_multiply",),
        scalar=("_npi_multiply_scalar",),
        arithmetic=Arithmetic.MULTIPLY,
    ),
    BinaryRow(
        "a / b, rounded towards 0 for integers.",
        _ufunc("divide"),
        Slope(_inverse, (1,), has_fractions=True),
        Slope(_quotient_slope, (0, 1), has_fractions=True),
        elementwise=("elemwise_div", "_div", "_Div", "_sparse_elemwise_div"),
        broadcast=("broadcast_div", "_sparse_broadcast_div"),
        scalar=("_div_scalar", "_DivScalar"),
        reversed=("_rdiv_scalar", "_RDivScalar"),
        broadcast_storage=scaled_matrix,
        scalar_storage=of_first,
        arithmetic=Arithmetic.DIVIDE,
        partials=Partials(lambda f, a, b, y: 1 / b, lambda f, a, b, y: -y / b),
    ),
    BinaryRow(
        "a / b; of row_sparse a in the stored rows only.",
        _ufunc("divide"),
        Slope(_inverse, (1,), has_fractions=True),
        Slope(_quotient_slope, (0, 1), has_fractions=True),
        elementwise=("_scatter_elemwise_div",),
        elementwise_storage=of_rows_on_left,
        sparse_kernel=quotient_kernel,
    ),
    BinaryRow(
        "a + b; of sparse a for the stored values only.",
        _ufunc("add"),
        1.0,
        scalar=("_scatter_plus_scalar",),
        scalar_storage=of_first,
    ),
    BinaryRow(
        "a - b; of sparse a for the stored values only.",
        _ufunc("subtract"),
        1.0,
        scalar=("_scatter_minus_scalar",),
        scalar_storage=of_first,
    ),
    BinaryRow(
        "Remainder of a / b with the sign of b; 0 where b is 0.",
        _mod,
        Slope(_mod_step, (0,)),
        Slope(_mod_slope, (0, 1)),
        elementwise=("_mod", "_Mod"),
        broadcast=("broadcast_mod",),
        scalar=("_mod_scalar", "_ModScalar"),
        reversed=("_rmod_scalar", "_RModScalar"),
    ),
    BinaryRow(
        "a to the power of b.",
        *_POWER,
        elementwise=("_power", "_Power"),
        broadcast=("broadcast_power",),
        scalar=("_power_scalar", "_PowerScalar"),
        reversed=("_rpower_scalar", "_RPowerScalar"),
        partials=Partials(
            lambda f, a, b, y: b * a ** (b - 1), lambda f, a, b, y: y * logarithm(f, a)
        ),
    ),
    BinaryRow(
        "a to the power of b.",
        *_POWER,
        mixed=("_npi_power",),
        scalar=("_npi_power_scalar",),
        reversed=("_npi_rpower_scalar",),
    ),
    BinaryRow(
        "The larger of a and b; the gradient goes to a where they are equal.",
        _extreme("maximum"),
        _where("greater_equal"),
        _where("less"),
        elementwise=("_maximum", "_Maximum"),
        broadcast=("broadcast_maximum", "_npi_maximum"),
        scalar=("_maximum_scalar", "_MaximumScalar", "_npi_maximum_scalar"),
        elementwise_storage=if_alike,
        partials=Partials(lambda f, a, b, y: a >= b, lambda f, a, b, y: a < b),
    ),
    BinaryRow(
        "The smaller of a and b; the gradient goes to a where they are equal.",
        _extreme("minimum"),
        _where("less_equal"),
        _where("greater"),
        elementwise=("_minimum", "_Minimum"),
        broadcast=("broadcast_minimum", "_npi_minimum"),
        scalar=("_minimum_scalar", "_MinimumScalar", "_npi_minimum_scalar"),
        elementwise_storage=if_alike,
        partials=Partials(lambda f, a, b, y: a <= b, lambda f, a, b, y: a > b),
    ),
    BinaryRow(
        "sqrt(a**2 + b**2).",
        _ufunc("hypot"),
        Slope(_hypot_slope, (0, 1), has_fractions=True),
        Slope(lambda run, a, b: _hypot_slope(run, b, a), (0, 1), has_fractions=True),
        elementwise=("_hypot", "_Hypot"),
        broadcast=("broadcast_hypot",),
        scalar=("_hypot_scalar", "_HypotScalar", "_npi_hypot_scalar"),
        elementwise_storage=if_alike,
        partials=Partials(lambda f, a, b, y: a / y, lambda f, a, b, y: b / y),
    ),
    BinaryRow(
        "Smooth L1 loss: (b a)**2 / 2 where |a| < 1 / b**2, else |a| - 1 / (2 b**2).",
        _smooth_l1,
        Slope(_smooth_l1_slope, (0,), has_fractions=True),
        scalar=("smooth_l1", "_npx_smooth_l1"),
        partials=Partials(_smooth_l1_partial, _no_partial),
    ),
    # With a number on the right, 0 stays 0 where the comparison of 0 with it does not hold.
    _comparison("equal", "equal", "Equal", lambda b: b != 0),
    _comparison("not_equal", "not_equal", "Not Equal", lambda b: b == 0),
    _comparison("greater", "greater", "Greater", lambda b: not b < 0),
    _comparison("greater_equal", "greater_equal", "Greater Equal", lambda b: not b <= 0),
    _comparison("lesser", "less", "Lesser", lambda b: not b > 0),
    _comparison("lesser_equal", "less_equal", "Lesser Equal", lambda b: not b >= 0),
    _comparison("logical_and", "logical_and", "Logical And"),
    _comparison("logical_or", "logical_or", "Logical Or"),
    _comparison("logical_xor", "logical_xor", "Logical Xor"),
)
"""Every function of two operands. Those of ``mx.np`` have separate rows, because MXNet's JSON has
separate names for them."""
