"""What real clients send, and mistakes other servers have made."""

from __future__ import annotations

import gzip
import json
import struct
import zlib
from typing import Any

import httpx
import numpy as np
import pytest

from app.client import Client
from app.client.local_server import ServerProcess
from served.oip_forms import Binary, binary, data_of, numbers
from served.perceptron import FEATURES
from served.processes import end_executor, executor_pid, wait_until
from served.sockets import exchange, head

INFER = "/v2/models/net/infer"
OUTPUT = "softmax_output"


def both_ways(
    http: httpx.Client, body: bytes, headers: dict[str, str] | None = None, path: str = INFER
) -> httpx.Response:
    """Post a body to the fast path, and chunked to the router; check that both answer the same."""
    http.post(INFER, json=numbers(np.zeros((1, FEATURES), "f")))  # now the fast path knows its head
    here = http.post(path, content=body, headers=headers)
    there = http.post(path, content=iter([body]), headers=headers)
    assert there.request.headers["transfer-encoding"] == "chunked"
    assert (here.status_code, here.content) == (there.status_code, there.content)
    for name in ("content-type", "content-encoding", "inference-header-content-length"):
        assert here.headers.get(name) == there.headers.get(name), name
    return here


def error_of(answer: httpx.Response) -> str:
    assert answer.headers["content-type"] == "application/json"
    plain = answer.json()
    assert isinstance(plain["error"], str)
    assert plain["error"]
    assert "detail" not in plain
    return str(plain["error"])


@pytest.mark.parametrize(
    "content_type",
    [None, "application/json", "application/octet-stream", "application/x-www-form-urlencoded"],
)
def test_the_content_type_is_ignored(
    http: httpx.Client, x: np.ndarray, expected: np.ndarray, content_type: str | None
) -> None:
    headers = {} if content_type is None else {"content-type": content_type}
    answer = both_ways(http, json.dumps(numbers(x)).encode(), headers)
    assert answer.status_code == 200
    np.testing.assert_allclose(data_of(answer), expected, rtol=1e-5)


def test_without_outputs_binary_data_output_applies_to_all(
    http: httpx.Client, x: np.ndarray, expected: np.ndarray
) -> None:
    for outputs in ({}, {"outputs": []}):
        request = binary({"data": x}, parameters={"binary_data_output": True}, **outputs)
        answer = both_ways(http, request.body, request.headers)
        assert answer.headers["content-type"] == "application/octet-stream"
        np.testing.assert_allclose(data_of(answer), expected, rtol=1e-5)


def test_an_outputs_own_binary_data_takes_precedence(
    http: httpx.Client, x: np.ndarray, expected: np.ndarray
) -> None:
    for own in (True, False):
        wished = [{"name": OUTPUT, "parameters": {"binary_data": own}}]
        plain = numbers(x, parameters={"binary_data_output": not own}, outputs=wished)
        answer = both_ways(http, json.dumps(plain).encode())
        assert ("inference-header-content-length" in answer.headers) is own
        assert answer.headers["content-type"] == (
            "application/octet-stream" if own else "application/json"
        )
        np.testing.assert_allclose(data_of(answer), expected, rtol=1e-5)


def test_binary_and_json_tensors_can_be_mixed(http: httpx.Client) -> None:
    a, b = np.arange(6, dtype="f").reshape(2, 3), np.full((2, 3), 2, "f")
    plain = {
        "inputs": [
            {"name": "b", "shape": [2, 3], "datatype": "FP32", "data": b.tolist()},
            {
                "name": "a",
                "shape": [2, 3],
                "datatype": "FP32",
                "parameters": {"binary_data_size": 24},
            },
        ],
        "outputs": [
            {"name": "product_output", "parameters": {"binary_data": True}},
            {"name": "sum_output"},
        ],
    }
    text = json.dumps(plain).encode()
    headers = {"inference-header-content-length": str(len(text))}
    answer = both_ways(http, text + a.tobytes(), headers, "/v2/models/two/infer")
    assert answer.status_code == 200, answer.text
    size = int(answer.headers["inference-header-content-length"])
    product, total = json.loads(answer.content[:size])["outputs"]
    assert product["parameters"] == {"binary_data_size": 24}
    np.testing.assert_array_equal(np.frombuffer(answer.content[size:], "f"), (a * b).ravel())
    np.testing.assert_array_equal(total["data"], (a + b).ravel())


