"""The models folder that a server serves."""

from __future__ import annotations

from typing import Any

from app.client.connection import Connection

__all__ = ["ModelCalls"]


class ModelCalls(Connection):
    """Calls on the models folder."""

    def models(self) -> list[dict[str, Any]]:
        """Return the models of the server's models folder."""
        items: list[dict[str, Any]] = self._json("GET", "/v1/models")["items"]
        return items

    def reload_models(self) -> list[dict[str, Any]]:
        """Have the server look at its models folder now; return the models."""
        items: list[dict[str, Any]] = self._json("POST", "/v1/models/reload")["items"]
        return items
