"""Copying the arrays of a batch to the devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..backends import backend_of
from ..device import Context
from ..errors import ShapeError
from ..ndarray import NDArray
from ..types import shape_size

__all__ = ["BatchInput", "cut_rows"]


class BatchInput:
    """One input of a group of executors: where its array in a batch is copied to.

    Args:
        name: of the input.
        axis: the batch axis; -1 if every device gets the whole array.
        batch_size: rows of a whole batch.
        targets: for each device its rows of the batch and its array; empty if the symbol does not
            read the input.

    Attributes:
        name: of the input.
    """

    __slots__ = ("_axis", "_batch_size", "_copy_into", "_shape", "_target", "_targets", "name")

    def __init__(
        self, name: str, axis: int, batch_size: int, targets: Sequence[tuple[slice, NDArray]]
    ) -> None:
        self.name = name
        self._axis = axis
        self._batch_size = batch_size
        self._targets = targets
        is_simple = len(targets) == 1 and targets[0][1].stype == "default"
        self._target = targets[0][1] if is_simple else None
        if self._target is not None:
            self._shape = self._target.shape
            self._copy_into = backend_of(self._target.context).copy_into

    def load(self, source: Any) -> None:
        """Copy the array of a whole batch, its rows to each device."""
        target = self._target
        # Decided when bound for one device and a dense array, because this precedes every pass.
        if target is not None and source.shape == self._shape:
            self._copy_into(target.dense_for_write(), _raw(source))
            return
        axis = self._axis
        # NDArrayIter may return more labels than rows in a padded batch; the rest is cut off.
        is_longer = 0 <= axis < len(source.shape) and source.shape[axis] > self._batch_size
        if len(self._targets) == 1 and not is_longer:
            axis = -1  # the only device gets all rows, so that there is nothing to cut
        for rows, array in self._targets:
            _copy(self.name, source if axis < 0 else cut_rows(source, rows, axis), array)

    def load_share(self, device: int, source: Any) -> None:
        """Copy an array that holds the rows of one device only."""
        if self._targets:
            _copy(self.name, source, self._targets[device][1])


def cut_rows(source: Any, rows: slice, axis: int) -> NDArray:
    """Return some rows of an array, counted along this axis."""
    if axis == 0:
        share = source[rows.start : rows.stop]
        return share if isinstance(share, NDArray) else NDArray(share, Context("cpu", 0))
    index = (*[slice(None)] * axis, rows)
    raw = _raw(source)
    context = source.context if isinstance(source, NDArray) else Context("cpu", 0)
    return NDArray(raw[index], context)


def _copy(name: str, source: Any, target: NDArray) -> None:
    shape, bound = tuple(source.shape), target.shape
    if shape != bound:
        # Labels are not compared before a pass, as data is, and often come as (n, 1) for (n,).
        # Other lengths of as many axes are a mistake, a transposed array for example.
        if shape_size(shape) != target.size or len(shape) == len(bound):
            raise ShapeError(f"input {name!r} has shape {shape}, but {bound} is bound")
        source = source.reshape(bound)
    elif target.stype != "default":
        target[:] = source
        return
    backend_of(target.context).copy_into(target.dense_for_write(), _raw(source))


def _raw(source: Any) -> Any:
    return source.dense() if isinstance(source, NDArray) else source
