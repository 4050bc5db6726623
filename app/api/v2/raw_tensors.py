"""Texts and images in BYTES tensors: transformed into the model's inputs."""

from __future__ import annotations

import dataclasses
import math

from app.api.v1.raw_inputs import RawInputs, kinds_of
from app.api.v1.raw_values import RawValues, check_count, unpacked
from app.api.v2.bytes_tensors import unpack
from app.api.v2.datatypes import BYTES
from app.api.v2.infer_request import InferHeader
from app.domain.module import ModuleRecord
from app.errors.tree import Invalid
from app.link.slots import Piece
from app.services.predictions.predict_calls import TensorRow

__all__ = ["has_bytes", "with_tensors"]


def has_bytes(header: InferHeader) -> bool:
    """Return whether an input is of type BYTES."""
    return any(dtype == BYTES for _, dtype, _ in header.rows)


async def with_tensors(
    raw_inputs: RawInputs, record: ModuleRecord, header: InferHeader, behind: memoryview
) -> InferHeader:
    """Return a request whose inputs are all numbers, described in its header.

    An element is a text or an image file; in JSON, image files are Base64.

    Args:
        header: of a request with an input of BYTES.
        behind: the bytes after its JSON.

    Raises:
        Invalid, Malformed, TooLarge: an element cannot be transformed.
    """
    kinds = kinds_of(record)
    values: RawValues = {}
    inline: dict[int, Piece] = {}
    rows: list[TensorRow] = []
    for position, ((name, dtype, shape), piece) in enumerate(
        zip(header.rows, header.pieces(behind), strict=True)
    ):
        if dtype != BYTES:
            inline[len(rows)] = piece
            rows.append((name, dtype, shape))
            continue
        if name not in kinds:
            expected = "numbers, because the input has no text or image transform"
            raise Invalid(f"inputs[{position}].datatype", "BYTES", expected)
        values[name] = unpack(piece, math.prod(shape), name)
        check_count(values[name], f"inputs[{position}].shape")
        if header.sizes[position] is None and kinds[name] == "image":
            field = f"inputs[{position}].data"
            values[name] = [unpacked(one, f"{field}[{n}]") for n, one in enumerate(values[name])]
    # Inputs are found by their names, so that these may come last.
    for name, array in (await raw_inputs.tensors(record, values)).items():
        inline[len(rows)] = array.tobytes()
        rows.append((name, array.dtype, array.shape))
    return dataclasses.replace(header, rows=tuple(rows), sizes=(None,) * len(rows), inline=inline)