def test_an_unknown_output_is_refused_with_its_place_and_the_known_ones(http: httpx.Client) -> None:
    wished = [{"name": OUTPUT}, {"name": OUTPUT + "s"}]
    plain = numbers(np.zeros((1, FEATURES), "f"), outputs=wished)
    answer = both_ways(http, json.dumps(plain).encode())
    assert answer.status_code == 400
    assert error_of(answer) == (
        f"outputs[1].name: got {OUTPUT}s, expected one of the model's outputs: {OUTPUT}; "
        f"did you mean '{OUTPUT}'?"
    )


def test_a_raw_body_is_the_single_input_with_batch_size_1(
    http: httpx.Client, x: np.ndarray, expected: np.ndarray
) -> None:
    headers = {"inference-header-content-length": "0"}
    answer = http.post(INFER, content=x[0].tobytes(), headers=headers)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/octet-stream"
    np.testing.assert_allclose(data_of(answer), expected[:1], rtol=1e-5)
    for body in (b"", x.tobytes(), x[0].tobytes()[:-1]):
        answer = http.post(INFER, content=body, headers=headers)
        assert answer.status_code == 400
        assert "FP32" in error_of(answer)
    answer = http.post("/v2/models/two/infer", content=bytes(12), headers=headers)
    assert answer.status_code == 400
    assert "one input" in error_of(answer)


@pytest.mark.parametrize("coding", ["gzip", "deflate", "GZIP"])
def test_bodies_may_be_compressed(
    http: httpx.Client, x: np.ndarray, expected: np.ndarray, coding: str
) -> None:
    pack = gzip.compress if coding.lower() == "gzip" else zlib.compress
    request = binary({"data": x})
    headers = request.headers | {"content-encoding": coding}
    answer = both_ways(http, pack(request.body), headers)
    assert answer.status_code == 200, answer.text
    np.testing.assert_allclose(data_of(answer), expected, rtol=1e-5)


@pytest.mark.parametrize("coding", ["br", "zstd", "gzip, deflate", "compress"])
def test_other_encodings_are_not_implemented(http: httpx.Client, coding: str) -> None:
    answer = both_ways(http, b"{}", {"content-encoding": coding})
    assert answer.status_code == 501
    assert "gzip" in error_of(answer)


@pytest.mark.parametrize(
    ("accepts", "coding"),
    [
        ("gzip", "gzip"),
        ("deflate", "deflate"),
        ("gzip, deflate, br", "gzip"),
        ("gzip;q=0.2, deflate;q=0.8", "deflate"),
        ("gzip;q=0", None),
        ("br", None),
        ("*", None),
        ("identity", None),
        ("gzip;q=0.5, identity", None),
        ("gzip;q=nonsense", None),
        ("", None),
    ],
)
def test_inference_answers_follow_accept_encoding(
    http: httpx.Client, x: np.ndarray, accepts: str, coding: str | None
) -> None:
    request = binary({"data": x}, parameters={"binary_data_output": True})
    headers = request.headers | {"accept-encoding": accepts}
    answer = both_ways(http, request.body, headers)
    assert answer.status_code == 200
    assert answer.headers.get("content-encoding") == coding
    data_of(answer)  # the header length refers to the JSON before compression
    other = http.get("/v2/models/net", headers={"accept-encoding": accepts})
    assert "content-encoding" not in other.headers


