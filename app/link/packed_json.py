"""Large plain answers that the API process passes on to clients unparsed.

Parsing and re-encoding them would block its event loop.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from typing import Any

import orjson

__all__ = ["pack_json", "unpack_json"]

_MEMBER = "packed"
_LEVEL = 1
"""The fastest: the API process unpacks the answer again."""


def pack_json(value: Any) -> dict[str, str]:
    """Encode plain values as compressed JSON for the answer to a call."""
    body = orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)
    # The answer to a call is itself JSON, which cannot contain bytes.
    return {_MEMBER: base64.b64encode(zlib.compress(body, _LEVEL)).decode()}


def unpack_json(answer: Mapping[str, str]) -> bytes:
    """Return the JSON. Blocks, but releases the GIL."""
    return zlib.decompress(base64.b64decode(answer[_MEMBER]))
