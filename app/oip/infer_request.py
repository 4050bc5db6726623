"""The infer request: a header of JSON, and tensors in it or behind it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from app.errors import Invalid, Malformed
from app.link.slots import Piece
from app.oip.datatypes import dtype_of
from app.services.predictions import TensorRow
from app.tensors.json_bodies import check_depth
from app.tensors.json_tensors import read_tensor
from app.tensors.shapes import shape_fault

__all__ = ["InferHeader", "Wish", "read_header"]

_MOST_TENSORS = 1024
_MEMBERS = frozenset({"id", "parameters", "inputs", "outputs"})


@dataclass(frozen=True, slots=True)
class Wish:
    """What is wanted of the answer.

    Attributes:
        request_id: the client's, empty for none.
        outputs: names and, of each, whether it goes behind the header; None for all outputs.
        is_binary: whether outputs not named in ``outputs`` go behind the header.
    """

    request_id: str = ""
    outputs: tuple[tuple[str, bool], ...] | None = None
    is_binary: bool = False


@dataclass(frozen=True, slots=True)
class InferHeader:
    """What the JSON of a request says.

    Attributes:
        rows: the inputs.
        sizes: bytes of each that lie behind the header, one after the other; None for one whose
            numbers are in ``inline``.
        inline: the bytes of inputs whose numbers are in the header, by position.
        wish: what is wanted of the answer.
        timeout_us: how long the client waits, 0 for ever.
        priority: the lower, the sooner.
    """

    rows: tuple[TensorRow, ...]
    sizes: tuple[int | None, ...]
    inline: Mapping[int, bytes]
    wish: Wish
    timeout_us: int
    priority: int

    @property
    def bytes_behind(self) -> int:
        """Bytes of all inputs behind the header."""
        return sum(size or 0 for size in self.sizes)

    def pieces(self, behind: memoryview) -> list[Piece]:
        """Return the bytes of each input; raise Malformed where there are too many or too few."""
        if len(behind) != self.bytes_behind:
            raise Malformed(
                f"{len(behind)} bytes follow the JSON header, its inputs announce "
                f"{self.bytes_behind} by binary_data_size"
            )
        pieces: list[Piece] = []
        at = 0
        for position, size in enumerate(self.sizes):
            if size is None:
                pieces.append(self.inline[position])
            else:
                pieces.append(behind[at : at + size])
                at += size
        return pieces


def read_header(text: bytes) -> InferHeader:
    """Read the JSON of a request.

    Raises:
        Malformed: it is no JSON object.
        Invalid: a member has a value that it cannot have.
    """
    header = _parse(text)
    parameters = _object(header.get("parameters", {}), "parameters")
    reserved = next((name for name in parameters if name.startswith("triton_")), None)
    if reserved is not None:
        raise Invalid(f"parameters.{reserved}", parameters[reserved], "no name with triton_")
    rows, sizes, inline = _inputs(header)
    request_id = header.get("id", "")
    if not isinstance(request_id, str):
        raise Invalid("id", request_id, "a string")
    is_binary = _flag(parameters, "binary_data_output", "parameters")
    return InferHeader(
        *(rows, sizes, inline),
        wish=Wish(request_id, _outputs(header, is_binary), is_binary),
        timeout_us=_count(parameters, "timeout"),
        priority=_count(parameters, "priority"),
    )


def _parse(text: bytes) -> dict[str, Any]:
    try:
        header = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise Malformed(f"the JSON of the request cannot be read: {error}") from None
    if not isinstance(header, dict):
        raise Malformed("the JSON of the request is no object")
    unknown = next((name for name in header if name not in _MEMBERS), None)
    if unknown is not None:
        raise Invalid(unknown, header[unknown], f"members {', '.join(sorted(_MEMBERS))}")
    return header


def _inputs(
    header: dict[str, Any],
) -> tuple[tuple[TensorRow, ...], tuple[int | None, ...], dict[int, bytes]]:
    inputs = header.get("inputs")
    if not isinstance(inputs, list) or not inputs or len(inputs) > _MOST_TENSORS:
        raise Invalid("inputs", inputs, f"a list of 1 to {_MOST_TENSORS} tensors")
    rows: list[TensorRow] = []
    sizes: list[int | None] = []
    inline: dict[int, bytes] = {}
    for position, one in enumerate(inputs):
        field = f"inputs[{position}]"
        row = _row(_object(one, field), field)
        if any(row[0] == other[0] for other in rows):
            raise Invalid(f"{field}.name", row[0], "another name than the inputs before it")
        size = _binary_size(one, field)
        if size is None:
            inline[position] = _numbers(one, row, field)
        else:
            check_depth(one)
            expected = math.prod(row[2]) * row[1].itemsize
            if size != expected:
                what = f"{expected}, the bytes of {one['datatype']} {list(row[2])}"
                raise Invalid(f"{field}.parameters.binary_data_size", size, what)
        rows.append(row)
        sizes.append(size)
    return tuple(rows), tuple(sizes), inline


def _row(tensor: dict[str, Any], field: str) -> TensorRow:
    name, shape = tensor.get("name"), tensor.get("shape")
    if not isinstance(name, str):
        raise Invalid(f"{field}.name", name, "a string")
    dtype = dtype_of(tensor.get("datatype"), f"{field}.datatype")
    if not isinstance(shape, list):
        raise Invalid(f"{field}.shape", shape, "a list of sizes of at least 0")
    fault = shape_fault(shape, dtype)
    if fault is not None:
        raise Invalid(f"{field}.shape", shape, f"a list with {fault}")
    return name, dtype, tuple(shape)


def _binary_size(tensor: dict[str, Any], field: str) -> int | None:
    """Return the bytes of a tensor behind the header, None for one with ``data``."""
    parameters = _object(tensor.get("parameters", {}), f"{field}.parameters")
    size = parameters.get("binary_data_size")
    if size is None:
        return None
    if type(size) is not int or size < 0:
        raise Invalid(f"{field}.parameters.binary_data_size", size, "a number of bytes")
    if "data" in tensor:
        raise Invalid(f"{field}.data", "numbers", "none beside binary_data_size")
    return size


def _numbers(tensor: dict[str, Any], row: TensorRow, field: str) -> bytes:
    _, dtype, shape = row
    if "data" not in tensor:
        raise Invalid(f"{field}.data", "nothing", "numbers, or parameters.binary_data_size")
    if not isinstance(tensor["data"], list):
        raise Invalid(f"{field}.data", tensor["data"], "a list of numbers")
    array = read_tensor(tensor["data"], f"{field}.data", dtype.name)
    if array.size != math.prod(shape):
        raise Invalid(f"{field}.data", f"{array.size} numbers", f"{math.prod(shape)}, as in shape")
    return array.astype(dtype, copy=False).tobytes()


def _outputs(header: dict[str, Any], is_binary: bool) -> tuple[tuple[str, bool], ...] | None:
    outputs = header.get("outputs")
    if outputs is None or outputs == []:
        return None
    if not isinstance(outputs, list) or len(outputs) > _MOST_TENSORS:
        raise Invalid("outputs", outputs, f"a list of at most {_MOST_TENSORS} outputs")
    found: dict[str, bool] = {}
    for position, one in enumerate(outputs):
        field = f"outputs[{position}]"
        name = _object(one, field).get("name")
        if not isinstance(name, str) or name in found:
            raise Invalid(f"{field}.name", name, "the name of an output, once")
        parameters = _object(one.get("parameters", {}), f"{field}.parameters")
        found[name] = _flag(parameters, "binary_data", f"{field}.parameters", is_binary)
    return tuple(found.items())


def _object(value: Any, field: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Invalid(field, value, "an object")
    return value


def _flag(parameters: dict[str, Any], name: str, field: str, default: bool = False) -> bool:
    value = parameters.get(name, default)
    if not isinstance(value, bool):
        raise Invalid(f"{field}.{name}", value, "true or false")
    return value


def _count(parameters: dict[str, Any], name: str) -> int:
    value = parameters.get(name, 0)
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise Invalid(f"parameters.{name}", value, "a whole number of at least 0")
    return value
