"""The upper bound of uvicorn's throughput: an application that answers fixed bytes."""

from __future__ import annotations

from typing import Any

import orjson

__all__ = ["app"]

_OUTPUT = {
    "name": "softmax_output",
    "datatype": "FP32",
    "shape": [1, 10],
    "parameters": {"binary_data_size": 40},
}
_HEADER = orjson.dumps({"model_name": "mlp", "model_version": "live", "outputs": [_OUTPUT]})
_START = {
    "type": "http.response.start",
    "status": 200,
    "headers": [
        (b"content-type", b"application/octet-stream"),
        (b"inference-header-content-length", str(len(_HEADER)).encode()),
        (b"content-length", str(len(_HEADER) + 40).encode()),
    ],
}
_BODY = {"type": "http.response.body", "body": _HEADER + bytes(40)}


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Read the body and answer."""
    if scope["type"] != "http":
        return
    while (await receive()).get("more_body"):
        pass
    await send(_START)
    await send(_BODY)
