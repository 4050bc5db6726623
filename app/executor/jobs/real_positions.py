"""Labels and outputs without the positions that pad examples to the length of their bucket."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from core.device import cpu
from core.ndarray import NDArray

__all__ = ["real_positions", "without_padding"]

Arrays = dict[str, NDArray]
Mask = npt.NDArray[np.bool_]


def real_positions(
    labels: Arrays,
    outputs: Arrays,
    lengths: Mapping[str, npt.NDArray[np.intp]],
    count: int,
) -> tuple[Arrays, Arrays] | None:
    """Return labels and outputs with one row per position that is not padding.

    None if nothing is padded and the examples are on the first axis of every array, or if an output
    does not have a row per position.

    Args:
        labels: by name, with the examples on the first axis.
        outputs: by name. Outputs per position are laid out as by ``SoftmaxOutput``: the classes
            follow the label's two axes, or follow a single axis that joins both, or with
            ``multi_output`` lie between the two.
        lengths: of each example, by name of the label; only for ragged labels.
        count: number of examples; the rest of the batch is padding.
    """
    if not labels or any(label.ndim < 2 for label in labels.values()):
        return None
    masks = {name: _mask(label, lengths.get(name), count) for name, label in labels.items()}
    rows = {len(output) for output in outputs.values()}
    if all(mask.all() and mask.size not in rows for mask in masks.values()):
        return None
    # Outputs are paired with labels by position; a single label goes with every output.
    of_outputs = [*masks.values()] * (len(outputs) if len(masks) == 1 else 1)
    if len(of_outputs) != len(outputs):
        return None
    chosen = {}
    for (name, output), mask in zip(outputs.items(), of_outputs, strict=True):
        own = _rows(output.asnumpy(), mask)
        if own is None:
            return None
        chosen[name] = _array(own)
    return {name: _array(labels[name].asnumpy()[mask]) for name, mask in masks.items()}, chosen


def without_padding(
    labels: Arrays, outputs: Arrays, size: int, count: int
) -> tuple[Arrays, Arrays]:
    """Drop the rows that pad a batch, provided that every array has a row per example."""
    arrays = [*labels.values(), *outputs.values()]
    if size == count or any(array.shape[0] != size for array in arrays):
        return labels, outputs
    return (
        {name: array[:count] for name, array in labels.items()},
        {name: array[:count] for name, array in outputs.items()},
    )


def _mask(label: NDArray, lengths: npt.NDArray[np.intp] | None, count: int) -> Mask:
    own = np.full(label.shape[0], label.shape[1]) if lengths is None else np.array(lengths)
    own[count:] = 0
    return np.arange(label.shape[1])[None, :] < own[:, None]


def _rows(output: npt.NDArray[np.generic], mask: Mask) -> npt.NDArray[np.generic] | None:
    """Return the rows of real positions; None for an output without a row per position."""
    if output.shape[:2] == mask.shape:
        return output[mask]
    if output.shape[:1] == (mask.size,):
        return output[mask.ravel()]
    if output.ndim == 3 and (output.shape[0], output.shape[2]) == mask.shape:
        return np.moveaxis(output, 1, 2)[mask]
    return None


def _array(values: npt.NDArray[np.generic]) -> NDArray:
    return NDArray(np.ascontiguousarray(values), cpu(0))
