"""HTTP connections that enforce limits on what a client can take up.

uvicorn's own protocol accepts headers of any length, waits forever for a stalled client, and
buffers responses that are never fetched. Here every connection counts its bytes and is checked once
a second.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from app.api.exchanges import Body, LongBody, Pending
from app.api.middleware import count_answer, log_answer
from app.api.traces import Trace
from app.errors.tree import HeadersTooLarge, Malformed, ServiceError, TooSlow, Unavailable
from app.server.fast_exchange import FastExchange
from app.server.framing import FramedProtocol
from app.server.half_closed import PROBE, PROBE_SECONDS, is_reset
from app.server.limits import ServerConfig
from app.server.long_bodies import LongSending, length_line
from app.server.refusing import RefusingApp, refusal

__all__ = ["LimitedProtocol"]

_log = logging.getLogger(__name__)
_log.setLevel(logging.ERROR)  # keep uvicorn from warning about every malformed request

_PIECE_BYTES = 1 << 16  # parsed between two checks of the limits
_MOST_FIELDS = 256  # each takes some hundred bytes of memory, however short it is
_SPARE_CONNECTIONS = 64  # so many over the limit still get a response; the rest are closed
_SECONDS_TO_READ_REFUSAL = 2.0
_SECONDS_TO_END = 2.0
_MOST_DISCARDED_BYTES = 1 << 26  # a client that sends more does not read the refusal either
_MOST_JOINED = 1 << 16  # bytes of a body that is sent in one write with its head
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # C's struct linger: on, for 0 seconds


class LimitedProtocol(FramedProtocol):
    """One connection; call ``look`` about once a second."""

    config: ServerConfig

    def __init__(self, config: ServerConfig, *arguments: Any, **options: Any) -> None:
        super().__init__(config, *arguments, **options)  # type: ignore[no-untyped-call, unused-ignore]
        self.logger = _log
        self._limits = config.limits
        self._is_surplus = False
        self._is_refused = False
        self._refused_seconds = 0.0
        # In the head even before its first byte, so that a client that connects and sends nothing
        # is timed as well.
        self._in_head = True
        self._in_body = False
        self._has_begun = False
        self._head_bytes = self._head_fields = 0
        # Bytes since the parser last reported a new head or part of a body. It reports no chunk
        # extensions, empty lines between requests or unfinished header fields, which could
        # otherwise go on forever.
        self._silent_bytes = 0
        self._discarded_bytes = 0
        self._is_first_look = True
        self._head_seconds = self._body_seconds = self._idle_seconds = 0.0
        self._body_bytes = self._body_bytes_before = 0
        self._unsent_before = 0
        self._stalled_seconds = 0.0
        self.url = b""
        self._exchange: FastExchange | None = None
        self._early = b""  # what arrived of the next request while an exchange is being answered
        self._ends_after_exchange = False
        self._unused_seconds = 0.0
        self._is_half_closed = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Register the connection; refuse it if there are too many."""
        super().connection_made(transport)
        surplus = self._ordinary_connections() - self._limits.max_connections
        self._is_surplus = surplus > 0
        if surplus > _SPARE_CONNECTIONS:
            self.refuse(self._too_many("connections"))

    def connection_lost(self, exc: Exception | None) -> None:
        """Unregister the connection."""
        self.config.counts.followers.discard(self)
        if self._exchange is not None:
            self._exchange.withdraw()
            self._exchange = None
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Pass received data to the fast path or to the parser."""
        if self._early:
            self._early += data
        elif self._exchange is not None:
            self._feed_exchange(data)
        elif not self._begin_exchange(data):
            self._parse(data)

    def eof_received(self) -> bool:  # type: ignore[override]
        """Return whether to keep the connection, because a complete request is to be answered."""
        is_follower = self in self.config.counts.followers  # nothing else tells when it has left
        is_tls = not self.transport.can_write_eof()  # asyncio closes it in any case
        if self._in_body or self._is_refused or is_follower or is_tls or not self._is_answering():
            return False
        self._is_half_closed = True
        self._probe()
        return True

    def _probe(self) -> None:
        """Find out whether the client that sends no more still reads."""
        has_begun = self._exchange is None and self.cycle.response_started
        is_old = self._exchange is None and self.cycle.scope["http_version"] == "1.0"
        if not (has_begun or is_old):  # else what is sent of the answer will tell
            self.transport.write(PROBE)
            self.loop.call_later(PROBE_SECONDS, self._look_at_half_closed)

    def _look_at_half_closed(self) -> None:
        if self._is_half_closed and not self.transport.is_closing() and is_reset(self.transport):
            self.transport.abort()  # the application sees a client that has hung up

    # The fast path.

    def _begin_exchange(self, data: bytes) -> bool:
        """Start a request in the fast path; return False if the parser has to take it."""
        fast_path = self.config.fast_path
        # The parser has to go on with what it has begun,
        if fast_path is None or (self._in_head and self._has_begun) or self._in_body:
            return False
        # and requests that came before must be answered first (pipelining).
        if self._is_refused or self._is_surplus or self._is_answering() or self.pipeline:
            return False
        found = fast_path.find(data)
        if found is None:
            return False
        head, body_begin = found
        self._unset_keepalive_if_required()
        self._has_begun = True
        self._in_head, self._in_body = False, True
        self._is_first_look = True
        self._body_seconds = self._idle_seconds = 0.0
        self._body_bytes = self._body_bytes_before = 0
        request_id = head.request_id or fast_path.new_id()
        self._exchange = FastExchange(head, request_id, self.client, self._on_answer)
        self._feed_exchange(data[body_begin:])
        return True

    def _feed_exchange(self, data: bytes) -> None:
        exchange = self._exchange
        assert exchange is not None
        if not exchange.is_whole:
            self._body_bytes += len(data)
            data = exchange.feed(data)
            self._in_body = self._exchange is not None and exchange.missing > 0
        if data:
            self._early = data
            self.flow.pause_reading()  # a client that pipelines must not fill the memory
            # If ``feed`` has already answered, ``_on_answer`` saw nothing early. A direct call
            # would nest one for each pipelined request.
            if self._exchange is None:
                self.loop.call_soon(self._take_early)

    def _take_early(self) -> None:
        """Process what arrived early of the next request."""
        if self._exchange is None and not self.transport.is_closing():
            early, self._early = self._early, b""
            self.flow.resume_reading()
            self.data_received(early)

    def _on_answer(
        self, exchange: FastExchange, status: int, lines: bytes, body: Body
    ) -> Pending | None:
        """Send the response of a fast path request; return a body that is sent from now on."""
        self._in_body = False
        self.server_state.total_requests += 1
        end = partial(self._end_exchange, exchange, status)
        if self.transport.is_closing():
            if isinstance(body, LongBody):
                body.release()
            end()
            return None
        head_lines = [
            *(STATUS_LINE[status], self._common_fields(), lines, exchange.head.lines),
            b"connection: close\r\n" if self._is_last_exchange() else b"",
            _trace_line(exchange.head.trace),
            b"x-request-id: %b\r\nserver-timing: app;dur=%.2f\r\n"
            % (exchange.request_id.encode(), exchange.milliseconds),
            length_line(body),
            b"\r\n",
        ]
        if isinstance(body, LongBody):
            self.transport.write(b"".join(head_lines))
            return LongSending(self.transport, self.flow, body, end)
        if len(body) <= _MOST_JOINED:
            self.transport.write(b"".join([*head_lines, body]))
        else:  # joining would copy it, which delays other requests
            self.transport.write(b"".join(head_lines))
            self.transport.write(body)
        end()
        return None

    def _end_exchange(self, exchange: FastExchange, status: int) -> None:
        """Count a request whose response was sent, and process what arrived in the meantime."""
        self._exchange = None
        self._unused_seconds = 0.0
        seconds = time.perf_counter() - exchange.started
        count_answer(exchange.head.route, status, seconds)
        head, request_id = exchange.head, exchange.request_id
        log_answer("POST", head.path, status, seconds, request_id, head.trace)
        if self._is_last_exchange():
            self.transport.close()
        elif self._early:
            self.loop.call_soon(self._take_early)

    def _is_last_exchange(self) -> bool:
        if self._ends_after_exchange or self.config.counts.is_ending:
            return True
        return self._is_half_closed and not self._early

    def _common_fields(self) -> bytes:
        counts, fields = self.config.counts, self.server_state.default_headers
        if counts.fields is not fields:  # uvicorn makes a new list once a second, for Date
            counts.fields = fields
            counts.field_lines = b"".join(b"%b: %b\r\n" % field for field in fields)
        return counts.field_lines

    def shutdown(self) -> None:
        """Close the connection after the response that is being sent."""
        if self._exchange is not None:
            self._ends_after_exchange = True
        else:
            super().shutdown()

    # Everything else.

    def _parse(self, data: bytes) -> None:
        """Parse received data in pieces, checking the limits after each."""
        if not self._in_body and not self._in_head:
            self._begin_head()
        self._has_begun = True
        for begin in range(0, len(data), _PIECE_BYTES):
            if self._is_refused:
                self._discarded_bytes += len(data) - begin
                if self._discarded_bytes > _MOST_DISCARDED_BYTES:
                    self.transport.abort()
            if self._is_refused or self.transport.is_closing():
                return
            piece = data[begin : begin + _PIECE_BYTES]
            self._silent_bytes += len(piece)
            self.parse(piece)
            if self._silent_bytes > self._limits.max_header_bytes + _PIECE_BYTES:
                self._refuse_head()

    # What the parser calls.

    def on_message_begin(self) -> None:
        """Begin a request's head."""
        self._begin_head()
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Receive a part of the request target."""
        if self._take_head_bytes(len(url)):
            super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Receive a header field; trailer fields after the body are dropped."""
        self._head_fields += 1
        if self._take_head_bytes(len(name) + len(value)) and self._in_head:
            super().on_header(name, value)

    def on_head(self) -> None:
        """Hand the request to the application, or refuse it if there are too many."""
        if self._is_refused:
            return
        self.url = self.config.below.strip(self.url)
        self._in_head, self._in_body = False, True
        self._is_first_look = True
        self._body_seconds = self._idle_seconds = 0.0
        self._body_bytes = self._body_bytes_before = 0
        app = self.app
        what = self._too_many_of()
        if what:  # through an application, so that responses of earlier requests are sent first
            error, root_path = self._too_many(what), self.config.below.prefix
            self.app = RefusingApp(error, self.url, root_path, self._fields())
        super().on_head()
        self.app = app

    def on_body(self, body: bytes) -> None:
        """Receive a part of the body."""
        self._silent_bytes = 0
        self._body_bytes += len(body)
        if not self._is_refused:
            super().on_body(body)

    def on_end(self) -> None:
        """Mark the request as complete."""
        self._silent_bytes = 0
        self._in_head = self._in_body = False
        if not self._is_refused:
            super().on_end()

    # What uvicorn calls.

    def on_response_complete(self) -> None:
        """Mark the response as sent; the rest of the body may still arrive for a while."""
        # From now on ``_look_at_body`` times how long the client goes on sending in vain.
        self._is_first_look = True
        self._body_seconds = 0.0
        self.config.counts.followers.discard(self)
        super().on_response_complete()
        if self._is_half_closed and not self._is_answering() and not self.pipeline:
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Refuse what cannot be parsed."""
        self.refuse(Malformed(f"{msg} It is not valid HTTP/1.1 (RFC 9112)"))

    # Once a second.

    def look(self, seconds: float) -> None:
        """Close the connection if it has stalled.

        Args:
            seconds: since the previous look.
        """
        # The head or body began at an unknown time before the first look, so that interval does not
        # count.
        since, self._is_first_look = 0.0 if self._is_first_look else seconds, False
        self._look_at_half_closed()
        if self._look_at_writing(seconds):
            self.drop()
        elif self._is_refused:
            self._refused_seconds += seconds
            if self._refused_seconds > _SECONDS_TO_READ_REFUSAL:
                self.transport.abort()
        elif self.transport.is_closing():
            pass
        elif self._in_head:
            self._look_at_head(since)
        elif self._in_body and not self.flow.read_paused:  # else the application is the slow one
            self._look_at_body(since)
        elif self._exchange is None and not self._is_answering():
            self._look_at_unused(seconds)

    def drop(self) -> None:
        """Reset the connection, so that the kernel discards its send buffer as well."""
        sock = self.transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self.transport.abort()

    @property
    def unsent_bytes(self) -> int:
        """Bytes of responses that the client has not read."""
        return self.transport.get_write_buffer_size()

    @property
    def stalled_seconds(self) -> float:
        """How long the client has read nothing although data is waiting."""
        return self._stalled_seconds

    def _look_at_writing(self, seconds: float) -> bool:
        """Note what the client has not read; return whether it has stalled for too long."""
        unsent = self.unsent_bytes
        # A client that reads makes the buffer shrink, because the application waits before it
        # writes more (flow control).
        is_stuck = unsent > 0 and unsent >= self._unsent_before > 0
        self._stalled_seconds = self._stalled_seconds + seconds if is_stuck else 0.0
        self._unsent_before = unsent
        return self._stalled_seconds > self._limits.write_idle_seconds

    def _look_at_head(self, seconds: float) -> None:
        if self._is_answering():
            return
        self._head_seconds += seconds
        limit = _SECONDS_TO_END if self._is_surplus else self._limits.header_seconds
        if self._head_seconds > limit:
            if self._has_begun:
                self.refuse(TooSlow(f"the header fields did not arrive within {limit:g} s"))
            else:  # a client that has asked nothing expects no response
                self.transport.close()

    def _look_at_unused(self, seconds: float) -> None:
        """Close an idle connection after a fast path response; uvicorn closes the others."""
        self._unused_seconds += seconds
        # uvicorn starts its timer when a response of the application ends, and the fast path stops
        # it.
        is_timed = self.timeout_keep_alive_task is not None or not self._has_begun
        if not is_timed and self._unused_seconds > self.timeout_keep_alive:
            self.transport.close()

    def _look_at_body(self, seconds: float) -> None:
        is_ending = self.config.counts.is_ending
        self._body_seconds += seconds
        came = self._body_bytes - self._body_bytes_before
        self._body_bytes_before = self._body_bytes
        self._idle_seconds = 0.0 if came else self._idle_seconds + seconds
        if not self._is_answering():  # the response is sent; the rest is not needed
            if self._body_seconds > self._limits.body_idle_seconds:
                self.transport.abort()
        elif is_ending and self._idle_seconds >= _SECONDS_TO_END:
            self.refuse(
                Unavailable("the server is shutting down and the rest of the body has not arrived")
            )
        elif self._idle_seconds > self._limits.body_idle_seconds:
            limit = self._limits.body_idle_seconds
            self.refuse(TooSlow(f"no part of the body arrived for {limit:g} s"))
        elif (  # not earlier, because the rate of the first seconds says little
            self._body_seconds > self._limits.body_idle_seconds
            and self._body_bytes < self._limits.min_body_rate * self._body_seconds
        ):
            rate = self._limits.min_body_rate
            self.refuse(TooSlow(f"the body arrived at less than {rate:,} bytes a second"))

    # Refusals.

    def _begin_head(self) -> None:
        self._in_head, self._in_body = True, False
        self._is_first_look = True
        self._head_bytes = self._head_fields = 0
        self._head_seconds = 0.0
        self._silent_bytes = 0

    def _take_head_bytes(self, count: int) -> bool:
        self._head_bytes += count
        if self._head_bytes > self._limits.max_header_bytes or self._head_fields > _MOST_FIELDS:
            self._refuse_head()
        return not self._is_refused

    def _is_answering(self) -> bool:
        if self._exchange is not None:
            return True
        return self.cycle is not None and not self.cycle.response_complete

    def _fields(self) -> Sequence[tuple[bytes, bytes]]:
        """Return what every answer to the current request has."""
        return self.config.fields({"type": "http", "method": "", "headers": self.headers or []})

    def _ordinary_connections(self) -> int:
        return len(self.connections) - len(self.config.counts.followers)

    def _too_many_of(self) -> str:
        """Return which limit this request would exceed, or an empty string."""
        followers = self.config.counts.followers
        # By the path, because the route is not known yet: streams of events stay open, and must not
        # use up the connections of other requests.
        if self.url.partition(b"?")[0].endswith(b"/events"):
            if len(followers) >= self._limits.max_followers:
                return "followers"
            followers.add(self)
            self._is_surplus = False
        elif self._is_surplus:  # others may have been closed since it was accepted
            self._is_surplus = self._ordinary_connections() > self._limits.max_connections
        return "connections" if self._is_surplus else ""

    def _too_many(self, what: str) -> Unavailable:
        limit = getattr(self._limits, f"max_{what}")
        hint = f"try again later, or raise MODSERVE_MAX_{what.upper()}"
        return Unavailable(f"there are {limit:,} {what} already; {hint}")

    def _refuse_head(self) -> None:
        if self._head_fields > _MOST_FIELDS:
            error = HeadersTooLarge(limit=_MOST_FIELDS, unit="header fields", hint="send fewer")
        else:
            hint = "send shorter header fields, or raise MODSERVE_MAX_HEADER_BYTES"
            error = HeadersTooLarge(limit=self._limits.max_header_bytes, unit="bytes", hint=hint)
        self.refuse(error)

    def refuse(self, error: ServiceError) -> None:
        """Respond instead of the application, and close the connection.

        Incoming data is read and dropped for a moment: closing a socket with unread data resets the
        connection, and the client would lose the response.
        """
        if self._is_refused or self.transport.is_closing():
            return
        self._is_refused = True
        target = self.config.below.strip(self.url) if self._in_head else self.url
        fields = self._fields()
        if self._exchange is not None:
            fields = self._exchange.head.fields
            target = self._exchange.head.path.encode("latin-1")
            self._exchange.withdraw()
            self._exchange = None
        self.pipeline.clear()
        self._unset_keepalive_if_required()
        was_answering, cycle = self._is_answering(), self.cycle
        if was_answering:  # the application sees a client that has hung up, and gives up
            cycle.disconnected = True
            cycle.waiting_for_100_continue = False
            cycle.message_event.set()
        if was_answering and cycle.response_started:
            self.transport.close()  # a response has already started, so another cannot
            return
        self.flow.resume_reading()  # ``_parse`` drops what arrives, and ``look`` ends the wait
        self.transport.write(refusal(error, target, self.config.below.prefix, fields))
        if self.transport.can_write_eof():  # TLS connections cannot be half-closed
            self.transport.write_eof()


def _trace_line(trace: Trace | None) -> bytes:
    return b"" if trace is None else b"traceparent: %b\r\n" % trace.field.encode()
