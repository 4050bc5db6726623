"""The gradient of a product over axes: for each element, the product of the others."""

from __future__ import annotations

from ..types import Array
from .operator import Run

__all__ = ["write_product_gradient"]


def write_product_gradient(run: Run, dy: Array, x: Array, y: Array, dx: Array) -> None:
    """Write the gradient; in ``dy`` and ``y`` the reduced axes have length 1.

    The product is divided by each element, unless there are zeros among them. MXNet then gives NaN;
    here a single zero gets the product of the others, and the gradients beside it are 0.
    """
    is_zero = run.scratch(x.shape, "bool")
    run.xp.equal(x, 0, out=is_zero)
    if not is_zero.any():
        run.xp.divide(y, x, out=dx, casting="unsafe")
        dx *= dy
        return
    axes = tuple(
        i for i, (kept, full) in enumerate(zip(y.shape, x.shape, strict=True)) if kept < full
    )
    zeros = run.xp.count_nonzero(is_zero, axis=axes, keepdims=True)
    others = run.scratch(x.shape, x.dtype)
    run.xp.copyto(others, x)
    run.xp.copyto(others, 1, where=is_zero)
    product = run.xp.prod(others, axis=axes, dtype=x.dtype, keepdims=True)
    run.xp.divide(product, others, out=dx, casting="unsafe")
    run.xp.copyto(dx, 0, where=zeros > is_zero)  # another element is 0
    dx *= dy
