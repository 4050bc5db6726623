"""Builds the executor call for a prediction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from app.domain.module import ModuleRecord
from app.domain.ragged_axes import batch_axis
from app.domain.sequence import SequencePart, SequenceStates
from app.errors.tree import Invalid, Unavailable
from app.link import calls
from app.link.slots import Piece
from app.link.specs import Tensors

__all__ = [
    "TensorRow",
    "bound_dtypes",
    "examples_of",
    "pieces_of",
    "predict_call",
    "rows_of",
    "unloaded",
]

TensorRow: TypeAlias = tuple[str, Any, tuple[int, ...]]
"""Name, dtype and shape of one tensor."""


def bound_dtypes(record: ModuleRecord) -> dict[str, str]:
    """Return the dtypes that a module's inputs are bound to, to which JSON numbers without an
    explicit dtype are converted.
    """
    bind = record.bind
    descs = () if bind is None else (*bind.data_shapes, *bind.label_shapes)
    return {one.name: one.dtype for one in descs}


def rows_of(tensors: Tensors) -> tuple[TensorRow, ...]:
    """Return the names, dtypes and shapes of tensors."""
    return tuple((name, one.dtype, one.shape) for name, one in tensors.items())


def pieces_of(tensors: Tensors) -> list[Piece]:
    """Return the bytes of tensors; contiguous tensors in native byte order are not copied."""
    return [_bytes_of(one) for one in tensors.values()]


def _bytes_of(array: npt.NDArray[Any]) -> memoryview:
    native = np.asarray(array, array.dtype.newbyteorder("="), order="C")
    return native.reshape(-1).view(np.uint8).data


def predict_call(
    record: ModuleRecord,
    bucket: str | None = None,
    part: SequencePart | None = None,
    version: str | None = None,
    *,
    is_strict: bool = False,
) -> calls.Predict:
    """Return the call for a prediction of a module as it is served.

    Args:
        record: the module.
        bucket: its key; None for the smallest that fits the inputs.
        part: of a sequence, if the prediction belongs to one.
        version: its key on the executor; None for the live parameters.
        is_strict: see ``calls.Predict``.

    Raises:
        Unavailable: the module was unloaded.
        Invalid: the prediction is part of a sequence, but the module keeps no states.
    """
    serving = record.serving
    if not serving.is_loaded:
        raise unloaded(record.name)
    if part is not None and not serving.states:
        raise Invalid(
            *(
                "sequence_id",
                part.sequence_id,
                f"none, because module {record.name!r} keeps no states",
            ),
            f"say what they are by PATCH /v1/modules/{record.name}/serving "
            '{"states": [{"state": NAME, "output": NAME}]}',
        )
    return calls.Predict(
        module=record.name,
        bucket=bucket,
        version=version,
        max_batch_size=serving.max_batch_size,
        batches=serving.batches,
        max_delay_us=serving.max_delay_us,
        is_strict=is_strict,
        part=part,
        states=None
        if part is None
        else SequenceStates(
            links=serving.states,
            most=serving.max_sequences,
            idle_seconds=serving.max_sequence_idle_seconds,
        ),
    )


def unloaded(module: str) -> Unavailable:
    """Return the error that refuses predictions of a module that was unloaded."""
    path = f"/v2/repository/models/{module}/load"
    return Unavailable(f"module {module!r} was unloaded; load it by POST {path}")


def examples_of(record: ModuleRecord, rows: Sequence[TensorRow]) -> int:
    """Return the number of examples, taken from the first input's batch axis."""
    if not rows:
        return 1
    name, _, shape = rows[0]
    descs = () if record.bind is None else record.bind.data_shapes
    axis = next((batch_axis(one) for one in descs if one.name == name), 0)
    return shape[axis] if 0 <= axis < len(shape) else 1
