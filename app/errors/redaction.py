"""Removing API keys from logs, wherever a client may have put them."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["redacted", "redacted_values"]

_KEY = re.compile(r"msk_([0-9a-f]{12})_[A-Za-z0-9_-]+")


def redacted(text: str) -> str:
    """Return a text in which every API key is reduced to its id."""
    return _KEY.sub(r"msk_\1_…", text) if "msk_" in text else text


def redacted_values(logger: Any, method: str, event: Any) -> Any:
    """Redact the values of a structured event."""
    return {name: redacted(one) if isinstance(one, str) else one for name, one in event.items()}
