"""Lists of an executor group's arrays into which scripts assign other arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import ShapeError, UsageError
from ..ndarray import NDArray, array

__all__ = ["DeviceArrays", "assign_arrays"]


class DeviceArrays(list[Any]):
    """The arrays of parameters, gradients or states: for each, a list with one per device.

    MXNet's executors use whatever array such a list holds. Here they own their memory, so that
    assigning an item copies its values.
    """

    def __setitem__(self, position: Any, value: Any) -> None:
        if isinstance(position, slice):
            chosen = range(len(self))[position]
            assign_arrays([self[one] for one in chosen], value)
            return
        _assign(self[position], value)


def assign_arrays(arrays: Sequence[Any] | None, values: Any) -> None:
    """Copy values into arrays, or lists of arrays, one by one.

    Raises:
        UsageError: another number of values, or an array that is not there.
        ShapeError: another shape.
    """
    values = list(values) if isinstance(values, (list, tuple)) else values
    count = len(arrays or ())
    if not isinstance(values, list) or len(values) != count:
        found = f"{len(values)}" if isinstance(values, list) else f"a {type(values).__name__}"
        raise UsageError(f"expected a list of {count} arrays (or lists of them), got {found}")
    for target, value in zip(arrays or (), values, strict=True):
        _assign(target, value)


def _assign(target: Any, value: Any) -> None:
    if value is target:
        return
    if isinstance(target, tuple):  # an input: its rows of the batch, and its array
        target, value = target[-1], value[-1] if isinstance(value, tuple) else value
    if isinstance(target, list):
        assign_arrays(target, value)
        return
    if target is None:
        raise UsageError("a parameter without a gradient (grad_req='null') was given one")
    given = value if isinstance(value, NDArray) else array(value, dtype=target.dtype)
    if given.shape != target.shape:
        raise ShapeError(f"an array of shape {target.shape} was given one of {given.shape}")
    if given is not target:
        given.copyto(target)
