"""Randomly generated malformed requests."""

from __future__ import annotations

import io
import json
import random
import struct
import zipfile
from collections.abc import Callable, Sequence

import numpy as np

from served.network import FEATURES, NETWORK
from served.sockets import head

__all__ = ["malformed_request"]

FORM = "multipart/form-data"

_OTHER_VERBS = (
    *("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "PROPFIND", "get", ""),
)
_CALLS = (
    *("bind", "predict", "forward", "backward", "update", "forward_backward", "params/init", "fit"),
    *("optimizer", "load", "checkpoints", "score", "predict_dataset", "reshape", "buckets"),
)
_TARGETS = (
    "POST /v1/modules",
    "POST /v1/modules",
    *(f"POST /v1/modules/net/{call}" for call in _CALLS),
    *(
        "PUT /v1/modules/net/params",
        "PUT /v1/modules/net/states",
        "PATCH /v1/modules/net/optimizer",
    ),
    *("PUT /v1/modules/net/optimizer/states", "GET /v1/modules/net/params/x"),
    "PUT /v1/modules/net/checkpoints/1/files/net-0001.params",
    *(
        f"PUT /v1/datasets/bad?kind={kind}"
        for kind in ("npz", "npy", "csv", "libsvm", "recordio", "x")
    ),
    *("GET /v1/jobs?status=x", "POST /v1/jobs/1/cancel", "GET /v1/jobs/99999999999999999999"),
    *("GET /v1/jobs/x/events", "GET /v1/modules/..%2f..%2fetc", "GET /v1/modules/%00"),
    *("GET //v1//modules", "GET /%ff%fe", "GET *", "GET http://127.0.0.1/livez", "GET /livez?a=1"),
    *("GET /v1/modules?limit=x&cursor=%F0", "DELETE /v1/modules/nothing", "DELETE /v1/jobs/5"),
)
_NUMBERS = (
    "0",
    "-1",
    "1e400",
    "NaN",
    "Infinity",
    "-0",
    "1" * 400,
    "0.1e-400",
    "9" * 25,
    "1.5",
    "true",
)
_ATOMS = (*_NUMBERS, "null", '""', '"\\ud800"', '"a"', "[]", "{}", '{"a":1,"a":2}', '"\\u0000"')


def malformed_request(draw: random.Random) -> bytes:
    """Return the bytes of a request that a server should refuse, save for a few valid ones."""
    kind = draw.random()
    if kind < 0.08:
        return draw.randbytes(draw.randrange(1, 2000))
    verb, _, path = draw.choice(_TARGETS).partition(" ")
    if kind < 0.2:
        verb = draw.choice(_OTHER_VERBS)
    if verb == "DELETE" and path == "/v1/modules/net":
        path += "x"  # the module must stay: other requests are addressed to it
    media, body = draw.choice(_BODIES)(draw)
    fields = [] if media is None else [f"Content-Type: {media}"]
    fields += draw.choice(_FIELDS)(draw)
    framed = draw.random()
    if framed < 0.7:
        fields.append(f"Content-Length: {len(body)}")
    elif framed < 0.8:
        fields.append("Transfer-Encoding: chunked")
        body = _chunked(draw, body)
    elif framed < 0.9:
        fields.append(f"Content-Length: {draw.choice((0, 1, len(body) // 2))}")
    else:
        lie = draw.choice(("-1", "1e3", "0x10", "1, 2", "", "9" * 30, "abc"))
        fields.append(draw.choice((f"Content-Length: {lie}", "Transfer-Encoding: gzip, chunked")))
    return head(f"{verb} {path}", *fields, "Connection: close") + body


def _chunked(draw: random.Random, body: bytes) -> bytes:
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(one), one) for one in (body[:7], body[7:]) if one)
    endings = (b"0\r\n\r\n", b"0\r\nX: a\r\n\r\n", b"zz\r\n", b"", b"-1\r\n", b"5\r\nab\r\n")
    return chunks + draw.choice(endings)


