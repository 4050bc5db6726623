"""Splitting of batches over devices, and clipping of gradients (``mx.gluon.utils``)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..device import Context
from ..ndarray import NDArray, array

__all__ = ["clip_global_norm", "split_and_load", "split_data"]


def split_data(
    data: NDArray, num_slice: int, batch_axis: int = 0, even_split: bool = True
) -> list[NDArray]:
    """Divide an array along its batch axis; the rows of a csr matrix stay csr.

    Raises:
        ValueError: there are fewer rows than slices, or a remainder with ``even_split``.
    """
    size = data.shape[batch_axis]
    if size < num_slice:
        raise ValueError(
            f"Too many slices for data with shape {data.shape}. Arguments are num_slice={num_slice}"
            f" and batch_axis={batch_axis}."
        )
    if even_split and size % num_slice != 0:
        raise ValueError(
            f"data with shape {data.shape} cannot be evenly split into {num_slice} slices along "
            f"axis {batch_axis}. Use a batch size that's multiple of {num_slice} or set "
            "even_split=False to allow uneven partitioning of data."
        )
    if num_slice == 1:
        return [data]
    step, rest = divmod(size, num_slice)
    if even_split:
        stops = [step * (i + 1) for i in range(num_slice)]
    else:
        stops = [step * (i + 1) + min(i + 1, rest) for i in range(num_slice)]
    starts = [0, *stops[:-1]]
    if data.stype == "csr" and batch_axis == 0:
        return [data[start:stop] for start, stop in zip(starts, stops, strict=True)]
    return [
        data.slice_axis(batch_axis, start, stop) for start, stop in zip(starts, stops, strict=True)
    ]


def split_and_load(
    data: Any, ctx_list: Sequence[Context], batch_axis: int = 0, even_split: bool = True
) -> list[NDArray]:
    """Divide an array along its batch axis, with one part for each device."""
    if not isinstance(data, NDArray):
        data = array(data, ctx=ctx_list[0])
    parts = split_data(data, len(ctx_list), batch_axis, even_split)
    return [part.as_in_context(ctx) for part, ctx in zip(parts, ctx_list, strict=True)]


def clip_global_norm(
    arrays: Sequence[NDArray], max_norm: float, check_isfinite: bool = True
) -> float | NDArray:
    """Scale arrays in place so that their joint norm is at most ``max_norm``.

    Args:
        arrays: usually gradients.
        max_norm: the largest norm.
        check_isfinite: warn if the norm is not finite.

    Returns:
        the norm before scaling: a number, or without ``check_isfinite`` an array of shape (1,).
    """
    if not arrays:
        raise ValueError("clip_global_norm got no arrays")
    norm = math.sqrt(
        sum(float(np.square(one.asnumpy().astype(np.float64)).sum()) for one in arrays)
    )
    if check_isfinite and not math.isfinite(norm):
        warnings.warn(
            "nan or inf is detected. Clipping results will be undefined.", UserWarning, stacklevel=2
        )
    scale = max_norm / (norm + 1e-8)
    if scale < 1.0:
        for one in arrays:
            one *= scale
    return norm if check_isfinite else array([norm], arrays[0].context)
