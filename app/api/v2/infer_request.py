"""The inference request: a JSON header, with tensors in it or after it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson

from app.api.v2.bytes_tensors import pack_json
from app.api.v2.datatypes import BINARY_ONLY, BYTES, dtype_of
from app.domain.sequence import SequencePart, sequence_part
from app.errors.tree import Invalid, Malformed
from app.link.slots import Piece
from app.services.predictions.predict_calls import TensorRow
from app.tensors.json_bodies import DEEPEST, check_depth
from app.tensors.json_tensors import read_tensor
from app.tensors.shapes import shape_fault

__all__ = ["InferHeader", "Wish", "WishedOutput", "parse_header", "read_header", "to_header"]

_MOST_TENSORS = 1024
_LONGEST_INTEGER = 20  # digits of the largest 64-bit integers
_HIGHEST_PRIORITY = (1 << 31) - 1  # executors take it as a signed 32-bit integer
_NOT_FINITE = (b"NaN", b"Infinity")


class WishedOutput(NamedTuple):
    """A requested output.

    Attributes:
        name: its name.
        is_binary: whether it follows the header in binary.
        classes: number of top classes to return instead of the numbers; 0 for the numbers.
    """

    name: str
    is_binary: bool
    classes: int = 0


@dataclass(frozen=True, slots=True)
class Wish:
    """The requested form of the response.

    Attributes:
        request_id: the client's id, empty for none.
        outputs: the requested outputs; None for all.
        is_binary: whether outputs not named in ``outputs`` follow the header in binary.
    """

    request_id: str = ""
    outputs: tuple[WishedOutput, ...] | None = None
    is_binary: bool = False


@dataclass(frozen=True, slots=True)
class InferHeader:
    """The JSON of a request.

    Attributes:
        rows: the inputs.
        sizes: number of bytes of each input after the header, in order; None for an input in
            ``inline``.
        inline: the bytes of inputs whose numbers are in the header, by position.
        wish: the requested form of the response.
        timeout_us: how long the client waits; 0 for no limit.
        priority: lower values come first.
        part: the part of a sequence that it is, None if it is none.
    """

    rows: tuple[TensorRow, ...]
    sizes: tuple[int | None, ...]
    inline: Mapping[int, Piece]
    wish: Wish
    timeout_us: int
    priority: int
    part: SequencePart | None = None

    @property
    def bytes_behind(self) -> int:
        """Number of bytes of all inputs after the header."""
        return sum(size or 0 for size in self.sizes)

    def pieces(self, behind: memoryview) -> list[Piece]:
        """Return the bytes of each input; raise Malformed if their number is wrong."""
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

    Members that the protocol does not define are ignored, because clients send some.

    Raises:
        Malformed: it is not a JSON object.
        Invalid: a member has an invalid value.
    """
    return to_header(parse_header(text))


def to_header(header: dict[str, Any]) -> InferHeader:
    """Read the parsed JSON of a request; raise Invalid."""
    parameters = _object(header.get("parameters", {}), "parameters")
    reserved = next((name for name in parameters if name.startswith("triton_")), None)
    if reserved is not None:
        expected = "no parameter whose name begins with triton_, which Triton reserves"
        raise Invalid(f"parameters.{reserved}", parameters[reserved], expected)
    rows, sizes, inline = _inputs(header)
    request_id = header.get("id", "")
    if not isinstance(request_id, str):
        raise Invalid("id", request_id, "a string")
    is_binary = _flag(parameters, "binary_data_output", "parameters")
    return InferHeader(
        *(rows, sizes, inline),
        wish=Wish(request_id, _outputs(header, is_binary), is_binary),
        timeout_us=_count(parameters, "timeout"),
        priority=min(_count(parameters, "priority"), _HIGHEST_PRIORITY),
        part=_part(parameters),
    )


def _part(parameters: dict[str, Any]) -> SequencePart | None:
    sequence_id = parameters.get("sequence_id", 0)
    if type(sequence_id) not in (int, str):
        raise Invalid("parameters.sequence_id", sequence_id, "a number or a string")
    is_start = _flag(parameters, "sequence_start", "parameters")
    is_end = _flag(parameters, "sequence_end", "parameters")
    return sequence_part(sequence_id, is_start, is_end, "parameters.")


def parse_header(text: bytes) -> dict[str, Any]:
    """Parse the JSON of a request; raise Malformed."""
    try:
        header = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        if not any(word in text for word in _NOT_FINITE):
            raise Malformed(f"the JSON of the request cannot be read: {error}") from None
        header = _parse_loosely(text)
    if not isinstance(header, dict):
        raise Malformed("the JSON of the request is not an object")
    if text.count(b"[") + text.count(b"{") > DEEPEST:
        check_depth(header)
    return header


def _parse_loosely(text: bytes) -> Any:
    """Parse JSON with ``NaN`` and ``Infinity``, which clients send although JSON lacks them."""
    try:
        return json.loads(text, parse_int=_integer)
    except RecursionError:
        raise Malformed("the JSON of the request is nested too deep") from None
    except ValueError as error:
        raise Malformed(f"the JSON of the request cannot be read: {error}") from None


def _integer(text: str) -> int | float:
    # As orjson reads it. ``int`` takes quadratic time.
    return int(text) if len(text) <= _LONGEST_INTEGER else float(text)


