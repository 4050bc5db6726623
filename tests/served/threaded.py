"""The application behind a real socket, in a thread of the test process."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from app.main import create_app
from app.server import make_server
from app.settings import Settings

__all__ = ["served"]


@contextmanager
def served(settings: Settings) -> Iterator[str]:
    """Serve during the block; yield the base URL."""
    server = make_server(create_app(settings), settings.model_copy(update={"port": 0}))
    thread = threading.Thread(target=server.run, name="server")
    thread.start()
    try:
        deadline = time.monotonic() + 60
        while not server.started:
            assert thread.is_alive(), "the server did not start"
            assert time.monotonic() < deadline, "the server did not start within a minute"
            time.sleep(0.01)
        (listening,) = server.servers[0].sockets
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
