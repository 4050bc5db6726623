"""The audit log: who changed what by which key, and what was refused. Never a key itself."""

from __future__ import annotations

import time

import structlog
from starlette.types import Scope

from app.domain.api_key import ApiKey

__all__ = ["Audit"]

_log = structlog.get_logger("modserve.audit")

_MOST_REFUSALS = 20
"""Maximum number of lines per second, so that repeated refusals cannot fill the disk."""


class Audit:
    """Writes a line for each change and each refusal."""

    def __init__(self) -> None:
        self._second = 0
        self._refusals = 0

    def changed(self, scope: Scope, key: ApiKey, status: int) -> None:
        """Note that a request changed something, or tried to."""
        _log.info("change", key=key.id, name=key.name, status=status, **_request(scope))

    def refused(self, scope: Scope, key: ApiKey | None, status: int, reason: str) -> None:
        """Note that a request was refused."""
        second = int(time.monotonic())
        if second != self._second:
            if self._refusals > _MOST_REFUSALS:
                _log.warning("more refusals", count=self._refusals - _MOST_REFUSALS)
            self._second, self._refusals = second, 0
        self._refusals += 1
        if self._refusals <= _MOST_REFUSALS:
            who = "none" if key is None else key.id
            _log.warning("refused", key=who, status=status, reason=reason, **_request(scope))


def _request(scope: Scope) -> dict[str, str]:
    client = scope.get("client")
    return {
        "method": scope["method"],
        "path": scope["path"][:200],
        "client": client[0] if client else "unknown",
        "request_id": scope.get("state", {}).get("request_id", ""),
    }
