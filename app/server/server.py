"""Running the application under uvicorn.

The server binds its address before anything else, so that a second server on the same port ends
before it has opened the store or claimed a job. What keeps the server from starting is reported in
one line if the operator can mend it.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
import sys
import time
from ipaddress import ip_address
from typing import cast

import uvicorn
from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.errors.tree import ExecutorGone, ServiceError, StartError
from app.garbage import collector_paused
from app.link.file_limits import allow_most_files
from app.main import configure_logging, create_app
from app.server.fast_path import FastPath
from app.server.limits import ConnectionLimits, ServerConfig
from app.server.looking import look_at_all
from app.server.owner_only import hide_from_others
from app.server.protocol import LimitedProtocol
from app.server.root_path import RootPath
from app.server.tls import tls_options
from app.settings import Settings

__all__ = ["BriefStart", "Server", "listening_sockets", "make_server", "run_server"]

_log = logging.getLogger(__name__)

_SECONDS_BETWEEN_LOOKS = 1.0
_KEEP_ALIVE_SECONDS = 75  # longer than proxies usually keep idle connections
_DID_NOT_START = 3  # the exit status of uvicorn's own command in this case
_FOR_THE_OPERATOR = (StartError, ServiceError, ExecutorGone, OSError)


def run_server(settings: Settings) -> int:
    """Serve until a signal arrives; return the exit status.

    Raises:
        OSError: the address cannot be bound.
        StartError: the certificate or its key is unusable.
    """
    tls_options(settings)  # fails before anything is opened
    sockets = listening_sockets(settings.host, settings.port)
    hide_from_others(settings.data_dir)
    configure_logging(settings)
    allow_most_files()
    with collector_paused():
        server = make_server(create_app(settings), settings)
    server.run(sockets)
    return 0 if server.started else _DID_NOT_START


def make_server(app: FastAPI, settings: Settings) -> Server:
    """Return a server of an application, which listens on the address in the settings."""
    config = ServerConfig(
        BriefStart(app),
        ConnectionLimits.of(settings),
        RootPath(settings.root_path),
        app.state.cross_origin.fields,
        host=settings.host,
        port=settings.port,
        http=LimitedProtocol,
        ws="none",
        log_config=None,
        access_log=False,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=settings.drain_seconds,
        forwarded_allow_ips=list(settings.trusted_proxies),
        lifespan="on",
        **tls_options(settings),
    )
    return Server(config, app)


def listening_sockets(host: str, port: int) -> list[socket.socket]:
    """Return sockets bound to all addresses of a host; connections wait until the server starts.

    Args:
        port: 0 chooses a free one, the same for all addresses.
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
            one.listen()  # otherwise another process could bind the same IPv6 address
            port = one.getsockname()[1]
    except BaseException:
        for one in sockets:
            one.close()
        raise
    return sockets


class Server(uvicorn.Server):
    """Looks at all connections every second, and closes those that would delay a shutdown."""

    config: ServerConfig

    def __init__(self, config: ServerConfig, app: FastAPI) -> None:
        super().__init__(config)
        self._app = app
        self._looked_at = time.monotonic()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the application and accept connections."""
        with collector_paused():
            # In a thread, while the application waits for its executors to start.
            routes = asyncio.create_task(asyncio.to_thread(_make_routes, self._app))
            await super().startup(sockets)
            if self.started:
                self.config.fast_path = self._open_fast_path()
            await routes
        # Objects made so far live until the end: exempt them from garbage collection, and skip a
        # first one, as a start leaves little garbage and the pass takes 0.1 s.
        gc.freeze()
        for one in sockets or () if self.started else ():
            host, port = one.getsockname()[:2]
            shown = f"[{host}]" if one.family == socket.AF_INET6 else host
            scheme = "https" if self.config.is_ssl else "http"
            _log.info("listening on %s://%s:%d (Ctrl-C ends it)", scheme, shown, port)
            if not (self._app.state.keys.is_in_force or ip_address(host).is_loopback):
                _log.warning(
                    "this server asks for no API key: all who can reach %s:%d can read, change and "
                    "delete everything; 'modserve keys add' makes a key",
                    *(shown, port),
                )

    def _open_fast_path(self) -> FastPath:
        state = self._app.state
        fast_path = FastPath(
            *(state.fast_paths, state.site_guard.fault, state.lane_keys.admit),
            *(self.config.fields, self.config.below),
        )
        # Known heads contain the decision about their key, which a new, changed or revoked key may
        # overturn.
        state.keys.on_change(fast_path.forget)
        return fast_path

    async def on_tick(self, counter: int) -> bool:
        """Do the regular work, ten times a second; return whether it is time to shut down."""
        if counter % 10 == 0:
            self._look_at_connections()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Finish the requests in progress and close all connections."""
        self.config.counts.is_ending = True
        # uvicorn waits until all responses are complete, and streams of events never are by
        # themselves.
        self._app.state.services.jobs.end_streams()
        # uvicorn no longer ticks, but an upload that stalls must not delay the end.
        looking = asyncio.create_task(self._keep_looking())
        try:
            await super().shutdown(sockets)
        finally:
            looking.cancel()

    async def _keep_looking(self) -> None:
        while True:
            self._look_at_connections()
            await asyncio.sleep(_SECONDS_BETWEEN_LOOKS)

    def _look_at_connections(self) -> None:
        now = time.monotonic()
        seconds, self._looked_at = now - self._looked_at, now
        # If the event loop was late, the clients are not to blame for the silence.
        seconds = min(seconds, 2 * _SECONDS_BETWEEN_LOOKS)
        connections = list(self.server_state.connections)
        assert all(isinstance(one, LimitedProtocol) for one in connections)
        look_at_all(cast("list[LimitedProtocol]", connections), self.config.limits, seconds)


class BriefStart:
    """Reports in one line why the application does not start, without our traceback."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass everything on, except for the traceback of a failed start."""
        if scope["type"] != "lifespan":
            await self._app(scope, receive, send)
            return

        async def tell(message: Message) -> None:
            # Starlette sends the traceback as the message, while it handles the exception itself.
            error = sys.exception()
            if message["type"] == "lifespan.startup.failed" and isinstance(
                error, _FOR_THE_OPERATOR
            ):
                message = {**message, "message": f"cannot start: {error}"}
            await send(message)

        await self._app(scope, receive, tell)


def _make_routes(app: FastAPI) -> None:
    """Make FastAPI compile the routes, which it otherwise does at the first request.

    That takes as long as hundreds of requests and would hold all of them up.
    """
    scope = {"type": "http", "method": "GET", "path": "/", "root_path": "", "headers": []}
    for route in app.router.routes:
        route.matches(scope)