def _json(draw: random.Random, depth: int = 0) -> str:
    kind = draw.random()
    if depth > 3 or kind < 0.4:
        return draw.choice(_ATOMS)
    inside = [_json(draw, depth + 1) for _ in range(draw.randrange(4))]
    if kind < 0.7:
        return f"[{', '.join(inside)}]"
    names = ("inputs", "data", "shape", "dtype", "name", "symbol", "data_shapes", "epochs", "a")
    members = ", ".join(f'"{draw.choice(names)}": {one}' for one in inside)
    return f"{{{members}}}"


def _json_body(draw: random.Random) -> tuple[str | None, bytes]:
    text = _json(draw).encode()
    return draw.choice(("application/json", None, "text/plain")), _spoilt(draw, text)


def _tensor_body(draw: random.Random) -> tuple[str | None, bytes]:
    tensor = {
        "shape": draw.choice(([0, 2**62], [1] * 65, [-1], ["a"], [2, 3], 5, [10**30], [True])),
        "dtype": draw.choice(("float32", "float128", "object", 5, "int8")),
        "data": draw.choice(([], [1, 2], ["a"], [[1], [2, 3]], None, [1e300], [[]] * 3, {"a": 1})),
    }
    for name in draw.sample(sorted(tensor), draw.randrange(2)):
        del tensor[name]
    depth = draw.choice((2, 40, 300, 1000))
    sound = json.dumps([[0.5] * FEATURES] * 2)
    value = draw.choice((json.dumps(tensor), "[" * depth + "]" * depth, sound, '[["aaa", ""]]'))
    names = draw.choice((["data"], ["data", "data2"], [""], ["softmax_label"]))
    inputs = ", ".join(f'"{name}": {value}' for name in names)
    return None, f'{{"inputs": {{{inputs}}}, "bucket": 5}}'.encode()


def _module_body(draw: random.Random) -> tuple[str | None, bytes]:
    network = json.loads(json.dumps(NETWORK))
    node = draw.choice(network["nodes"])
    change = draw.randrange(5)
    if change == 0:
        node["inputs"] = [[draw.choice((-1, 99, 2**70, 0)), 0, 0]]
    elif change == 1:
        node["op"] = draw.choice(("Nothing", "", None, 5))
    elif change == 2:
        node["attrs"] = {"num_hidden": draw.choice(("-1", "1e9", "()", 5, None, "9" * 30))}
    elif change == 3:
        network["heads"] = [[draw.choice((99, -1, "a")), 0, 0]]
    else:
        del network[draw.choice(("nodes", "heads", "arg_nodes"))]
    name = draw.choice(("net", "..", "a" * 200, 5, None, "x\u0000"))
    return None, json.dumps({"name": name, "symbol": network}).encode()


def _npy_body(draw: random.Random) -> tuple[str | None, bytes]:
    shape = draw.choice((f"(0, {10**30})", "(1,)", "(-1,)", "(" + "1," * 65 + ")", "(2, 5)", "x"))
    descr = draw.choice(("<f4", "|O", "<U99", "<c8", ">f8", "|V0"))
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}}}".encode()
    body = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + bytes(draw.randrange(50))
    return draw.choice(("application/x-npy", None)), _spoilt(draw, body)


def _npz_body(draw: random.Random) -> tuple[str | None, bytes]:
    stream, array = io.BytesIO(), io.BytesIO()
    np.save(array, np.zeros(draw.choice((0, 5, 100_000)), np.float32))
    method = draw.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA))
    names = ("data.npy", "/etc/passwd.npy", "../x.npy", "a", "softmax_label.npy")
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name in draw.sample(names, draw.randrange(4)):
            archive.writestr(name, array.getvalue())
    body = stream.getvalue()
    if draw.random() < 0.2:  # two entries with the same name
        body = body.replace(b"../x.npy", b"data.npy")
    return draw.choice(("application/x-npz", "application/zip", None)), _spoilt(draw, body)


