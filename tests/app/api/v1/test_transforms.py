"""Encoded images over HTTP, through the decoder processes and a module."""

from __future__ import annotations

import base64
import io
from typing import Any

import httpx
import numpy as np
import pytest
from PIL import Image

import core as mx
from served.pictures import bomb, picture

SYMBOL = mx.sym.Flatten(mx.sym.Variable("data"), name="flat").tojson()
PREDICT, TRANSFORM = "/v1/modules/eye/predict", "/v1/modules/eye/transforms/data"
JPEG = {"Content-Type": "image/jpeg"}


@pytest.fixture
async def eye(api: httpx.AsyncClient) -> httpx.AsyncClient:
    """The client, with a module ``eye`` that returns its input."""
    for path, body in (
        ("", {"name": "eye", "symbol": SYMBOL, "label_names": []}),
        (
            "/eye/bind",
            {"data_shapes": [{"name": "data", "shape": [2, 3, 6, 8]}], "for_training": False},
        ),
        ("/eye/params/init", {}),
    ):
        answer = await api.post(f"/v1/modules{path}", json=body)
        assert answer.is_success, answer.text
    return api


async def see(api: httpx.AsyncClient, **request: Any) -> np.ndarray:
    answer = await api.post(PREDICT, **request)
    assert answer.status_code == 200, answer.text
    return np.array(answer.json()["outputs"]["flat_output"]["data"], np.float32)


def expected(encoded: bytes) -> np.ndarray:
    resized = mx.image.imresize(mx.image.imdecode(encoded), 8, 6, 1).asnumpy()
    return ((resized.astype(np.float32) - 128) / 64).transpose(2, 0, 1).reshape(1, -1)


async def test_encoded_images(eye: httpx.AsyncClient) -> None:
    answer = await eye.put(TRANSFORM, json={"mean": [128], "std": [64]})
    assert answer.status_code == 200, answer.text
    assert answer.json()["transforms"]["data"]["mean"] == [128]
    one, other = picture(40, 30, "JPEG"), picture(17, 55, "PNG", seed=2)
    np.testing.assert_array_equal(await see(eye, content=one, headers=JPEG), expected(one))
    files = [("data", ("a.jpg", one)), ("data", ("b.png", other)), ("data", ("c.jpg", one))]
    wanted = np.concatenate([expected(one), expected(other), expected(one)])
    np.testing.assert_array_equal(await see(eye, files=files), wanted)
    ranked = await eye.post(f"{PREDICT}?top_k=1", content=one, headers=JPEG)
    ((best,),) = ranked.json()["outputs"]["flat_output"]
    assert best["index"] == int(np.argmax(expected(one)[0]))


@pytest.mark.parametrize("form", ["JPEG", "PNG", "GIF", "BMP", "WEBP", "TIFF"])
async def test_an_image_is_recognized_by_its_first_bytes(eye: httpx.AsyncClient, form: str) -> None:
    """As ``curl -T`` sends it: by PUT, without a media type."""
    await eye.put(TRANSFORM, json={"mean": [128], "std": [64]})
    content = picture(40, 30, form)
    answer = await eye.put(f"{PREDICT}?top_k=1", content=content)
    assert answer.status_code == 200, answer.text
    ((best,),) = answer.json()["outputs"]["flat_output"]
    assert best["index"] == int(np.argmax(expected(content)[0]))
    posted = await see(eye, content=content, headers={"Content-Type": "application/octet-stream"})
    np.testing.assert_array_equal(posted, expected(content))


async def test_an_unknown_file_format_is_refused(eye: httpx.AsyncClient) -> None:
    await eye.put(TRANSFORM, json={})
    answer = await eye.put(PREDICT, content=b"\x00\x01nothing")
    assert answer.status_code == 400, answer.text


def b64(content: bytes) -> dict[str, str]:
    return {"b64": base64.b64encode(content).decode()}


async def test_images_in_json(eye: httpx.AsyncClient) -> None:
    await eye.put(TRANSFORM, json={"mean": [128], "std": [64]})
    one, other = picture(40, 30, "JPEG"), picture(17, 55, "PNG", seed=2)
    for _ in range(2):  # by the router, and again once the module is known
        found = await see(eye, json={"inputs": {"data": b64(one)}})
        np.testing.assert_array_equal(found, expected(one))
    found = await see(eye, json={"inputs": {"data": [b64(one), b64(other)]}})
    np.testing.assert_array_equal(found, np.concatenate([expected(one), expected(other)]))
    ranked = await eye.post(f"{PREDICT}?top_k=1", json={"inputs": {"data": b64(one)}})
    assert ranked.json()["outputs"]["flat_output"][0][0]["index"] == np.argmax(expected(one)[0])


