"""Whether the outputs for one example depend on the others in its batch: found out by trying."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from app.executor.predict.rows import rows_of
from app.link.protocols import Arrays
from core.errors import MXNetError
from core.types import Shape

__all__ = ["find_independence"]

_NEIGHBOURS = (0.0, np.nan)
"""What the other examples consist of. Weights of zero hide what is finite, but not NaN; an
activation or a maximum may hide NaN."""


def find_independence(
    run: Callable[[Arrays], Arrays],
    shapes: Mapping[str, Shape],
    axes: Mapping[str, int],
    output_axes: Mapping[str, int],
) -> bool:
    """Return whether the first and the last example give the same bits among any others.

    Outputs that are drawn at random never do, nor those of a net that refuses some numbers.

    Args:
        run: returns the outputs of a batch.
        shapes: of its inputs, with as many examples as are tried.
        axes: along which the examples lie, by input.
        output_axes: the same, by output.
    """
    bits = np.random.default_rng(0)  # ones and zeros: each embedding has rows for them
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
    except MXNetError:  # it refuses some numbers, and with them all that are in the same batch
        return False