def _safetensors_body(draw: random.Random) -> tuple[str | None, bytes]:
    entry = {
        "dtype": draw.choice(("F32", "F8", "BF16")),
        "shape": draw.choice(([5], [0, 2**62], [-1], "a", [1] * 70)),
        "data_offsets": draw.choice(([0, 20], [0, 2**63], [-5, 0], [20, 0], "a")),
    }
    text = json.dumps({"data": entry}).encode()
    body = struct.pack("<Q", len(text)) + text + bytes(20)
    return draw.choice(("application/x-safetensors", None)), _spoilt(draw, body)


def _form_body(draw: random.Random) -> tuple[str | None, bytes]:
    parts = b"".join(
        b'--b\r\nContent-Disposition: form-data; name="%s"%s\r\n\r\n%s\r\n'
        % (
            draw.choice((b"symbol", b"params", b"name", b"epoch", b"", b"\xff", b"symbols[5]")),
            draw.choice(
                (b"", b'; filename="net-0001.params"', b'; filename="../a"', b"; filename=")
            ),
            draw.choice((b"net", b"", draw.randbytes(50), json.dumps(NETWORK).encode())),
        )
        for _ in range(draw.randrange(5))
    )
    boundary = draw.choice(("b", "c", "", "b" * 300, '"b'))
    return f"{FORM}; boundary={boundary}", _spoilt(draw, parts + b"--b--\r\n")


def _noise_body(draw: random.Random) -> tuple[str | None, bytes]:
    media = draw.choice(
        ("application/json", "image/png", "a" * 500, ";;;", "multipart/form-data", "")
    )
    return media, draw.randbytes(draw.choice((0, 1, 100, 70_000)))


def _large_body(draw: random.Random) -> tuple[str | None, bytes]:
    element = draw.choice((b"[]", b'"a"', b"1.5", b"{}", b"null"))
    count = draw.choice((1000, 5000, 20_000, 100_000))
    return None, _spoilt(draw, b'{"inputs": {"data": [%s]}}' % b",".join([element] * count))


def _spoilt(draw: random.Random, body: bytes) -> bytes:
    kind = draw.random()
    at = draw.randrange(len(body) + 1)
    if kind < 0.15:
        return body[:at]
    if kind < 0.3:
        return body[:at] + draw.randbytes(4) + body[at + 4 :]
    return body


_BODIES: Sequence[Callable[[random.Random], tuple[str | None, bytes]]] = (
    *(_json_body, _json_body, _tensor_body, _tensor_body, _module_body, _npy_body, _npz_body),
    *(_safetensors_body, _form_body, _noise_body, _large_body),
)
_FIELDS: Sequence[Callable[[random.Random], list[str]]] = (
    lambda draw: [],
    lambda draw: [],
    lambda draw: [],
    lambda draw: [f"X-{n}: {'a' * 300}" for n in range(draw.choice((5, 100, 300)))],
    lambda draw: ["X: " + "a" * draw.choice((1000, 60_000, 200_000))],
    lambda draw: ["Expect: 100-continue"],
    lambda draw: ["Connection: Upgrade", "Upgrade: " + draw.choice(("websocket", "h2c", "x"))],
    lambda draw: ["Host: evil.example"],
    lambda draw: ["Origin: https://evil.example", "Sec-Fetch-Site: cross-site"],
    lambda draw: ["Accept: \xff, ;;q=, application/x-npz;q=a", "Range: bytes=9-1"],
    lambda draw: ["Idempotency-Key: " + "k" * draw.choice((1, 500)), "If-Match: *"],
    lambda draw: ["X-Request-Id: a b", "Cookie: " + "a=b; " * 100],
    lambda draw: ["Content-Encoding: gzip", "X : a"],
)
