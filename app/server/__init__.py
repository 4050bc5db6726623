"""Running the application under uvicorn: listening, connections and their limits, shutdown."""

from __future__ import annotations

from app.server.server import listening_sockets, make_server, run_server

__all__ = ["listening_sockets", "make_server", "run_server"]
