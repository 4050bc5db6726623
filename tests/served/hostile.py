"""Requests meant to use more of a server's resources than allowed."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator

import numpy as np

from served.sockets import head

__all__ = ["hostile_requests"]

MIB = 1 << 20
PREDICT = "/v1/modules/net/predict"


def hostile_requests() -> Iterator[tuple[str, bytes]]:
    """Yield a name and the bytes of each request."""
    for name, path, kind, body in _bodies():
        verb = "PUT" if "/params" in path or "/datasets/" in path else "POST"
        fields = [f"Content-Length: {len(body)}", *([f"Content-Type: {kind}"] if kind else [])]
        yield name, head(f"{verb} {path}", *fields) + body
    yield "one header of 16 MB", head("GET /livez", "X: " + "a" * 16 * MIB)
    yield "a target of 4 MB", head("GET /livez?" + "a&" * 2 * MIB)
    yield "header fields of 60 kB", head("GET /livez", *(f"X-{n}: {'a' * 240}" for n in range(240)))
    yield "a query of 60 kB", head("GET /v1/modules?" + "a&" * 30_000)
    chunks = b"1\r\n[\r\n" * 200_000 + b"0\r\n\r\n"
    yield "chunks of one byte", head(f"POST {PREDICT}", "Transfer-Encoding: chunked") + chunks


def _bodies() -> Iterator[tuple[str, str, str, bytes]]:
    def json_of(element: bytes, size: int) -> bytes:
        return b'{"inputs": {"data": [%s]}}' % b",".join([element] * (size // (len(element) + 1)))

    for size, what in ((60_000, "60 kB"), (250_000, "250 kB"), (20 * MIB, "20 MB")):
        wide = json_of(b'""', size).replace(b'""', b'"%s"' % (b"a" * (size // 2)), 1)
        yield f"text in a tensor, {what}", PREDICT, "", wide
        for element in (b"[]", b"{}", b"1.5", b"[1]", b"null"):
            yield f"{element.decode()} in a tensor, {what}", PREDICT, "", json_of(element, size)
        many = b",".join(b'"a%d":1' % n for n in range(size // 12))
        yield f"members, {what}", PREDICT, "", b'{"inputs": {}, %s}' % many
        yield f"tensors, {what}", PREDICT, "", b'{"inputs": {%s}}' % many
        yield f"depth, {what}", PREDICT, "", b"[" * size
        nodes = b",".join([b'{"op":"null","name":"a","inputs":[]}'] * (size // 37))
        yield f"symbol, {what}", "/v1/modules", "", b'{"name":"x","symbol":{"nodes":[%s]}}' % nodes
        text = json.dumps({"name": "x", "symbol": f'{{"nodes": [{nodes.decode()}]}}'}).encode()
        yield f"symbol as text, {what}", "/v1/modules", "", text
        yield f"symbols, {what}", "/v1/modules", "", b'{"name":"x","symbols":{%s}}' % many
        empty = b",".join([b"[]"] * (size // 3))
        for path in ("bind", "optimizer", "fit", "load"):
            yield f"{path}, {what}", f"/v1/modules/net/{path}", "", b'{"data_shapes":[%s]}' % empty
        yield f"unknown fields, {what}", "/v1/modules/net/bind", "", b"{%s}" % many
    nodes = b",".join([b'{"op":"null","name":"a","inputs":[]}'] * (7 * MIB // 37))
    symbol = b'{"name":"x","symbol":{"nodes":[%s]}}' % nodes
    yield "symbol, 7 MB", "/v1/modules", "", symbol
    form = b'--b\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n'
    parts = b"".join(form % (b"a%d" % n, b"b") for n in range(20_000)) + b"--b--\r\n"
    yield "parts of a form", "/v1/modules", "multipart/form-data; boundary=b", parts
    long_name = form % (b"a" * 8 * MIB, b"b") + b"--b--\r\n"
    yield "long name in a form", "/v1/modules", "multipart/form-data; boundary=b", long_name
    for what, archive in _archives():
        yield what, PREDICT, "application/x-npz", archive
    yield "sound npy of 60 MB", PREDICT, "application/x-npy", _npy(np.zeros(15 * MIB, "f4"))
    yield "safetensors header", PREDICT, "application/x-safetensors", _safetensors(3 * MIB)
    yield "dataset of nothing", "/v1/datasets/x?kind=npz", "", bytes(8 * MIB)


def _archives() -> Iterator[tuple[str, bytes]]:
    stream = io.BytesIO()
    np.savez_compressed(stream, data=np.zeros(60 * MIB, np.uint8))
    yield "compressed 1000 times", stream.getvalue()
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for number in range(9000):
            archive.writestr(f"{number}.npy", b"")
    yield "archive of 9,000 entries", stream.getvalue()
    stream = io.BytesIO()
    np.savez(stream, data=np.zeros(15 * MIB, "f4"))
    yield "sound npz of 60 MB", stream.getvalue()


def _npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def _safetensors(size: int) -> bytes:
    entry = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    text = json.dumps({f"a{n}": entry for n in range(size // 70)}).encode()
    return len(text).to_bytes(8, "little") + text
