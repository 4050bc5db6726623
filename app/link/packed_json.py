"""Large plain answers on their way to clients, through a process that never looks into them.

To parse and write them anew there would keep its event loop from all others.
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


def pack_json(value: Any) -> dict[str, str]:
    """Return plain values as the answer to a call: in JSON, compressed."""
    body = orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)
    return {_MEMBER: base64.b64encode(zlib.compress(body, _LEVEL)).decode()}


def unpack_json(answer: Mapping[str, str]) -> bytes:
    """Return the JSON. Blocks, but lets other threads run."""
    return zlib.decompress(base64.b64decode(answer[_MEMBER]))
