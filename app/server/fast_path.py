"""A fast path for small predictions.

A client that predicts sends the identical request head again and again. Heads are therefore cached
by their bytes: a request with a known head costs one dictionary lookup. A new head is parsed by the
same parser and checked by the same guards as any other request.
"""

from __future__ import annotations

import itertools
import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias
from urllib.parse import unquote

import httptools
from starlette.types import Scope

from app.api.exchanges import Admit, BeginFor, Opener, RequestHead
from app.api.traces import Trace
from app.errors.tree import ServiceError
from app.server.root_path import RootPath

__all__ = ["AnswerFields", "FastPath", "KnownHead"]

_END = b"\r\n\r\n"
_LARGEST_HEAD = 4096  # with _MOST_KNOWN, limits the cache to 16 MiB
_LARGEST_BODY = 16 * 2**10  # read on the event loop, within milliseconds
_MOST_KNOWN = 4096
_SAFE_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_NOT_HERE = frozenset({"transfer-encoding", "content-encoding", "content-range", "expect"})
"""Fields that need more than taking ``Content-Length`` bytes as the body."""

AnswerFields: TypeAlias = Callable[[Scope], Sequence[tuple[bytes, bytes]]]


@dataclass(frozen=True, slots=True)
class KnownHead:
    """A head whose requests take the fast path.

    Attributes:
        begin: starts a request's prediction.
        path: as the client sent it.
        route: the route's path template, for the metrics.
        body_bytes: length of each request's body.
        request_id: the client's own id; empty if the server assigns one.
        trace: the client's trace context, if it sent one.
        fields, lines: what every answer has, and the same as bytes.
    """

    begin: BeginFor
    path: str
    route: str
    body_bytes: int
    request_id: str = ""
    trace: Trace | None = None
    fields: Sequence[tuple[bytes, bytes]] = ()
    lines: bytes = b""


class FastPath:
    """The cache of known heads."""

    def __init__(
        self,
        openers: Sequence[tuple[str, Opener]],
        guard: Callable[[Scope], ServiceError | None],
        admit: Admit,
        fields: AnswerFields,
        below: RootPath,
    ) -> None:
        """Start with an empty cache.

        Args:
            openers: by route, what decides how requests with a head are answered.
            guard: returns why a request is refused, None if it is allowed.
            admit: checks the API key of a head and counts its requests.
            fields: returns what every answer to a request has.
            below: the sub-path that the server is mounted under.
        """
        self._below = below
        self._openers = openers
        self._guard = guard
        self._admit = admit
        self._fields = fields
        self._known: dict[bytes, KnownHead] = {}
        # Counting is cheaper than a random id for each request; the beginning tells servers apart.
        self._id_begin = secrets.token_hex(8)
        self._id_count = itertools.count()

    def find(self, data: bytes) -> tuple[KnownHead, int] | None:
        """Return the known head at the start of ``data`` and where the body begins, or None."""
        end = data.find(_END, 0, _LARGEST_HEAD)
        if end < 0:
            return None
        text = data[:end]
        head = self._known.get(text) or self._read(text)
        return None if head is None else (head, end + len(_END))

    def new_id(self) -> str:
        """Return an id for a request that has none of its own."""
        return f"{self._id_begin}{next(self._id_count):016x}"

    def forget(self) -> None:
        """Forget all heads, because permissions have changed."""
        self._known.clear()

    def _read(self, text: bytes) -> KnownHead | None:
        if not text.startswith(b"POST /"):
            return None
        parsed = _Parsed()
        try:
            parser = httptools.HttpRequestParser(parsed)
            parser.feed_data(text + _END)
        except httptools.HttpParserUpgrade:
            pass  # we offer no other protocol, and ignore the field
        except httptools.HttpParserError:
            return None
        if not parsed.is_complete or parser.get_http_version() != "1.1":
            return None
        if not parser.should_keep_alive():
            return None
        parsed.url = self._below.strip(parsed.url)
        head, size = parsed.head(), parsed.body_bytes()
        if size is None or _NOT_HERE & head.headers.keys():
            return None
        scope = _scope(head, parsed)
        if self._guard(scope):
            return None
        for route, opener in self._openers:
            begin = opener(head)
            admitted = None if begin is None else self._admit(scope, route, begin)
            if admitted is not None:
                fields = self._fields(scope)
                lines = b"".join(b"%b: %b\r\n" % field for field in fields)
                known = KnownHead(admitted, head.path, route, size, fields=fields, lines=lines)
                return self._learn(text, head, known)
        return None

    def _learn(self, text: bytes, head: RequestHead, known: KnownHead) -> KnownHead:
        own_id = head.headers.get("x-request-id", "")
        own_id = own_id if _SAFE_ID.fullmatch(own_id) else ""
        trace = Trace.take_over(head.headers.get("traceparent", ""))
        if own_id or trace is not None:  # such a head is different in each request
            return replace(known, request_id=own_id, trace=trace)
        # Cleared as a whole: bookkeeping of the least recently used would cost each request more
        # than it costs to read some heads again.
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[text] = known
        return known


class _Parsed:
    """What the parser found in a head."""

    def __init__(self) -> None:
        self.url = b""
        self.fields: list[tuple[bytes, bytes]] = []
        self.is_complete = False

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.fields.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self.is_complete = True

    def head(self) -> RequestHead:
        """Return the head."""
        path, _, query = self.url.partition(b"?")
        headers: dict[str, str] = {}
        for name, value in self.fields:
            key, text = name.decode("latin-1"), value.decode("latin-1")
            headers[key] = f"{headers[key]}, {text}" if key in headers else text
        return RequestHead("POST", path.decode("latin-1"), query.decode("latin-1"), headers)

    def body_bytes(self) -> int | None:
        """Return the body's length if it is declared and small, else None."""
        stated = [value for name, value in self.fields if name == b"content-length"]
        # More than six digits are over the limit anyway, and long texts are slow to convert.
        if len(stated) != 1 or not stated[0].isdigit() or len(stated[0]) > 6:
            return None
        size = int(stated[0])
        return size if size <= _LARGEST_BODY else None


def _scope(head: RequestHead, parsed: _Parsed) -> dict[str, Any]:
    return {
        "type": "http",
        "method": head.method,
        "path": unquote(head.path),
        "http_version": "1.1",
        "headers": parsed.fields,
    }
