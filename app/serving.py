"""Runs the application under uvicorn.

The address is taken before anything else: a second server on the same port ends at once, before it
has opened the store or claimed a job. What keeps the server from starting is told in one line where
it is for the operator to mend.
"""

from __future__ import annotations

import logging
import socket
import sys
from collections.abc import Callable

import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.errors import ExecutorGone, ServiceError, StartError
from app.link.file_limits import allow_most_files
from app.main import configure_logging, create_app
from app.settings import Settings

__all__ = ["BriefStart", "Server", "listening_sockets", "run_server"]

_log = logging.getLogger(__name__)

_DRAIN_SECONDS = 10
_KEEP_ALIVE_SECONDS = 75  # longer than proxies keep a connection to us unused
_DID_NOT_START = 3
_FOR_THE_OPERATOR = (StartError, ServiceError, ExecutorGone, OSError)


def run_server(settings: Settings) -> int:
    """Serve until a signal ends it; return the exit status.

    Raises:
        OSError: the address cannot be listened on.
    """
    sockets = listening_sockets(settings.host, settings.port)
    configure_logging(settings)
    allow_most_files()
    app = create_app(settings)
    config = uvicorn.Config(
        BriefStart(app),
        host=settings.host,
        port=settings.port,
        log_config=None,
        access_log=False,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_DRAIN_SECONDS,
        lifespan="on",
    )
    server = Server(config, lambda: app.state.services.jobs.end_streams())
    server.run(sockets)
    return 0 if server.started else _DID_NOT_START


def listening_sockets(host: str, port: int) -> list[socket.socket]:
    """Return sockets that listen on all addresses of a host; who connects waits until it serves.

    Args:
        port: 0 takes a free one, the same for all addresses.
    """
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        ):
            one = socket.socket(family, kind, protocol)
            sockets.append(one)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            one.bind((address[0], port, *address[2:]))
            one.listen()  # without it another process may bind the same address
            port = one.getsockname()[1]
    except BaseException:
        for one in sockets:
            one.close()
        raise
    return sockets


class Server(uvicorn.Server):
    """Ends streams of events before it waits for requests to end: they would never."""

    def __init__(self, config: uvicorn.Config, end_streams: Callable[[], None]) -> None:
        super().__init__(config)
        self._end_streams = end_streams

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the application and accept connections."""
        await super().startup(sockets)
        for one in sockets or () if self.started else ():
            host, port = one.getsockname()[:2]
            shown = f"[{host}]" if one.family == socket.AF_INET6 else host
            _log.info("listening on http://%s:%d (Ctrl-C ends it)", shown, port)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer what is under way and close all connections."""
        self._end_streams()
        await super().shutdown(sockets)


class BriefStart:
    """Tells in one line why the application does not start, without a traceback of ours."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass everything on but the traceback of a start that failed."""
        if scope["type"] != "lifespan":
            await self._app(scope, receive, send)
            return

        async def tell(message: Message) -> None:
            error = sys.exception()
            if message["type"] == "lifespan.startup.failed" and isinstance(
                error, _FOR_THE_OPERATOR
            ):
                message = {**message, "message": f"cannot start: {error}"}
            await send(message)

        await self._app(scope, receive, tell)