async def test_large_images_in_json(eye: httpx.AsyncClient) -> None:
    await eye.put(TRANSFORM, json={"mean": [128], "std": [64]})
    rows = np.random.RandomState(1).randint(0, 256, (260, 300, 3)).astype(np.uint8)
    stream = io.BytesIO()
    Image.fromarray(rows).save(stream, "PNG")
    large = stream.getvalue()
    assert len(large) > 200_000
    small = picture(9, 9)
    body = {"inputs": {"data": [b64(large), b64(small)]}}
    found = await see(eye, json=body)
    np.testing.assert_array_equal(found, np.concatenate([expected(large), expected(small)]))
    body["inputs"]["data"][0] = {"b64": "*" * 300_000}
    answer = await eye.post(PREDICT, json=body)
    assert answer.status_code == 422
    assert "inputs.data[0].b64" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("value", "status", "said"),
    [
        ({"b64": "no Base64"}, 422, "inputs.data.b64"),
        ({"b64": "AAA"}, 422, "inputs.data.b64"),
        ({"b64": 3}, 422, "inputs.data.b64"),
        ({"b64": "ä"}, 422, "inputs.data.b64"),
        ({"b64": ""}, 422, "data"),
        ({"b64": "AAAA", "more": 1}, 422, "an image as"),
        ([{"b64": "AAAA"}, 3], 422, "inputs.data[1]"),
        ("a text", 422, "an image as"),
        (b64(b"no image"), 422, "data: got text that begins 'no image'"),
        (b64(picture(9, 9)[:50]), 422, "data"),
        (b64(bomb(9000)), 413, "MODSERVE_MAX_IMAGE_PIXELS"),
    ],
)
async def test_invalid_images_in_json_are_refused(
    eye: httpx.AsyncClient, value: Any, status: int, said: str
) -> None:
    await eye.put(TRANSFORM, json={})
    for _ in range(2):
        answer = await eye.post(PREDICT, json={"inputs": {"data": value}})
        assert answer.status_code == status, answer.text
        assert said in answer.json()["detail"]


async def test_accepted_media_types_are_listed(eye: httpx.AsyncClient) -> None:
    sound = {"content": b"x", "headers": {"Content-Type": "audio/wav"}}
    for _ in range(2):
        assert "image/*" not in (await eye.post(PREDICT, **sound)).json()["detail"]
    await eye.put(TRANSFORM, json={})
    for _ in range(2):
        answer = await eye.post(PREDICT, **sound)
        assert answer.status_code == 415
        assert "application/x-npy" in answer.json()["detail"]
        assert "image/*, multipart/form-data" in answer.json()["detail"]


async def test_tensors_are_still_accepted(eye: httpx.AsyncClient) -> None:
    await eye.put(TRANSFORM, json={"mean": [128]})
    data = np.ones((1, 3, 6, 8), np.float32)
    found = await see(eye, json={"inputs": {"data": data.tolist()}})
    np.testing.assert_array_equal(found, data.reshape(1, -1))


@pytest.mark.parametrize("form", ["JPEG", "PNG", "GIF"])
async def test_an_image_for_a_module_without_a_transform_explains_transforms(
    eye: httpx.AsyncClient, form: str
) -> None:
    answer = await eye.put(PREDICT, content=picture(40, 30, form))
    assert answer.status_code == 422
    (row,) = answer.json()["errors"]
    assert row["got"] == "an image"
    assert "set it by PUT …/transforms/{input}" in row["hint"]


async def test_removing_a_transform(eye: httpx.AsyncClient) -> None:
    await eye.put(TRANSFORM, json={})
    assert (await eye.delete(TRANSFORM)).status_code == 204
    answer = await eye.post(PREDICT, content=picture(8, 8), headers=JPEG)
    assert answer.status_code == 422
    assert "PUT …/transforms/{input}" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("request_", "status", "said"),
    [
        ({"content": b"no image", "headers": JPEG}, 422, "data"),
        (
            {"content": bomb(9000), "headers": JPEG},
            413,
            "MODSERVE_MAX_IMAGE_PIXELS",
        ),
        ({"files": [("other", ("a.jpg", picture(8, 8)))]}, 422, "other"),
        (
            {"files": [("data", ("a.jpg", b"x")), ("data", ("b.jpg", picture(8, 8)))]},
            422,
            "data[0]",
        ),
        (
            {"content": b"--x", "headers": {"Content-Type": "multipart/form-data; boundary=x"}},
            400,
            "form",
        ),
        ({"content": b"--x", "headers": {"Content-Type": "multipart/form-data"}}, 400, "boundary"),
    ],
)
async def test_invalid_images_are_refused(
    eye: httpx.AsyncClient, request_: dict[str, Any], status: int, said: str
) -> None:
    await eye.put(TRANSFORM, json={})
    answer = await eye.post(PREDICT, **request_)
    assert answer.status_code == status, answer.text
    assert said in answer.json()["detail"]


async def test_images_that_end_up_with_different_shapes_are_refused(eye: httpx.AsyncClient) -> None:
    await eye.put(TRANSFORM, json={"resize": 8})
    files = [("data", ("a", picture(16, 8))), ("data", ("b", picture(8, 16)))]
    answer = await eye.post(PREDICT, files=files)
    assert answer.status_code == 422
    assert "data[1]: got shape (3, 16, 8), expected (3, 8, 16)" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("path", "body", "status", "said"),
    [
        (TRANSFORM, {"resise": 3}, 422, "did you mean 'resize'"),
        (TRANSFORM, {"resize": 3, "size": [3, 3]}, 422, "either resize or size"),
        (TRANSFORM, {"type": "sound"}, 422, "type"),
        ("/v1/modules/eye/transforms/dat", {}, 404, "data"),
        ("/v1/modules/nose/transforms/data", {}, 404, "nose"),
    ],
)
async def test_invalid_transforms_are_refused(
    eye: httpx.AsyncClient, path: str, body: dict[str, Any], status: int, said: str
) -> None:
    answer = await eye.put(path, json=body)
    assert answer.status_code == status, answer.text
    assert said in answer.json()["detail"]