@pytest.mark.parametrize("nothing", ["NaN", "Infinity", "-Infinity"])
def test_nan_and_infinity_are_strings_in_json(http: httpx.Client, nothing: str) -> None:
    row = ", ".join([nothing, "1", "2"])
    body = (
        '{"inputs": [{"name": "a", "shape": [1, 3], "datatype": "FP32", "data": [ROW]}, '
        '{"name": "b", "shape": [1, 3], "datatype": "FP32", "data": [[1, 2, 3]]}]}'
    ).replace("ROW", row)
    answer = both_ways(http, body.encode(), path="/v2/models/two/infer")
    assert answer.status_code == 200, answer.text
    assert f'"data":[{nothing},3.0,5.0]' in answer.text


WRONG: dict[str, Any] = {
    "no JSON": b"{",
    "nothing": b"",
    "a list": b"[]",
    "no inputs": {},
    "inputs that are no list": {"inputs": 3},
    "no input": {"inputs": []},
    "an unknown input": numbers(np.zeros((1, FEATURES), "f"), name="other"),
    "an input twice": {
        "inputs": numbers(np.zeros((1, FEATURES), "f"))["inputs"] * 2,
    },
    "a missing shape": {"inputs": [{"name": "data", "datatype": "FP32", "data": [1]}]},
    "another dtype": numbers(np.zeros((1, FEATURES), "i4")),
    "more precision": numbers(np.zeros((1, FEATURES), "f8")),
    "an unknown dtype": {
        "inputs": [{"name": "data", "shape": [1, 6], "datatype": "FLOAT", "data": [0] * 6}]
    },
    "text": {"inputs": [{"name": "data", "shape": [1], "datatype": "BYTES", "data": ["a"]}]},
    "BF16 in JSON": {
        "inputs": [{"name": "data", "shape": [1, 6], "datatype": "BF16", "data": [0] * 6}]
    },
    "a negative size": {
        "inputs": [{"name": "data", "shape": [-1, 6], "datatype": "FP32", "data": [0] * 6}]
    },
    "no examples": {"inputs": [{"name": "data", "shape": [0, 6], "datatype": "FP32", "data": []}]},
    "too few numbers": {
        "inputs": [{"name": "data", "shape": [1, 6], "datatype": "FP32", "data": [0] * 5}]
    },
    "words": {"inputs": [{"name": "data", "shape": [1, 6], "datatype": "FP32", "data": ["0"] * 6}]},
    "truths": {
        "inputs": [{"name": "data", "shape": [1, 6], "datatype": "FP32", "data": [[True] * 6]}]
    },
    "another rank": numbers(np.zeros((1, 1, FEATURES), "f")),
    "an unknown output": numbers(np.zeros((1, FEATURES), "f"), outputs=[{"name": "other"}]),
    "an output twice": numbers(np.zeros((1, FEATURES), "f"), outputs=[{"name": OUTPUT}] * 2),
    "no classes": numbers(
        np.zeros((1, FEATURES), "f"),
        outputs=[{"name": OUTPUT, "parameters": {"classification": 0}}],
    ),
    "a reserved parameter": numbers(
        np.zeros((1, FEATURES), "f"), parameters={"triton_enable_empty_final_response": True}
    ),
    "a negative timeout": numbers(np.zeros((1, FEATURES), "f"), parameters={"timeout": -1}),
    "a number as the id": numbers(np.zeros((1, FEATURES), "f"), id=3),
    "lists 200,000 deep": b'{"inputs": ' + b"[" * 200_000,
    "lists 200 deep": b'{"inputs": ' + b"[" * 200 + b"]" * 200 + b"}",
    "lists 8,000 deep with NaN": b'{"x": NaN, "inputs": ' + b"[" * 8000 + b"]" * 8000 + b"}",
    "a number of 5,000 digits": b'{"x": NaN, "id": ' + b"1" * 5000 + b"}",
}


@pytest.mark.parametrize("name", WRONG)
def test_client_errors_are_400(http: httpx.Client, name: str) -> None:
    wrong = WRONG[name]
    body = wrong if isinstance(wrong, bytes) else json.dumps(wrong).encode()
    answer = both_ways(http, body)
    assert answer.status_code == 400
    error_of(answer)


