"""A proxy that serves a server below a path, as in front of several tools on one host.

It records the requests, and tests can break it: then it closes every connection.
"""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

__all__ = ["Proxy", "below_path"]

_OF_ONE_CONNECTION = {"connection", "transfer-encoding", "keep-alive"}


@dataclass
class Proxy:
    """A running proxy.

    Attributes:
        url: its address, including the path.
        broken: set it to make the proxy close every connection.
        asked: method and path of each request passed on.
    """

    url: str = ""
    broken: threading.Event = field(default_factory=threading.Event)
    asked: list[str] = field(default_factory=list)


@contextmanager
def below_path(url: str, path: str) -> Iterator[Proxy]:
    """Run a proxy that serves a server below a path, for the duration of the block."""
    target = urlsplit(url)
    proxy = Proxy()

    class Handler(BaseHTTPRequestHandler):
        def handle_one_request(self) -> None:
            self.close_connection = True
            self.raw_requestline = self.rfile.readline()
            if not self.raw_requestline or proxy.broken.is_set() or not self.parse_request():
                return
            if not self.path.startswith(path):
                self.send_error(404)
                return
            connection = http.client.HTTPConnection(target.hostname or "", target.port, timeout=60)
            try:
                self.pass_on(connection)
            except OSError:
                pass  # client or server closed the connection
            finally:
                connection.close()

        def pass_on(self, connection: http.client.HTTPConnection) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            inner = self.path.removeprefix(path.rstrip("/"))
            proxy.asked.append(f"{self.command} {inner}")
            connection.request(self.command, inner, body or None, dict(self.headers))
            answer = connection.getresponse()
            self.send_response_only(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in _OF_ONE_CONNECTION:
                    self.send_header(name, value)
            self.send_header("Connection", "close")
            self.end_headers()
            while not proxy.broken.is_set() and (piece := answer.read1(65536)):
                self.wfile.write(piece)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, name="proxy")
    thread.start()
    try:
        proxy.url = f"http://127.0.0.1:{server.server_port}{path}"
        yield proxy
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
