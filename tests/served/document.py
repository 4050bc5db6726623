"""The OpenAPI document, made once per process, since that takes a second."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from app.main import openapi_text

__all__ = ["openapi_document"]


@cache
def openapi_document() -> dict[str, Any]:
    """Return the document, which must not be changed."""
    document: dict[str, Any] = json.loads(openapi_text())
    return document
