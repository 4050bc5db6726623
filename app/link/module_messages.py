"""Events about an executor's modules in ``ExecutorClient.events()``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["evicted_module", "eviction"]

_EVICTED = "module_evicted"


def eviction(module: str) -> dict[str, Any]:
    """Return the event that reports the eviction of a module."""
    return {"type": _EVICTED, "module": module}


def evicted_module(event: Mapping[str, Any]) -> str | None:
    """Return the module that was evicted according to an event; None for other events."""
    name = event.get("module")
    return name if event.get("type") == _EVICTED and isinstance(name, str) else None
