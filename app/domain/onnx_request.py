"""A request to export an ONNX model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from app.domain.module import InputDesc, ModuleRecord
from app.errors.tree import Conflict, Invalid

__all__ = ["OnnxInput", "OnnxRequest", "onnx_inputs"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxInput:
    """An input of the model: its shape including the batch, and the batch axis, -1 for none."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    batch_axis: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxRequest:
    """A symbol (parsed JSON), the path of its parameters, and its inputs."""

    symbol: Any
    params: str
    inputs: tuple[OnnxInput, ...]
    state_names: tuple[str, ...]


def onnx_inputs(record: ModuleRecord) -> tuple[OnnxInput, ...]:
    """Return the inputs of a module's default bucket.

    Raises:
        Conflict: it is not bound.
        Invalid: an axis has the length of its bucket, whose key is not a length.
    """
    if record.bind is None:
        raise Conflict(
            f"module {record.public_name!r} is not bound, so that the shapes of its inputs are "
            f"not known; bind it first by POST /v1/modules/{record.public_name}/bind"
        )
    return tuple(_input(one, record.default_bucket_key) for one in record.bind.data_shapes)


def _input(described: InputDesc, bucket: str) -> OnnxInput:
    if not all(described.shape) and not bucket.isdecimal():
        expected = "one whose key is a length, because an axis is as long as it"
        raise Invalid(f"data_shapes.{described.name}", f"bucket {bucket}", expected)
    shape: Sequence[int] = [one or int(bucket) for one in described.shape]
    layout = described.layout
    axis = 0 if layout is None else layout.find("N")
    return OnnxInput(
        name=described.name, shape=tuple(shape), dtype=described.dtype, batch_axis=axis
    )
