"""The infer answer: a header of JSON, outputs in it or behind it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import orjson

from app.errors import Invalid
from app.link.client import Outcome
from app.link.signatures import Signature
from app.oip.datatypes import datatype_of
from app.oip.infer_request import Wish

__all__ = ["Answers"]

_MOST_KNOWN = 4096


class _Form(NamedTuple):
    """How outputs of one signature are answered to one wish, all of them behind the header."""

    head: bytes
    header: bytes
    places: list[tuple[int, int]]


class Answers:
    """Writes answers; what all of one kind have in common is written once."""

    def __init__(self, module: str, version: str) -> None:
        self._fields = {"model_name": module, "model_version": version}
        self._forms: dict[tuple[Signature, Wish], _Form] = {}

    def write(self, outcome: Outcome, wish: Wish) -> tuple[bytes, bytes]:
        """Return header lines and body; raise Invalid for an output that is not there."""
        form = self._forms.get((outcome.outputs, wish))
        if form is None:
            chosen = _chosen(outcome.outputs, wish)
            if not all(is_binary for _, is_binary in chosen):
                return self._mixed(outcome, wish, chosen)
            form = self._form(outcome.outputs, wish, chosen)
        memory = outcome.memory
        return form.head, b"".join([form.header, *(memory[a:b] for a, b in form.places)])

    def _form(self, outputs: Signature, wish: Wish, chosen: list[tuple[int, bool]]) -> _Form:
        header = self._header(outputs, wish, chosen, {})
        places = [(at, at + size) for at, size in (_extent(outputs, n) for n, _ in chosen)]
        form = _Form(_head(len(header)), header, places)
        if not wish.request_id:
            if len(self._forms) >= _MOST_KNOWN:
                self._forms.clear()
            self._forms[outputs, wish] = form
        return form

    def _mixed(
        self, outcome: Outcome, wish: Wish, chosen: list[tuple[int, bool]]
    ) -> tuple[bytes, bytes]:
        """Write an answer with numbers in its header."""
        arrays = outcome.outputs.arrays(np.frombuffer(outcome.memory, np.uint8), 0)
        inline = {
            number: arrays[outcome.outputs.rows[number][0]]
            for number, is_binary in chosen
            if not is_binary
        }
        header = self._header(outcome.outputs, wish, chosen, inline)
        behind = [_extent(outcome.outputs, number) for number, is_binary in chosen if is_binary]
        if not behind:
            return b"content-type: application/json\r\n", header
        pieces = [outcome.memory[at : at + size] for at, size in behind]
        return _head(len(header)), b"".join([header, *pieces])

    def _header(
        self,
        outputs: Signature,
        wish: Wish,
        chosen: list[tuple[int, bool]],
        inline: Mapping[int, np.ndarray],
    ) -> bytes:
        listed: list[dict[str, Any]] = []
        for number, is_binary in chosen:
            name, dtype, shape, _ = outputs.rows[number]
            one: dict[str, Any] = {"name": name, "datatype": datatype_of(dtype), "shape": shape}
            if is_binary:
                one["parameters"] = {"binary_data_size": _extent(outputs, number)[1]}
            else:
                one["data"] = inline[number].ravel().tolist()
            listed.append(one)
        request_id = {"id": wish.request_id} if wish.request_id else {}
        return _dump(self._fields | request_id | {"outputs": listed}, inline)


def _chosen(outputs: Signature, wish: Wish) -> list[tuple[int, bool]]:
    """Return the numbers of the outputs that are wanted, and whether they go behind the header."""
    names = [row[0] for row in outputs.rows]
    if wish.outputs is None:
        return [(number, wish.is_binary) for number in range(len(names))]
    for name, _ in wish.outputs:
        if name not in names:
            raise Invalid("outputs", name, f"outputs of the model: {', '.join(names)}")
    return [(names.index(name), is_binary) for name, is_binary in wish.outputs]


def _extent(outputs: Signature, number: int) -> tuple[int, int]:
    """Return where an output begins, and its bytes."""
    _, dtype, shape, at = outputs.rows[number]
    return at, int(np.prod(shape, dtype=np.int64)) * dtype.itemsize


def _head(header_bytes: int) -> bytes:
    return (
        b"content-type: application/octet-stream\r\n"
        b"inference-header-content-length: %d\r\n" % header_bytes
    )


def _dump(header: dict[str, Any], inline: Mapping[int, np.ndarray]) -> bytes:
    """Return JSON; numbers that are none are written as Triton does, ``NaN`` and ``Infinity``."""
    if all(np.isfinite(array).all() for array in inline.values()):
        return orjson.dumps(header)
    return json.dumps(header, separators=(",", ":")).encode()
