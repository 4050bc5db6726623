"""What an executor tells of its modules unasked, through ``ExecutorClient.events()``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["evicted_module", "eviction"]

_EVICTED = "module_evicted"


def eviction(module: str) -> dict[str, Any]:
    """Return what tells that a module was put away for others."""
    return {"type": _EVICTED, "module": module}


def evicted_module(event: Mapping[str, Any]) -> str | None:
    """Return the module that an event tells this of; None for an event of another type."""
    name = event.get("module")
    return name if event.get("type") == _EVICTED and isinstance(name, str) else None
