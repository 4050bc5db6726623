"""Requests of the Open Inference Protocol meant to use more resources than allowed."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator

import numpy as np

from served.oip_forms import binary
from served.sockets import head

__all__ = ["hostile_inferences"]

MIB = 1 << 20
INFER = "/v2/models/net/infer"
TENSOR = b'{"name": "data", "shape": [1, 6], "datatype": "FP32", "data": [%s]}'


def hostile_inferences(features: int) -> Iterator[tuple[str, bytes]]:
    """Yield a name and the bytes of each request."""
    for size, what in ((15_000, "15 kB"), (250_000, "250 kB"), (20 * MIB, "20 MB")):
        for name, body in _bodies(size):
            yield f"{name}, {what}", _post(body)
    for coding, pack in (("gzip", gzip.compress), ("deflate", zlib.compress)):
        field = f"Content-Encoding: {coding}"
        yield f"a bomb of {coding}", _post(pack(bytes(512 * MIB)), field)
        many = _numbers(b"[1]", 20 * MIB)
        yield f"numbers in {coding}", _post(pack(many, 1), field)
    length = "Inference-Header-Content-Length: %s"
    yield "a raw body of 30 MB", _post(bytes(30 * MIB), length % 0)
    rows = 30 * MIB // 4 // features
    x = np.zeros((rows, features), "f")
    request = binary({"data": x[:60_000]})
    yield "binary, answered by numbers", _post(request.body, length % request.length)
    for members in (
        {"parameters": {"binary_data_output": True}},
        {"outputs": [{"name": "softmax_output", "parameters": {"classification": 4}}]},
    ):
        request = binary({"data": x[:60_000]}, **members)
        name, fields = json.dumps(members), [length % request.length]
        yield f"binary, {name}", _post(request.body, *fields)
        yield f"binary in gzip, {name}", _post(request.body, *fields, "Accept-Encoding: gzip")
    for call in ("index", "models/net/load", "models/net/unload"):
        for body in (b"[" * 250_000, b'{"a": [%s]}' % b",".join([b"{}"] * 80_000)):
            yield f"{call}, {body[:9]!r}", _post(body, path=f"/v2/repository/{call}")


def _bodies(size: int) -> Iterator[tuple[str, bytes]]:
    for element in (b"1.5", b"[1]", b"[]", b"{}", b"null", b"NaN", b'"a"', b"[[[[1]]]]"):
        yield f"{element.decode()} as numbers", _numbers(element, size)
    yield "depth", b"[" * size
    deep = b"[" * (size // 2) + b"]" * (size // 2)
    yield "depth of data", b'{"inputs": [%s]}' % (TENSOR % deep)
    yield "depth beside NaN", b'{"a": NaN, "inputs": %s}' % deep
    yield "members", b'{%s, "inputs": []}' % b",".join(b'"a%d":1' % n for n in range(size // 12))
    small = TENSOR % b"0"
    yield "inputs", b'{"inputs": [%s]}' % b",".join([small] * (size // len(small)))
    one = TENSOR % b"0,0,0,0,0,0"
    outputs = b",".join(b'{"name":"o%d"}' % n for n in range(size // 16))
    yield "outputs", b'{"inputs": [%s], "outputs": [%s]}' % (one, outputs)
    yield "an id", b'{"inputs": [%s], "id": "%s"}' % (one, b"a" * size)
    yield "a shape", one.replace(b"[1, 6]", b"[%s]" % b",".join([b"1"] * (size // 2)))
    yield "spaces", b" " * size


def _numbers(element: bytes, size: int) -> bytes:
    data = b",".join([element] * (size // (len(element) + 1)))
    return b'{"inputs": [%s]}' % (TENSOR % data)


def _post(body: bytes, *fields: str, path: str = INFER) -> bytes:
    return head(f"POST {path}", f"Content-Length: {len(body)}", *fields) + body
