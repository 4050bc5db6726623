"""``POST /v1/modules/{module}/predict``, also of a version, with a small body: from its bytes to
the answer's."""

from __future__ import annotations

import asyncio
import io
import json
import re
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import unquote

import numpy as np

from app.api.bodies import FEW_BYTES
from app.api.contents import fast_body
from app.api.exchanges import Begin, Later, Opener, Pending, RequestHead, Respond
from app.api.v1.ragged_predictions import may_be_ragged, predict_ragged
from app.api.v1.raw_bodies import RawBody, begins_as_image, holds_images, split_body
from app.api.v1.raw_inputs import RawInputs, kinds_of
from app.api.v1.tensor_io import PredictFields, members_of
from app.domain.codec import from_plain
from app.domain.module import ModuleKind, ModuleRecord
from app.domain.sequence import SequencePart
from app.errors.answers import error_answer
from app.errors.tree import NotFound
from app.link.client import Outcome
from app.link.signatures import Signature
from app.link.slots import Piece
from app.services.modules.versions import Version, Versions
from app.services.predictions.predict_calls import TensorRow, bound_dtypes, pieces_of, rows_of
from app.services.predictions.predictions import Predictions
from app.settings import Settings
from app.tensors.codec import NPY, Tensors, body_type, content_of, decode, negotiate
from app.tensors.content import Content
from app.tensors.json_tensors import is_uneven
from app.tensors.npy import npy_pieces, read_npy_header

__all__ = ["PredictFastPath"]

_PATH = re.compile(r"/v1/modules/([^/]+)/predict")
_VERSION_PATH = re.compile(r"/v1/modules/([^/]+)/versions/([^/]+)/predict")
_VERSION_QUERY = re.compile(r"version=([A-Za-z0-9._-]+)")
_NPY_BEGINNING = b"\x93NUMPY\x01\x00"
"""That of version 1.0; the header of 2.0, which has a longer length, is for more than numbers."""
_NPY_LENGTH = slice(8, 10)
_MOST_KNOWN = 4096
"""Maximum number of npy headers that are remembered: clients choose what they send."""

_Written: TypeAlias = tuple[bytes, Content]
"""The lines of an answer's head, and its body."""
_Write: TypeAlias = Callable[[Outcome], _Written]
_Refuse: TypeAlias = Callable[[Exception], None]


class _Body(NamedTuple):
    rows: tuple[TensorRow, ...]
    pieces: list[Piece]
    bucket: str | None = None
    part: SequencePart | None = None