def _inputs(
    header: dict[str, Any],
) -> tuple[tuple[TensorRow, ...], tuple[int | None, ...], dict[int, Piece]]:
    inputs = header.get("inputs")
    if not isinstance(inputs, list) or not inputs or len(inputs) > _MOST_TENSORS:
        got = inputs if "inputs" in header else "nothing"
        raise Invalid("inputs", got, f"a list of 1 to {_MOST_TENSORS} tensors")
    rows: list[TensorRow] = []
    sizes: list[int | None] = []
    inline: dict[int, Piece] = {}
    names: set[str] = set()
    for position, one in enumerate(inputs):
        field = f"inputs[{position}]"
        row = _row(_object(one, field), field)
        if row[0] in names:
            raise Invalid(f"{field}.name", row[0], "a name that no other input has")
        names.add(row[0])
        size = _binary_size(one, field)
        if size is None:
            inline[position] = _numbers(one, row, field)
        elif row[1] != BYTES:
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
        raise Invalid(f"{field}.name", name if "name" in tensor else "nothing", "a string")
    dtype = dtype_of(tensor.get("datatype", "nothing"), f"{field}.datatype")
    if not isinstance(shape, list):
        got = shape if "shape" in tensor else "nothing"
        raise Invalid(f"{field}.shape", got, "a list of sizes of at least 0")
    fault = shape_fault(shape, dtype)
    if fault is not None:
        raise Invalid(f"{field}.shape", shape, f"a list with {fault}")
    return name, dtype, tuple(shape)


def _binary_size(tensor: dict[str, Any], field: str) -> int | None:
    """Return the number of a tensor's bytes after the header, None if it has ``data``."""
    parameters = _tensor_parameters(tensor, f"{field}.parameters")
    size = parameters.get("binary_data_size")
    if size is None:
        return None
    if type(size) is not int or size < 0:
        raise Invalid(f"{field}.parameters.binary_data_size", size, "a number of bytes")
    if "data" in tensor:
        raise Invalid(f"{field}.data", "numbers", "no data together with binary_data_size")
    return size


def _numbers(tensor: dict[str, Any], row: TensorRow, field: str) -> bytes:
    _, dtype, shape = row
    if "data" not in tensor:
        raise Invalid(f"{field}.data", "nothing", "numbers, or parameters.binary_data_size")
    if dtype == BYTES:
        return pack_json(tensor["data"], math.prod(shape), f"{field}.data")
    if dtype == BINARY_ONLY:
        expected = f"{tensor['datatype']} after the JSON, announced by parameters.binary_data_size"
        raise Invalid(f"{field}.data", "numbers", expected)
    if not isinstance(tensor["data"], list):
        raise Invalid(f"{field}.data", tensor["data"], "a list of numbers")
    # ``read_tensor`` takes true for 1, as NumPy does; Triton refuses it.
    if dtype.kind != "b" and _holds_booleans(tensor["data"]):
        raise Invalid(f"{field}.data", "true or false", f"numbers, as {tensor['datatype']} has")
    array = read_tensor(tensor["data"], f"{field}.data", dtype.name)
    if array.size != math.prod(shape):
        raise Invalid(f"{field}.data", f"{array.size} numbers", f"{math.prod(shape)}, as in shape")
    return array.astype(dtype, copy=False).tobytes()


def _holds_booleans(data: list[Any]) -> bool:
    kinds = set(map(type, data))
    if bool in kinds:
        return True
    return list in kinds and any(_holds_booleans(one) for one in data if type(one) is list)


def _outputs(header: dict[str, Any], is_binary: bool) -> tuple[WishedOutput, ...] | None:
    outputs = header.get("outputs")
    if outputs is None or outputs == []:
        return None
    if not isinstance(outputs, list) or len(outputs) > _MOST_TENSORS:
        raise Invalid("outputs", outputs, f"a list of at most {_MOST_TENSORS} outputs")
    found: dict[str, WishedOutput] = {}
    for position, one in enumerate(outputs):
        field = f"outputs[{position}]"
        name = _object(one, field).get("name")
        if not isinstance(name, str) or name in found:
            raise Invalid(f"{field}.name", name, "the name of an output, once")
        found[name] = _wished(one, name, f"{field}.parameters", is_binary)
    return tuple(found.values())


def _wished(output: dict[str, Any], name: str, field: str, is_binary: bool) -> WishedOutput:
    parameters = _tensor_parameters(output, field)
    is_binary = _flag(parameters, "binary_data", field, is_binary)
    classes = parameters.get("classification", 0)
    is_valid = type(classes) is int and 0 <= classes < 1 << 31
    if not is_valid or ("classification" in parameters and not classes):
        raise Invalid(f"{field}.classification", classes, "a number of classes, at least 1")
    return WishedOutput(name, is_binary, classes)


def _tensor_parameters(tensor: dict[str, Any], field: str) -> dict[str, Any]:
    """Return the parameters of an input or output; raise Invalid for shared memory.

    Ignoring it would make the client wait in vain for output in its memory.
    """
    parameters = _object(tensor.get("parameters", {}), field)
    region = parameters.get("shared_memory_region")
    if region is not None:
        expected = "none: this server does not support shared memory; send tensors in the body"
        raise Invalid(f"{field}.shared_memory_region", region, expected)
    return parameters


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
