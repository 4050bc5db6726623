"""Texts and images as BYTES tensors, by Triton's client and by hand."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest

import core as mx
from app.api.v2.bytes_tensors import pack_json, unpack
from app.client import Client
from app.client.local_server import ServerProcess
from app.errors.tree import Invalid, Malformed
from served.pictures import bomb, picture

WORDS = ["<unk>", "the", "cat", "sat"]
INFER = "/v2/models/{}/infer"


@pytest.fixture(scope="module")
def models(server: ServerProcess) -> Iterator[Client]:
    """Models ``words`` and ``eye``, which return their inputs."""
    with Client(server.url) as client:
        for name, shape in (("words", [4, 3]), ("eye", [2, 3, 6, 8])):
            symbol = mx.sym.identity(mx.sym.Variable("data"), name="seen").tojson()
            client.create_module(name, symbol, label_names=[])
            client.bind(name, [{"name": "data", "shape": shape}], for_training=False)
            client.init_params(name)
        client.set_transform("words", "data", type="text", vocabulary=WORDS, unknown="<unk>")
        client.set_transform("eye", "data", mean=[128])
        yield client
        client.delete_module("words")
        client.delete_module("eye")


def seen(encoded: bytes) -> np.ndarray:
    resized = mx.image.imresize(mx.image.imdecode(encoded), 8, 6, 1).asnumpy()
    return (resized.astype(np.float32) - 128).transpose(2, 0, 1)[None]


def body(data: Any, shape: list[int], **fields: Any) -> dict[str, Any]:
    row = {"name": "data", "datatype": "BYTES", "shape": shape, "data": data}
    return {"inputs": [row], **fields}


def infer(models: Client, name: str, content: Any) -> np.ndarray:
    for _ in range(2):  # by the router, and again once the module is known
        answer = models.request("POST", INFER.format(name), json=content).json()
    (output,) = answer["outputs"]
    return np.reshape(output["data"], output["shape"])


@pytest.mark.parametrize("name", ["words", "eye"])
def test_the_metadata_describes_the_raw_input(models: Client, name: str) -> None:
    told = models.request("GET", f"/v2/models/{name}").json()
    assert told["inputs"] == [{"name": "data", "datatype": "BYTES", "shape": [-1, 1]}]
    assert told["outputs"][0]["datatype"] == "FP32"
    config = models.request("GET", f"/v2/models/{name}/config").json()
    assert config["input"] == [{"name": "data", "data_type": "TYPE_STRING", "dims": [1]}]
    content = [base64.b64encode(picture(9, 9)).decode()] if name == "eye" else ["the cat"]
    infer(models, name, body(content, [1, 1]))


def test_a_raw_body_is_a_single_text_or_file(models: Client) -> None:
    one = picture(40, 30)
    wanted = {"eye": (one, seen(one)), "words": (b"the cat", np.array([[1, 2, 0]], "f"))}
    for name, (content, expected) in wanted.items():
        headers = {"Inference-Header-Content-Length": "0"}
        answer = models.request("POST", INFER.format(name), content=content, headers=headers)
        at = int(answer.headers["Inference-Header-Content-Length"])
        found = np.frombuffer(answer.content[at:], "f").reshape(expected.shape)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("is_binary", [True, False])
def test_tritons_client_sends_texts(server: ServerProcess, models: Client, is_binary: bool) -> None:
    triton = pytest.importorskip("tritonclient.http")
    client = triton.InferenceServerClient(server.url.removeprefix("http://"))
    try:
        for _ in range(2):
            texts = np.array([[b"the cat"], [b"a cat sat on"]], np.object_)
            tensor = triton.InferInput("data", [2, 1], "BYTES")
            tensor.set_data_from_numpy(texts, binary_data=is_binary)
            found = client.infer("words", [tensor]).as_numpy("seen_output")
            np.testing.assert_array_equal(found, [[1, 2, 0], [0, 2, 3]])
    finally:
        client.close()


@pytest.mark.parametrize("coding", [None, "gzip"])
def test_tritons_client_sends_images(
    server: ServerProcess, models: Client, coding: str | None
) -> None:
    triton = pytest.importorskip("tritonclient.http")
    client = triton.InferenceServerClient(server.url.removeprefix("http://"))
    one, other = picture(40, 30, "JPEG"), picture(17, 55, seed=2)
    try:
        images = np.array([one, other], np.object_)
        tensor = triton.InferInput("data", [2], "BYTES").set_data_from_numpy(images)
        result = client.infer("eye", [tensor], request_compression_algorithm=coding)
        wanted = np.concatenate([seen(one), seen(other)])
        np.testing.assert_array_equal(result.as_numpy("seen_output"), wanted)
    finally:
        client.close()


def test_images_in_json_are_base64(models: Client) -> None:
    one = picture(40, 30)
    text = base64.b64encode(one).decode()
    np.testing.assert_array_equal(infer(models, "eye", body([text], [1])), seen(one))
    large = picture(500, 500, "BMP")
    text = base64.b64encode(large).decode()
    assert len(text) > 1 << 18
    np.testing.assert_array_equal(infer(models, "eye", body([text], [1])), seen(large))


def test_texts_in_json(models: Client) -> None:
    found = infer(models, "words", body([["the"], ["cat sat sat sat"]], [2, 1]))
    np.testing.assert_array_equal(found, [[1, 0, 0], [2, 3, 3]])
    long = body(["the cat" + " sat" * 100_000], [1])
    np.testing.assert_array_equal(infer(models, "words", long), [[1, 2, 3]])


def test_numeric_tensors_are_still_accepted(models: Client) -> None:
    row = {"name": "data", "datatype": "FP32", "shape": [1, 3], "data": [3, 2, 1]}
    np.testing.assert_array_equal(infer(models, "words", {"inputs": [row]}), [[3, 2, 1]])


@pytest.mark.parametrize(
    ("model", "content", "said"),
    [
        ("net", body(["a"], [1]), "inputs[0].datatype: got BYTES, expected numbers"),
        ("words", body(["a"], [2]), "1 strings, expected 2"),
        ("words", body([1], [1]), "a list of strings"),
        ("words", body("a", [1]), "a list of strings"),
        ("words", body([], [0]), "0 examples"),
        ("words", body(["a"] * 257, [257]), "257 examples"),
        ("words", body([" "], [1]), "no token"),
        ("eye", body(["?"], [1]), "inputs[0].data[0]"),
        ("eye", body(["AAAA"], [1]), "data: got a file of another kind"),
        ("eye", body([base64.b64encode(bomb(9000)).decode()], [1]), "MAX_IMAGE_PIXELS"),
    ],
)
def test_invalid_tensors_are_refused(
    models: Client, http: httpx.Client, model: str, content: Any, said: str
) -> None:
    for _ in range(2):
        answer = http.post(INFER.format(model), json=content)
        assert answer.status_code in (400, 413), answer.text
        assert said in answer.json()["error"]


@pytest.mark.parametrize(
    ("octets", "said"),
    [
        (b"\x01\0\0", "in the middle of an element"),
        (b"\x05\0\0\0abc", "end in the middle of an element"),
        (b"\xff\xff\xff\xffabc", "end in the middle of an element"),
        (b"\x01\0\0\0a" * 2, "has 2 elements; its shape needs 1"),
        (b"", "has 0 elements"),
    ],
)
def test_malformed_bytes_tensors_are_refused(
    models: Client, http: httpx.Client, octets: bytes, said: str
) -> None:
    row = {"name": "data", "datatype": "BYTES", "shape": [1]}
    row["parameters"] = {"binary_data_size": len(octets)}
    text = json.dumps({"inputs": [row]}).encode()
    headers = {"Inference-Header-Content-Length": str(len(text))}
    for _ in range(2):
        answer = http.post(INFER.format("words"), content=text + octets, headers=headers)
        assert answer.status_code == 400, answer.text
        assert said in answer.json()["error"]


def test_elements_may_have_any_length() -> None:
    packed = pack_json([["a", ""], ["é" * 300, "b"]], 4, "data")
    assert unpack(packed, 4, "data") == [b"a", b"", "é".encode() * 300, b"b"]
    assert packed.startswith(struct.pack("<I", 1) + b"a" + bytes(4))
    with pytest.raises(Malformed):
        unpack(packed[:-1], 4, "data")
    with pytest.raises(Invalid):
        pack_json([["a"], "b"], 2, "data")
