"""Tests by experiment whether the outputs for an example depend on the rest of its batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from app.executor.predict.rows import rows_of
from app.link.protocols import Arrays
from core.errors import MXNetError
from core.types import Shape

__all__ = ["find_independence"]

_NEIGHBOURS = (0.0, np.nan)
"""Values of the other examples. Zero weights hide an influence of finite values but not of NaN; an
activation or a maximum may hide that of NaN."""


def find_independence(
    run: Callable[[Arrays], Arrays],
    shapes: Mapping[str, Shape],
    axes: Mapping[str, int],
    output_axes: Mapping[str, int],
) -> bool:
    """Return whether the first and the last example give the same bits whatever the others are.

    False for outputs that are random, and for a net that raises for some of the values.

    Args:
        run: returns the outputs of a batch.
        shapes: of the inputs, with the batch size of the trial.
        axes: the batch axis of each input.
        output_axes: the batch axis of each output.
    """
    bits = np.random.default_rng(0)  # ones and zeros are valid indices of any embedding
    batch = {name: bits.integers(0, 2, shapes[name]).astype(np.float32) for name in axes}
    rows = next(shapes[name][axis] for name, axis in axes.items())

    def outputs_of(row: int, tensors: Arrays) -> dict[str, bytes]:
        with np.errstate(all="ignore"):
            outputs = run(tensors)
        return {
            name: rows_of(outputs[name], row, 1, axis).tobytes()
            for name, axis in output_axes.items()
        }

    def among(row: int, neighbour: float) -> Arrays:
        tensors = {name: np.full_like(tensor, neighbour) for name, tensor in batch.items()}
        for name, axis in axes.items():
            rows_of(tensors[name], row, 1, axis)[...] = rows_of(batch[name], row, 1, axis)
        return tensors

    try:
        return all(
            outputs_of(row, batch) == outputs_of(row, among(row, neighbour))
            for row in (0, rows - 1)
            for neighbour in _NEIGHBOURS
        )
    except MXNetError:  # a bad example would fail every request in its batch
        return False
