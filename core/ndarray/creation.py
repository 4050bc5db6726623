"""Making arrays: from data, filled, by ranges; joining and moving axes."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from ..backends import backend_of
from ..device import Context, current_context
from ..errors import MXNetError, ShapeError
from ..profiler.recorder import operator_span
from ..types import Shape, normalize_axis, to_dtype
from .array import NDArray, invoke
from .conversion import host_array
from .execute import operator_of
from .np_shape import is_np_shape
from .scipy_matrix import csr_from_scipy, is_scipy_csr
from .sparse_array import BaseSparseNDArray, sparse_zeros

__all__ = [
    "arange",
    "array",
    "concatenate",
    "empty",
    "eye",
    "from_numpy",
    "full",
    "linspace",
    "moveaxis",
    "ones",
    "split_v2",
    "zeros",
]

DEFAULT_DTYPE = np.dtype(np.float32)


def array(source_array: Any, ctx: Context | None = None, dtype: Any = None) -> NDArray:
    """Return a new array with the values of anything array-like.

    Args:
        source_array: NDArray, NumPy array, number, nested sequence or SciPy ``csr_matrix``, which
            becomes a ``CSRNDArray``.
        ctx: device, by default the current context.
        dtype: element type; by default that of an NDArray or a SciPy matrix, float32 for everything
            else (for NumPy arrays of any dtype too, as in MXNet).
    """
    if is_scipy_csr(source_array):
        return csr_from_scipy(source_array, ctx, dtype)
    if isinstance(source_array, NDArray):
        kind = to_dtype(source_array.dtype if dtype is None else dtype)
        if isinstance(source_array, BaseSparseNDArray):
            target: NDArray = sparse_zeros(source_array.stype, source_array.shape, ctx, kind)
        else:
            target = empty(source_array.shape, ctx, kind)
        return cast(NDArray, source_array.detach().copyto(target))
    kind = DEFAULT_DTYPE if dtype is None else to_dtype(dtype)
    try:
        values = host_array(source_array, kind)
    except (TypeError, ValueError):
        raise TypeError(
            f"source_array must be array like, got {type(source_array).__name__}"
        ) from None
    result = empty(values.shape, ctx, kind)
    result.assign_dense(values)
    return result


def empty(
    shape: int | Sequence[int],
    ctx: Context | None = None,
    dtype: Any = None,
    stype: str | None = None,
) -> NDArray:
    """Return an array of undefined values (float32 by default); sparse ones are empty of values."""
    if stype is not None and stype != "default":
        return sparse_zeros(stype, shape, ctx, dtype)
    context = ctx or current_context()
    kind = DEFAULT_DTYPE if dtype is None else to_dtype(dtype)
    return NDArray(backend_of(context).empty(_shape(shape), kind), context)


def zeros(
    shape: int | Sequence[int],
    ctx: Context | None = None,
    dtype: Any = None,
    stype: str | None = None,
    out: NDArray | None = None,
) -> NDArray:
    """Return an array of zeros, float32 by default.

    Outside of np-shape mode it has axes and elements (MXNetError), as in MXNet.
    """
    if stype is not None and stype != "default":
        return sparse_zeros(stype, shape, ctx, dtype)
    _check_has_elements(shape)
    with operator_span("_zeros"):
        return full(shape, 0, ctx, dtype, out)


def ones(
    shape: int | Sequence[int],
    ctx: Context | None = None,
    dtype: Any = None,
    out: NDArray | None = None,
) -> NDArray:
    """Return an array of ones, float32 by default; see ``zeros``."""
    _check_has_elements(shape)
    with operator_span("_ones"):
        return full(shape, 1, ctx, dtype, out)


def _check_has_elements(shape: int | Sequence[int]) -> None:
    dims = _shape(shape)
    if not is_np_shape() and not (dims and all(dims)):
        raise MXNetError(
            f"shape {dims} has an unknown number of elements; scalars and empty arrays are made "
            "inside `with mx.np_shape():`"
        )


def full(
    shape: int | Sequence[int],
    val: float,
    ctx: Context | None = None,
    dtype: Any = None,
    out: NDArray | None = None,
) -> NDArray:
    """Return an array of one value, float32 by default, or write it over ``out``."""
    result = empty(shape, ctx, dtype) if out is None else out
    result[:] = val
    return result


def arange(
    start: float,
    stop: float | None = None,
    step: float = 1.0,
    repeat: int = 1,
    infer_range: bool | None = None,
    ctx: Context | None = None,
    dtype: Any = None,
) -> NDArray:
    """Return the numbers from ``start`` up to, not including, ``stop``.

    Args:
        start: first number; the end when ``stop`` is not given.
        stop: end of the range.
        step: distance between numbers.
        repeat: how often each number comes.
        infer_range: deprecated in MXNet, and without effect there as here.
        ctx: device, by default the current context.
        dtype: element type, float32 by default.
    """
    if infer_range is not None:
        warnings.warn(
            "`infer_range` argument has been deprecated", DeprecationWarning, stacklevel=2
        )
    attributes = {"start": start, "stop": stop, "step": step, "repeat": repeat}
    return _make("_arange", attributes, ctx, dtype)


def linspace(
    start: float,
    stop: float,
    num: int,
    endpoint: bool = True,
    ctx: Context | None = None,
    dtype: Any = None,
) -> NDArray:
    """Return ``num`` evenly spaced numbers, ``stop`` included with ``endpoint``."""
    attributes = {"start": start, "stop": stop, "num": num, "endpoint": endpoint}
    return _make("_linspace", attributes, ctx, dtype)


def eye(N: int, M: int = 0, k: int = 0, ctx: Context | None = None, dtype: Any = None) -> NDArray:
    """Return an (N, M) array (M is N when 0) with ones on diagonal ``k``."""
    return _make("_eye", {"N": N, "M": M, "k": k}, ctx, dtype)


def from_numpy(ndarray: np.ndarray[Any, Any], zero_copy: bool = True) -> NDArray:
    """Return an array of a NumPy array's dtype on ``cpu(0)``.

    Args:
        ndarray: the values; with ``zero_copy`` C-contiguous, and from then on only to be changed
            through the array returned.
        zero_copy: share the memory.
    """
    if not zero_copy:
        return array(ndarray, Context("cpu", 0), ndarray.dtype)
    if not ndarray.flags.c_contiguous:
        raise ValueError("Only c-contiguous arrays are supported for zero-copy")
    to_dtype(ndarray.dtype)  # raises for dtypes that MXNet does not have
    if ndarray.flags.owndata:
        # An earlier call has made it read-only, as this one does below; so would be its views.
        ndarray.flags.writeable = True
    shared = ndarray.view()
    ndarray.flags.writeable = False
    return NDArray(shared, Context("cpu", 0))


def moveaxis(tensor: NDArray, source: Any, destination: Any) -> NDArray:
    """Return a copy with axes moved to new positions; the others keep their order."""
    sources = _axes(source, tensor.ndim, "source")
    targets = _axes(destination, tensor.ndim, "destination")
    if len(sources) != len(targets):
        raise ValueError(
            "`source` and `destination` arguments must have the same number of elements"
        )
    order = [axis for axis in range(tensor.ndim) if axis not in sources]
    for target, axis in sorted(zip(targets, sources, strict=True)):
        order.insert(target, axis)
    return cast(NDArray, tensor.transpose(axes=tuple(order)))


def concatenate(arrays: list[NDArray], axis: int = 0, always_copy: bool = True) -> NDArray:
    """Return arrays of equal dtype joined along an axis, on the first one's device.

    Args:
        arrays: one or more; their shapes differ in ``axis`` only.
        axis: where to join.
        always_copy: with False, a single array is returned itself.
    """
    if not isinstance(arrays, list) or not arrays:
        raise ValueError("concatenate takes a list of one or more NDArrays")
    if len(arrays) == 1 and not always_copy:
        return arrays[0]
    first = arrays[0]
    for other in arrays[1:]:
        if other.dtype != first.dtype:
            raise TypeError(f"concatenate got dtypes {first.dtype} and {other.dtype}")
    op = operator_of("Concat", {"num_args": len(arrays), "dim": axis})
    return cast(NDArray, invoke(op, [other.as_in_context(first.context) for other in arrays]))


def split_v2(
    ary: NDArray,
    indices_or_sections: int | tuple[int, ...],
    axis: int = 0,
    squeeze_axis: bool = False,
) -> NDArray | list[NDArray]:
    """Return the parts of an array along an axis; see ``NDArray.split_v2``."""
    return ary.split_v2(indices_or_sections, axis, squeeze_axis)


def _axes(axes: int | Sequence[int], ndim: int, what: str) -> list[int]:
    given = [axes] if isinstance(axes, int) else list(axes)
    try:
        normal = [normalize_axis(axis, ndim) for axis in given]
    except ShapeError as error:
        raise ValueError(f"moveaxis: {what}: {error}") from None
    if len(set(normal)) != len(normal):
        raise ValueError(f"moveaxis: {what} {given} names an axis twice")
    return normal


def _shape(shape: int | Sequence[int]) -> Shape:
    dims = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
    result = tuple(int(dim) for dim in dims)
    if any(dim < 0 for dim in result):
        raise ShapeError(f"shape {result} has a negative length")
    return result


def _make(name: str, attributes: dict[str, Any], ctx: Context | None, dtype: Any) -> NDArray:
    """Run an operator without inputs."""
    kind = DEFAULT_DTYPE if dtype is None else to_dtype(dtype)
    return cast(NDArray, invoke(operator_of(name, {**attributes, "dtype": kind}), (), None, ctx))
