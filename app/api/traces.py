"""W3C Trace Context: the ``traceparent`` header ties a request to a client's trace."""

from __future__ import annotations

import re
import secrets
from typing import NamedTuple, Self

__all__ = ["Trace"]

_FIELD = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_ZEROS = frozenset({"0" * 32, "0" * 16})


class Trace(NamedTuple):
    """The position of a request in a trace.

    Attributes:
        trace_id: of the trace.
        parent_id: the client's span.
        span_id: the span of this request.
        flags: as the client sent them.
    """

    trace_id: str
    parent_id: str
    span_id: str
    flags: str

    @classmethod
    def take_over(cls, field: str) -> Self | None:
        """Return the trace of a request with this ``traceparent``; None if it is invalid."""
        found = _FIELD.fullmatch(field)
        if found is None:
            return None
        version, trace_id, parent_id, flags, rest = found.groups()
        if version == "ff" or (version == "00" and rest) or {trace_id, parent_id} & _ZEROS:
            return None
        return cls(trace_id, parent_id, secrets.token_hex(8), flags)

    @property
    def field(self) -> str:
        """``traceparent`` of the response: the same trace, from this request's span."""
        return f"00-{self.trace_id}-{self.span_id}-{self.flags}"

    def log_fields(self) -> dict[str, str]:
        """Return the fields for log lines."""
        return {"trace_id": self.trace_id, "span_id": self.span_id, "parent_id": self.parent_id}
