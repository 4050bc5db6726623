"""The inference response: a JSON header, with outputs in it or after it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import orjson

from app.api.v2.bytes_tensors import pack
from app.api.v2.classification import classified
from app.api.v2.datatypes import BINARY_ONLY, datatype_of
from app.api.v2.infer_request import Wish, WishedOutput
from app.errors.quoting import did_you_mean
from app.errors.tree import Invalid
from app.link.client import Outcome
from app.link.signatures import Signature
from app.tensors.content import Content

__all__ = ["Answers", "Written"]

_MOST_KNOWN = 4096
_NUMBERS_AT_ONCE = 1 << 13  # holds the interpreter's lock for less than a millisecond

Piece: TypeAlias = bytes | memoryview
Labels: TypeAlias = Mapping[str, Sequence[str]]


class Written(NamedTuple):
    """A response.

    Attributes:
        content: its body.
        header_bytes: length of the JSON at its start, before compression; None if nothing follows
            it.
        coding: how the body is compressed, None if it is not.
    """

    content: Content
    header_bytes: int | None
    coding: str | None = None

    @property
    def headers(self) -> dict[str, str]:
        """The header fields that describe the body."""
        if self.header_bytes is None:
            fields = {"content-type": "application/json"}
        else:
            fields = {
                "content-type": "application/octet-stream",
                "inference-header-content-length": str(self.header_bytes),
            }
        return fields if self.coding is None else fields | {"content-encoding": self.coding}

    @property
    def lines(self) -> bytes:
        """The header fields as lines."""
        if self.coding is None and self.header_bytes is not None:
            return (
                b"content-type: application/octet-stream\r\n"
                b"inference-header-content-length: %d\r\n" % self.header_bytes
            )
        return "".join(f"{name}: {value}\r\n" for name, value in self.headers.items()).encode()


class _Chosen(NamedTuple):
    """A requested output: its position among the outputs, and its form."""

    number: int
    is_binary: bool
    classes: int


class _Described(NamedTuple):
    """An output in the header: its description, and what its data are unless they follow it."""

    plain: dict[str, Any]
    data: list[str] | npt.NDArray[Any] | None = None


class _Form(NamedTuple):
    """The layout of responses with one signature and wish, with all outputs after the header."""

    header: bytes
    places: list[tuple[int, int]]


class Answers:
    """Writes responses of one version of a model; prepares each layout only once."""

    def __init__(self, model: str, version: str) -> None:
        self._fields = {"model_name": model, "model_version": version}
        self._forms: dict[tuple[Signature, Wish], _Form] = {}

    def write(self, outcome: Outcome, wish: Wish, labels: Labels) -> Written:
        """Return the response; raise Invalid for an output that does not exist.

        Args:
            labels: class labels by output.
        """
        form = self._forms.get((outcome.outputs, wish))
        if form is None:
            chosen = _chosen(outcome.outputs, wish)
            if not all(one.is_binary and not one.classes for one in chosen):
                return self._mixed(outcome, wish, chosen, labels)
            form = self._form(outcome.outputs, wish, chosen)
        memory = outcome.memory
        pieces: list[Piece] = [form.header, *(memory[a:b] for a, b in form.places)]
        return Written(Content.of(pieces), len(form.header))

    def _form(self, outputs: Signature, wish: Wish, chosen: Sequence[_Chosen]) -> _Form:
        places = [_place(outputs, one.number) for one in chosen]
        listed = [
            [orjson.dumps(_output(outputs, one) | _binary(end - begin))]
            for one, (begin, end) in zip(chosen, places, strict=True)
        ]
        form = _Form(b"".join(self._header(wish, listed)), places)
        if not wish.request_id:  # ids differ from request to request
            if len(self._forms) >= _MOST_KNOWN:
                self._forms.clear()
            self._forms[outputs, wish] = form
        return form

    def _mixed(
        self, outcome: Outcome, wish: Wish, chosen: Sequence[_Chosen], labels: Labels
    ) -> Written:
        """Write a response that has numbers or class labels in its JSON."""
        arrays = outcome.outputs.arrays(np.frombuffer(outcome.memory, np.uint8), 0)
        described: list[_Described] = []
        behind: list[Piece] = []
        for one in chosen:
            array = arrays[outcome.outputs.rows[one.number][0]]
            plain = _output(outcome.outputs, one)
            data: list[str] | npt.NDArray[Any] = array
            if one.classes:
                names = labels.get(plain["name"], ())
                plain["shape"], data = classified(plain["name"], array, one.classes, names)
                plain["datatype"] = "BYTES"
            if one.is_binary:
                begin, end = _place(outcome.outputs, one.number)
                octets: Piece = outcome.memory[begin:end]
                if isinstance(data, list):
                    octets = pack(text.encode() for text in data)
                behind.append(octets)
                described.append(_Described(plain | _binary(len(octets))))
            else:
                described.append(_Described(plain, data))

        def header() -> Iterator[bytes]:
            return self._header(wish, (_described(one) for one in described))

        if not behind:
            return Written(Content(header()), None)
        # Its length is told before it, so it is made twice rather than kept.
        size = sum(map(len, header()))
        total = size + sum(map(len, behind))
        return Written(Content(chain[Piece](header(), behind), total), size)

    def _header(self, wish: Wish, listed: Iterable[Iterable[bytes]]) -> Iterator[bytes]:
        """Yield the header in pieces, because large ones as a whole would take much memory."""
        request_id = {"id": wish.request_id} if wish.request_id else {}
        yield orjson.dumps(self._fields | request_id)[:-1]
        opening = b',"outputs":['
        for one in listed:
            yield opening
            yield from one
            opening = b","
        yield b"]}"


def _described(output: _Described) -> Iterator[bytes]:
    if output.data is None:
        yield orjson.dumps(output.plain)
        return
    yield orjson.dumps(output.plain)[:-1]
    yield b',"data":'
    if isinstance(output.data, list):
        yield orjson.dumps(output.data)
    else:
        yield from _numbers(output.data)
    yield b"}"


def _chosen(outputs: Signature, wish: Wish) -> list[_Chosen]:
    """Return the requested outputs."""
    names = [row[0] for row in outputs.rows]
    wished = wish.outputs
    if wished is None:
        wished = tuple(WishedOutput(name, wish.is_binary) for name in names)
    found = []
    for n, one in enumerate(wished):
        if one.name not in names:
            known = f"{', '.join(names)}{did_you_mean(one.name, names)}"
            raise Invalid(f"outputs[{n}].name", one.name, f"one of the model's outputs: {known}")
        number = names.index(one.name)
        dtype = outputs.rows[number][1]
        if dtype == BINARY_ONLY and not one.is_binary and not one.classes:
            raise Invalid(
                f"outputs.{one.name}", "a BF16 output in JSON", "parameters.binary_data true"
            )
        found.append(_Chosen(number, one.is_binary, one.classes))
    return found


def _output(outputs: Signature, chosen: _Chosen) -> dict[str, Any]:
    name, dtype, shape, _ = outputs.rows[chosen.number]
    return {"name": name, "datatype": datatype_of(dtype), "shape": shape}


def _binary(size: int) -> dict[str, Any]:
    return {"parameters": {"binary_data_size": size}}


def _place(outputs: Signature, number: int) -> tuple[int, int]:
    """Return where an output begins and ends."""
    _, dtype, shape, at = outputs.rows[number]
    return at, at + int(np.prod(shape, dtype=np.int64)) * dtype.itemsize


def _numbers(array: npt.NDArray[Any]) -> Iterator[bytes]:
    """Yield the pieces of a JSON list of an array's numbers, written in steps that let other
    threads run.

    NaN and infinity are written as in Triton: ``NaN`` and ``Infinity``.
    """
    flat = array.reshape(-1)
    begins = range(0, flat.size, _NUMBERS_AT_ONCE)
    # For all steps at once, because NumPy gives up the interpreter's lock while it computes. A loop
    # that did so in each step, and took it back at once, would starve other threads: they demand
    # the lock only once they have waited for 5 ms without its being given up.
    are_finite = [True] * len(begins)
    if flat.dtype.kind == "f" and flat.size:
        are_finite = np.logical_and.reduceat(np.isfinite(flat), begins).tolist()
    opening = b"["
    for begin, is_finite in zip(begins, are_finite, strict=True):
        numbers = flat[begin : begin + _NUMBERS_AT_ONCE].tolist()
        yield opening
        if is_finite:
            yield orjson.dumps(numbers)[1:-1]
        else:  # orjson would write null
            yield json.dumps(numbers, separators=(",", ":")).encode()[1:-1]
        opening = b","
    yield b"]" if flat.size else b"[]"