@pytest.mark.parametrize("length", ["1000000", "-1", "x", "1", "9" * 30])
def test_a_wrong_header_length_is_400(http: httpx.Client, x: np.ndarray, length: str) -> None:
    request = binary({"data": x})
    answer = both_ways(http, request.body, {"inference-header-content-length": length})
    assert answer.status_code == 400
    error_of(answer)


def test_two_header_lengths_are_400(server: ServerProcess, x: np.ndarray) -> None:
    request = binary({"data": x})
    for lengths in ([request.length, "1"], ["1", request.length]):
        fields = [f"Inference-Header-Content-Length: {one}" for one in lengths]
        size = f"Content-Length: {len(request.body)}"
        answer = exchange(server.url, head(f"POST {INFER}", size, *fields) + request.body)
        assert answer.status == 400
        assert "Inference-Header-Content-Length" in json.loads(answer.body)["error"]


@pytest.mark.parametrize("more", [b"", b"123"])
def test_unannounced_trailing_bytes_are_400(http: httpx.Client, x: np.ndarray, more: bytes) -> None:
    request = binary({"data": x})
    body = request.body + more if more else request.body[:-1]
    answer = both_ways(http, body, request.headers)
    assert answer.status_code == 400
    error_of(answer)


def test_more_examples_than_max_batch_size_are_400(
    server: ServerProcess, http: httpx.Client, x: np.ndarray
) -> None:
    with Client(server.url) as client:
        client.set_serving("net", max_batch_size=2)
        try:
            config = http.get("/v2/models/net/config").json()
            assert config["max_batch_size"] == 2
            assert http.post(INFER, json=numbers(x)).status_code == 200
            answer = http.post(INFER, json=numbers(np.resize(x, (3, FEATURES))))
            assert answer.status_code == 400
            assert "max_batch_size" in error_of(answer)
        finally:
            client.set_serving("net", max_batch_size=None)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v2/nothing", 404),
        ("GET", "/v2/models", 404),
        ("GET", "/v2/models/nope", 404),
        ("GET", "/v2/models/a%20b%2Fc/config", 404),
        ("GET", "/v2/models/nope/ready", 404),
        ("GET", "/v2/models/net/versions/7", 404),
        ("GET", "/v2/models/net/versions/7/ready", 404),
        ("GET", "/v2/models/net/versions/7/stats", 404),
        ("POST", "/v2/models/nope/infer", 404),
        ("POST", "/v2/models/net/versions/7/infer", 404),
        ("POST", "/v2/repository/models/nope/load", 404),
        ("POST", "/v2/repository/models/nope/unload", 404),
        ("GET", INFER, 405),
        ("POST", "/v2", 405),
        ("DELETE", "/v2/models/net", 405),
        ("GET", "/v2/repository/index", 405),
        ("GET", "/v2/models/bare", 503),
        ("GET", "/v2/models/bare/ready", 503),
        ("GET", "/v2/models/bare/config", 503),
    ],
)
def test_errors_are_an_object_with_error(
    http: httpx.Client, method: str, path: str, status: int
) -> None:
    answer = http.request(method, path)
    assert answer.status_code == status
    error_of(answer)
    if status == 405:
        assert answer.headers["allow"]
    if status == 503:
        assert answer.headers["retry-after"] == "1"


def test_an_unbound_model_does_not_infer(http: httpx.Client, x: np.ndarray) -> None:
    answer = http.post("/v2/models/bare/infer", json=numbers(x))
    assert answer.status_code == 503
    assert "bind" in error_of(answer)


def test_success_is_exactly_200(http: httpx.Client) -> None:
    for path in ("/v2", "/v2/", "/v2/health/live", "/v2/health/ready", "/v2/models/net"):
        assert http.get(path).status_code == 200
    for path, body in (("index", None), ("models/net/unload", {}), ("models/net/load", {})):
        assert http.post(f"/v2/repository/{path}", json=body).status_code == 200


