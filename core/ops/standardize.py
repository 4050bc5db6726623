"""Subtract the mean and divide by the standard deviation: what the normalizations share.

All work on a view of three axes; scale (gamma) and shift (beta) apply along the second:

    BatchNorm      (outer, channels, inner)          statistics over axes 0 and 2
    LayerNorm      (outer, normalized axis, inner)   over axis 1
    InstanceNorm   (batch, channels, inner)          over axis 2
    GroupNorm      (batch, groups, inner)            over axis 2
"""

from __future__ import annotations

from ..types import Array, Shape, shape_size
from .operator import Run
from .summation import add_up, average

__all__ = ["center", "copy_standardized", "sums_for_backward", "three_axes", "write_data_gradient"]


def three_axes(shape: Shape, axis: int) -> Shape:
    """Return the shape with the axes before and after the given one joined."""
    return (shape_size(shape[:axis]), shape[axis], shape_size(shape[axis + 1 :]))


def center(
    run: Run,
    data: Array,
    axes: tuple[int, ...],
    eps: float,
    centered: Array,
    mean: Array,
    inverse: Array,
) -> None:
    """Write ``data - mean``, the mean, and ``inverse = 1 / sqrt(variance + eps)``.

    This is the population variance (divided by n). ``centered`` may be ``data``; ``mean`` and
    ``inverse`` keep the reduced axes with length 1.
    """
    xp = run.xp
    average(run, data, axes, mean)
    xp.subtract(data, mean, out=centered)
    square = run.scratch(data.shape, data.dtype)
    # Not as the mean of squares minus the squared mean, whose difference loses all digits where the
    # mean is large.
    xp.multiply(centered, centered, out=square)
    average(run, square, axes, inverse)
    inverse += eps
    xp.sqrt(inverse, out=inverse)
    xp.reciprocal(inverse, out=inverse)


def copy_standardized(run: Run, data: Array, mean: Array, inverse: Array) -> Array:
    """Return ``(data - mean) · inverse`` in scratch memory."""
    standardized = run.scratch(data.shape, data.dtype)
    run.xp.subtract(data, mean, out=standardized)
    standardized *= inverse
    return standardized


def sums_for_backward(
    run: Run, grad: Array, standardized: Array, axes: tuple[int, ...]
) -> tuple[Array, Array]:
    """Return the sums of ``grad`` and of ``grad · standardized``, reduced axes kept.

    Over axes 0 and 2 they are the gradients of beta and gamma; over the axes of the statistics they
    are needed for the gradient of the data.
    """
    shape = tuple(1 if axis in axes else n for axis, n in enumerate(grad.shape))
    total, total_product = run.scratch(shape, grad.dtype), run.scratch(shape, grad.dtype)
    product = run.scratch(grad.shape, grad.dtype)
    add_up(run, grad, axes, total)
    run.xp.multiply(grad, standardized, out=product)
    add_up(run, product, axes, total_product)
    return total, total_product


def write_data_gradient(
    run: Run,
    grad: Array,
    standardized: Array,
    sums: tuple[Array, Array],
    scale: Array,
    data_grad: Array,
) -> None:
    """Write the gradient of the data: ``scale · (grad - mean(grad) - x · mean(grad · x))``.

    ``standardized`` (the x of the formula) and ``sums`` are overwritten; ``data_grad`` may be
    ``grad``.
    """
    total, total_product = sums
    count = grad.size // total.size if grad.size else 1
    total /= count
    total_product /= count
    standardized *= total_product
    standardized += total
    run.xp.subtract(grad, standardized, out=data_grad)
    data_grad *= scale