class PredictFastPath:
    """Answers predictions whose bodies are small, without passing through the framework's routes.

    It reads only the usual forms of a request: any other is left to the route, which reads all
    of them.
    """

    def __init__(
        self,
        predictions: Predictions,
        versions: Versions,
        raw_inputs: RawInputs,
        settings: Settings,
    ) -> None:
        """Prepare.

        Args:
            raw_inputs: transforms images and texts into inputs.
            settings: of the server.
        """
        self._predictions = predictions
        self._versions = versions
        self._raw_inputs = raw_inputs
        self._most_unpacked_bytes = settings.max_body_bytes
        self._root_path = settings.root_path
        # Most requests of a client have the same header, and reading one takes longer than
        # looking it up; the same holds for those of answers.
        self._npy_rows: dict[bytes, tuple[Any, tuple[int, ...]]] = {}
        self._npy_heads: dict[Signature, bytes] = {}
        self._writing: set[asyncio.Task[None]] = set()  # asyncio itself does not keep tasks alive

    def openers(self) -> list[tuple[str, Opener]]:
        """Return functions that decide how requests with a head are answered, by route."""
        return [
            ("/v1/modules/{module}/predict", self._open),
            ("/v1/modules/{module}/versions/{version}/predict", self._open_version),
        ]

    def _open(self, head: RequestHead) -> Begin | None:
        path, query = _PATH.fullmatch(head.path), _VERSION_QUERY.fullmatch(head.query)
        if path is None or (head.query and query is None):
            return None
        return self._opened(head, path[1], None if query is None else query[1])

    def _open_version(self, head: RequestHead) -> Begin | None:
        path = _VERSION_PATH.fullmatch(head.path)
        if path is None or head.query:
            return None
        return self._opened(head, path[1], unquote(path[2]))

    def _opened(self, head: RequestHead, module: str, version: str | None) -> Begin | None:
        name = unquote(module)
        if self._predictions.record(name) is None:
            return None
        content_type, accept = head.headers.get("content-type"), head.headers.get("accept")
        if holds_images(content_type):
            return None
        return partial(self._begin, unquote(head.path), name, version, content_type, accept)

    def _begin(
        self,
        path: str,
        name: str,
        wanted: str | None,
        content_type: str | None,
        accept: str | None,
        body: bytes,
        request_id: str,
        respond: Respond,
    ) -> Pending | None:
        def refuse(error: Exception) -> None:
            answer = error_answer(error, request_id, path, self._root_path)
            respond(answer.status, answer.lines, answer.body)

        def ask(asked: _Body, version: Version) -> Pending:
            write = partial(self._write, record, version, accept)
            on_outcome = partial(self._on_outcome, write, refuse, respond)
            target = self._predictions.target(record, version, asked.rows, asked.bucket, asked.part)
            return self._predictions.ask(record, version, target, asked.pieces, on_outcome)

        def ask_for(asked: _Body) -> Pending | None:
            return self._versions.when_chosen(
                record, wanted, partial(ask, asked), refuse, asked.part
            )

        async def transform_and_ask(raw: RawBody) -> Pending | None:
            try:
                made = await self._raw_inputs.tensors(record, raw.values)
                return ask_for(_as_body(made | raw.tensors, raw.rest))
            except Exception as error:
                refuse(error)
                return None

        try:
            known = self._predictions.record(name)
            if known is None:  # it was deleted while the body arrived
                raise NotFound("module", name, "GET /v1/modules lists those that do")
            record = known
            if record.transforms or begins_as_image(content_type, body):
                raw = split_body(content_type, body, kinds_of(record), bound_dtypes(record))
                if raw is not None:
                    return Later(transform_and_ask(raw))
            return ask_for(self._read(record, content_type, body))
        except Exception as error:
            if is_uneven(error) and may_be_ragged(record):
                return Later(self._answer_ragged(record, wanted, body, accept, respond, refuse))
            refuse(error)
            return None

    async def _answer_ragged(
        self,
        record: ModuleRecord,
        wanted: str | None,
        body: bytes,
        accept: str | None,
        respond: Respond,
        refuse: Callable[[Exception], None],
    ) -> None:
        try:
            version = await self._versions.choose(record, wanted)
            answered = predict_ragged(self._predictions, record, version, body, accept)
            kind, make, release = await answered
            content = await fast_body(make, release)
        except Exception as error:
            refuse(error)
            return
        line = b"x-model-version: %b\r\n" % version.name.encode()
        respond(200, line + b"content-type: %b\r\n" % kind.encode(), content)

    def _read(self, record: ModuleRecord, content_type: str | None, body: bytes) -> _Body:
        kind = body_type(content_type, body)
        if kind == NPY:
            known = self._read_npy(record.data_names[0], body)
            if known is not None:
                return known
        tensors, rest = decode(
            *(content_type, body),
            names=record.data_names,
            limit=self._most_unpacked_bytes,
            setting="MODSERVE_MAX_BODY_BYTES",
            dtypes=bound_dtypes(record),
        )
        return _as_body(tensors, rest)

    def _read_npy(self, name: str, body: bytes) -> _Body | None:
        """Return the body after a header that was seen before; None if it is not simple."""
        if not body.startswith(_NPY_BEGINNING):
            return None
        at = 10 + int.from_bytes(body[_NPY_LENGTH], "little")
        text = body[:at]
        row = self._npy_rows.get(text)
        if row is None:
            header = read_npy_header(io.BytesIO(text), "body")
            if header.header_bytes != at or header.order != "C" or not header.dtype.isnative:
                return None
            if len(self._npy_rows) >= _MOST_KNOWN:
                self._npy_rows.clear()
            row = self._npy_rows[text] = header.dtype, header.shape
        dtype, shape = row
        piece = memoryview(body)[at:]
        if len(piece) != int(np.prod(shape, dtype=np.int64)) * dtype.itemsize:
            return None  # the complete reader reports that
        return _Body(((name, dtype, shape),), [piece])

    def _on_outcome(
        self, write: _Write, refuse: _Refuse, respond: Respond, outcome: Outcome | Exception
    ) -> None:
        if not isinstance(outcome, Outcome):
            refuse(outcome)
        elif outcome.outputs.nbytes > FEW_BYTES:  # a small body may have a large answer
            task = asyncio.ensure_future(_write_beside(write, refuse, respond, outcome))
            self._writing.add(task)
            task.add_done_callback(self._writing.discard)
        else:
            _write_here(write, refuse, respond, outcome)

    def _write(
        self, record: ModuleRecord, version: Version, accept: str | None, outcome: Outcome
    ) -> _Written:
        outputs = outcome.outputs
        line = b"x-model-version: %b\r\n" % version.name.encode()
        kind = negotiate(accept, single=len(outputs.rows) == 1)
        if kind == NPY and outputs in self._npy_heads and not outcome.result.get("batch_axes"):
            pieces = (self._npy_heads[outputs], outcome.memory[: outputs.nbytes])
            return line + b"content-type: application/x-npy\r\n", Content.of(pieces)
        arrays = outputs.arrays(np.frombuffer(outcome.memory, np.uint8), 0)
        if kind == NPY:
            self._learn_head(outputs, arrays)
        extra: dict[str, Any] = {"version": version.name}
        if record.kind is ModuleKind.BUCKETING:
            extra["bucket"] = outcome.result["bucket"]
        axes = outcome.result.get("batch_axes", {})
        if axes:
            line += b"x-batch-axes: %b\r\n" % json.dumps(axes).encode()
        content = content_of(kind, arrays, "outputs", extra, members_of(axes))
        return line + b"content-type: %b\r\n" % kind.encode(), content

    def _learn_head(self, outputs: Signature, arrays: dict[str, Any]) -> None:
        (array,) = arrays.values()
        head, written = npy_pieces(array)
        if written is array:  # not of a dtype that npy files cannot name
            if len(self._npy_heads) >= _MOST_KNOWN:
                self._npy_heads.clear()
            self._npy_heads[outputs] = head


def _write_here(write: _Write, refuse: _Refuse, respond: Respond, outcome: Outcome) -> None:
    try:
        lines, content = write(outcome)
        body = content.whole()
    except Exception as error:
        refuse(error)
    else:
        respond(200, lines, body)
    finally:
        outcome.release()


async def _write_beside(write: _Write, refuse: _Refuse, respond: Respond, outcome: Outcome) -> None:
    lines = b""

    def make() -> Content:
        nonlocal lines
        lines, content = write(outcome)
        return content

    try:
        body = await fast_body(make, outcome.release)
    except Exception as error:
        refuse(error)
    else:
        respond(200, lines, body)


def _as_body(tensors: Tensors, rest: dict[str, Any]) -> _Body:
    fields = from_plain(PredictFields, rest) if rest else PredictFields()
    return _Body(rows_of(tensors), pieces_of(tensors), fields.bucket, fields.part)
