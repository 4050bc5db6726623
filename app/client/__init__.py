"""A Python client of the server."""

from __future__ import annotations

from app.client.client import Client
from app.client.connection import ClientError

__all__ = ["Client", "ClientError"]