@pytest.mark.parametrize(
    ("call", "body"),
    [
        ("index", b'{"ready": 1}'),
        ("index", b"[]"),
        ("index", b"{"),
        ("index", b'{"state": "READY"}'),
        ("models/net/load", b'{"parameters": {"config": "{}"}}'),
        ("models/net/unload", b'{"parameters": {"unload_dependents": 3}}'),
        ("models/net/unload", b'{"parameters": {"force": true}}'),
        ("models/net/unload", b'{"parameters": [1]}'),
    ],
)
def test_invalid_repository_requests_are_400(http: httpx.Client, call: str, body: bytes) -> None:
    answer = http.post(f"/v2/repository/{call}", content=body)
    assert answer.status_code == 400
    error_of(answer)
    assert http.get("/v2/models/net/ready").status_code == 200


def test_the_index_can_be_limited_to_ready_models(http: httpx.Client) -> None:
    found = http.post("/v2/repository/index", content=b'{"ready": true}').json()
    assert {one["name"] for one in found} == {"net", "two"}
    whole = http.post("/v2/repository/index").json()
    (bare,) = [one for one in whole if one["name"] == "bare"]
    assert bare["state"] == "UNAVAILABLE"
    assert "bind" in bare["reason"]


def test_parameters_meant_for_other_servers_are_ignored(
    http: httpx.Client, x: np.ndarray, expected: np.ndarray
) -> None:
    answer = http.post(f"{INFER}?trace=1", json=numbers(x))
    assert answer.status_code == 200
    np.testing.assert_allclose(data_of(answer), expected, rtol=1e-5)


def test_a_request_timeout_is_enforced(
    server: ServerProcess, http: httpx.Client, x: np.ndarray
) -> None:
    with Client(server.url) as client:
        client.set_serving("net", max_batch_size=64, max_delay_us=300_000)
        try:
            answer = http.post(INFER, json=numbers(x, parameters={"timeout": 1000}))
        finally:
            client.set_serving("net", max_batch_size=None, max_delay_us=0)
    assert answer.status_code == 503
    assert "deadline" in error_of(answer)


@pytest.mark.parametrize("priority", [0, 1, 1 << 40])
def test_any_priority_is_accepted(http: httpx.Client, x: np.ndarray, priority: int) -> None:
    answer = http.post(INFER, json=numbers(x, parameters={"priority": priority}))
    assert answer.status_code == 200


@pytest.mark.parametrize("coding", [None, "gzip", "deflate"])
def test_a_body_over_the_limit_is_413(http: httpx.Client, coding: str | None) -> None:
    pack = {None: bytes, "gzip": gzip.compress, "deflate": zlib.compress}[coding]
    body = pack(b" " * (9 << 20))
    headers = {} if coding is None else {"content-encoding": coding}
    answer = http.post(INFER, content=body, headers=headers)
    assert answer.status_code == 413
    assert "MODSERVE_MAX_BODY_BYTES" in error_of(answer)


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
@pytest.mark.parametrize("fault", ["cut", "damaged", "more"])
def test_a_body_that_cannot_be_decompressed_is_400(
    http: httpx.Client, x: np.ndarray, coding: str, fault: str
) -> None:
    pack = gzip.compress if coding == "gzip" else zlib.compress
    body = pack(json.dumps(numbers(x)).encode())
    wrong = {"cut": body[:-6], "damaged": b"\x00" + body[1:], "more": body + b"more"}[fault]
    answer = http.post(INFER, content=wrong, headers={"content-encoding": coding})
    assert answer.status_code == 400
    assert coding in error_of(answer)


def test_errors_of_the_connection_have_the_same_form(server: ServerProcess) -> None:
    request = head(f"POST {INFER}", "Content-Length: 5", f"X-Long: {'x' * 70_000}")
    answer = exchange(server.url, request)
    assert answer.status == 431
    assert json.loads(answer.body)["error"]
    answer = exchange(server.url, head(f"POST {INFER}", "Content-Length: 5", host="evil.example"))
    assert answer.status == 403
    assert json.loads(answer.body)["error"]


