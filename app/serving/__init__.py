"""The application under uvicorn: addresses, connections and their limits, start and end."""

from __future__ import annotations

from app.serving.server import listening_sockets, make_server, run_server

__all__ = ["listening_sockets", "make_server", "run_server"]
