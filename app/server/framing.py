"""Where the requests of a connection begin and end, if they ask for what we do not offer.

Another protocol, such as ``Upgrade: h2c``: RFC 9110 has a server ignore the field and answer in
HTTP/1.1. The parser instead stops after the head and leaves the body to the other protocol, so the
head is given to a parser again without the field; the parser itself then finds the body's end.

Other transfer codings than ``chunked``: the parser would pass on the coded body as the body.

HTTP/1.0, which knows neither chunks nor ``Expect``.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from app.errors.tree import ServiceError, UnsupportedCoding
from app.server.until_close import UntilClose

__all__ = ["FramedProtocol"]

_UPGRADE = b"upgrade"


class FramedProtocol(HttpToolsProtocol):
    """A connection that finds the body of every request."""

    def on_head(self) -> None:
        """Begin a request, whose head is complete."""
        super().on_headers_complete()

    def on_end(self) -> None:
        """End a request, whose body is complete."""
        super().on_message_complete()

    @abstractmethod
    def refuse(self, error: ServiceError) -> None:
        """Respond instead of the application, and close the connection."""

    def parse(self, data: bytes) -> None:
        """Parse received data."""
        self._unset_keepalive_if_required()
        while data and not self.transport.is_closing():
            try:
                self.parser.feed_data(data)
                return
            except httptools.HttpParserError:
                self.send_400_response("Invalid HTTP request received.")
                return
            except httptools.HttpParserUpgrade as stopped:
                if not self._is_read_again():  # CONNECT, which is for proxies
                    self.send_400_response("CONNECT is not supported.")
                    return
                data = self._head_without_upgrade() + data[stopped.args[0] :]
                # One that has stopped at a head with ``Connection: close`` drops what follows.
                self.parser = httptools.HttpRequestParser(self)
                self.parser.set_dangerous_leniencies(lenient_data_after_close=True)

    def on_headers_complete(self) -> None:
        """Pass a complete head on unless it is read again, or its body cannot be read."""
        if self._is_read_again():
            return
        codings = [value for name, value in self.headers if name == b"transfer-encoding"]
        if codings and (len(codings) > 1 or codings[0].strip().lower() != b"chunked"):
            self.refuse(UnsupportedCoding(b", ".join(codings).decode("latin-1"), of="transfer"))
        else:
            self.on_head()

    def on_message_complete(self) -> None:
        """Pass the end of a request on, unless only its head has been read."""
        if not self._is_read_again():
            self.on_end()

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        if cycle.scope["http_version"] == "1.0":
            cycle.waiting_for_100_continue = False
            app = UntilClose(app, cycle)
        super()._start_asgi_task(cycle, app)

    def _is_read_again(self) -> bool:
        """Return whether the parser stops after this head because of its ``Upgrade``."""
        return self.parser.should_upgrade() and any(name == _UPGRADE for name, _ in self.headers)

    def _head_without_upgrade(self) -> bytes:
        method, version = self.parser.get_method(), self.parser.get_http_version().encode()
        fields = [b"%b: %b\r\n" % field for field in self.headers if field[0] != _UPGRADE]
        return b"".join([b"%b %b HTTP/%b\r\n" % (method, self.url, version), *fields, b"\r\n"])