def test_large_json_is_read_and_written(http: httpx.Client) -> None:
    """More than 256 KiB of JSON go to a decoder process."""
    rows = 12_000
    many = np.random.default_rng(1).random((rows, FEATURES)).astype("f")
    answer = http.post(INFER, json=numbers(many))
    assert len(answer.request.content) > 1 << 20
    assert answer.status_code == 200
    request = binary({"data": many}, parameters={"binary_data_output": True})
    same = http.post(INFER, content=request.body, headers=request.headers)
    np.testing.assert_allclose(data_of(answer), data_of(same), rtol=1e-5)
    plain = numbers(many)
    plain["inputs"][0]["data"][7] = float("nan")
    answer = http.post(INFER, content=json.dumps(plain).encode())
    assert answer.status_code == 200
    assert '"data":[NaN' not in answer.text[:100]
    assert "NaN" in answer.text
    plain["inputs"][0]["data"].append(0)
    answer = http.post(INFER, content=json.dumps(plain).encode())
    assert answer.status_code == 400
    assert "data" in error_of(answer)


def test_classes_are_limited_for_many_rows(http: httpx.Client) -> None:
    many = np.zeros((100_000, FEATURES), "f")[: (6 << 20) // 24]
    wished = [{"name": OUTPUT, "parameters": {"classification": 3}}]
    request = binary({"data": np.resize(many, (65_536, FEATURES))}, outputs=wished)
    answer = http.post(INFER, content=request.body, headers=request.headers)
    assert answer.status_code == 200
    wished = [{"name": name, "parameters": {"classification": 9}} for name in ("sum_output",)]
    plain = {name: np.zeros((1, 3), "f") for name in ("a", "b")}
    request = binary(plain, outputs=wished)
    answer = http.post("/v2/models/two/infer", content=request.body, headers=request.headers)
    assert answer.json()["outputs"][0]["shape"] == [1, 3], "there are no more"


def test_a_killed_executor_is_not_ready_until_restarted(
    server: ServerProcess, http: httpx.Client, x: np.ndarray, expected: np.ndarray
) -> None:
    """Ready is 503 exactly as long as an inference would fail."""
    with Client(server.url) as client:
        pid = executor_pid(client)
        end_executor(client)
        assert executor_pid(client) != pid
    wait_until(lambda: http.get("/v2/health/ready").status_code == 200, "the server is ready")
    assert http.get("/v2/models/net/ready").status_code == 200
    answer = http.post(INFER, json=numbers(x))
    assert answer.status_code == 200
    np.testing.assert_allclose(data_of(answer), expected, rtol=1e-5)


def test_bytes_tensors_are_length_prefixed(http: httpx.Client, x: np.ndarray) -> None:
    wished = [{"name": OUTPUT, "parameters": {"classification": 1, "binary_data": True}}]
    request = binary({"data": x}, outputs=wished)
    answer = both_ways(http, request.body, request.headers)
    size = int(answer.headers["inference-header-content-length"])
    (output,) = json.loads(answer.content[:size])["outputs"]
    assert (output["datatype"], output["shape"]) == ("BYTES", [2, 1])
    packed, at = answer.content[size:], 0
    assert output["parameters"]["binary_data_size"] == len(packed)
    for _ in range(2):
        (length,) = struct.unpack_from("<I", packed, at)
        score, index = packed[at + 4 : at + 4 + length].decode().split(":")
        assert 0 < float(score) < 1
        assert 0 <= int(index) < 3
        at += 4 + length
    assert at == len(packed)


def test_binary_requests_have_the_clients_layout() -> None:
    triton = pytest.importorskip("tritonclient.http")
    x = np.ones((1, 2), "f")
    tensor = triton.InferInput("data", [1, 2], "FP32").set_data_from_numpy(x)
    body, size = triton.InferenceServerClient.generate_request_body([tensor])
    own: Binary = binary({"data": x}, parameters={"binary_data_output": True})
    assert json.loads(body[:size]) == json.loads(own.body[: int(own.length)])
    assert body[size:] == own.body[int(own.length) :]
