"""Raw texts over HTTP, with buckets and without."""

from __future__ import annotations

import asyncio
import io
import json
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import core as mx
from app.client import Client
from app.client.local_server import ServerProcess
from served.processes import end_executor

WORDS = ["<unk>", "<pad>", "the", "cat", "sat", "on", "a", "mat"]
TEXT = {"type": "text", "vocabulary": WORDS, "lowercase": True, "unknown": "<unk>"}
PREDICT, TRANSFORM = "/v1/modules/echo/predict", "/v1/modules/echo/transforms/data"
PLAIN = {"Content-Type": "text/plain; charset=utf-8"}


async def add(
    api: httpx.AsyncClient, shape: list[int | None], layout: str = "NT", **module: Any
) -> None:
    """Add a module ``echo`` that returns its input and the lengths."""
    data, lengths = mx.sym.Variable("data"), mx.sym.Variable("lengths")
    symbol = mx.sym.Group(
        [mx.sym.identity(data, name="ids"), mx.sym.identity(lengths, name="count")]
    )
    body = {"name": "echo", "symbol": symbol.tojson(), "label_names": []}
    body |= {"data_names": ["data", "lengths"], **module}
    shapes = [
        {"name": "data", "shape": shape, "layout": layout, "pad_value": 9, "dtype": "int32"},
        {"name": "lengths", "shape": [2], "layout": "N", "lengths_of": "data"},
    ]
    for path, content in (
        ("", body),
        ("/echo/bind", {"data_shapes": shapes, "for_training": False}),
        ("/echo/params/init", {}),
    ):
        answer = await api.post(f"/v1/modules{path}", json=content)
        assert answer.is_success, answer.text


async def ask(api: httpx.AsyncClient, **request: Any) -> tuple[list[Any], list[float]]:
    answer = await api.post(PREDICT, **request)
    assert answer.status_code == 200, answer.text
    outputs = answer.json()["outputs"]
    ids = np.reshape(outputs["ids_output"]["data"], outputs["ids_output"]["shape"])
    return ids.tolist(), np.ravel(outputs["count_output"]["data"]).tolist()


async def test_texts_in_every_format(api: httpx.AsyncClient) -> None:
    await add(api, [2, 4])
    answer = await api.put(TRANSFORM, json={**TEXT, "padding": "<pad>"})
    assert answer.status_code == 200, answer.text
    view = answer.json()["transforms"]["data"]
    assert (view["vocabulary_size"], view["unknown"]) == (8, "<unk>")
    assert "vocabulary" not in view
    cat = [2, 3, 4, 1]
    for request in (
        {"json": {"text": "The cat sat"}},
        {"json": {"inputs": {"data": "the CAT sat"}}},
        {"json": {"inputs": {"data": {"b64": "dGhlIGNhdCBzYXQ="}}}},
        {"content": b"the cat\nsat\n", "headers": PLAIN},
        {"files": [("data", (None, "the cat sat"))]},
        {"files": [("data", ("text.txt", b"the cat sat"))]},
    ):
        assert await ask(api, **request) == ([cat], [3]), request
    several = {"json": {"text": ["a mat", "the dog sat on a mat"]}}
    assert await ask(api, **several) == ([[6, 7, 1, 1], [2, 0, 4, 5]], [2, 4])
    given = {"json": {"inputs": {"data": ["a", "a"], "lengths": [4, 4]}}}
    assert await ask(api, **given) == ([[6, 1, 1, 1]] * 2, [4, 4])


async def test_token_ids_are_still_accepted(api: httpx.AsyncClient) -> None:
    await add(api, [2, 4])
    await api.put(TRANSFORM, json=TEXT)
    body = {"inputs": {"data": {"dtype": "int32", "data": [[1, 2, 3, 4]]}}}
    assert await ask(api, json=body) == ([[1, 2, 3, 4]], [4])
    stream = io.BytesIO()
    np.save(stream, np.array([[4, 3, 2, 1]], "i4"))
    assert (await ask(api, content=stream.getvalue()))[0] == [[4, 3, 2, 1]]


async def test_a_text_goes_to_the_smallest_bucket_that_holds_it(api: httpx.AsyncClient) -> None:
    await add(api, [2, None], buckets=[2, 4, 6])
    await api.put(TRANSFORM, json=TEXT)
    long = "the cat sat on a mat the cat sat"
    for text, bucket, ids in (
        ("the", "2", [2]),
        ("the cat sat", "4", [2, 3, 4]),
        (long, "6", [2, 3, 4, 5, 6, 7]),
    ):
        answer = (await api.post(PREDICT, json={"text": text})).json()
        assert answer["bucket"] == bucket
        outputs = answer["outputs"]
        assert np.ravel(outputs["ids_output"]["data"]).tolist()[: len(ids)] == ids
        assert outputs["count_output"]["data"] == [len(ids)]
    answer = (await api.post(PREDICT, json={"text": ["the", "the cat sat"]})).json()
    assert answer["bucket"] == "4"
    assert answer["outputs"]["count_output"]["data"] == [1, 3]
    await api.put(TRANSFORM, json={**TEXT, "padding": "<pad>", "max_length": 2, "longer": "refuse"})
    answer = (await api.post(PREDICT, json={"text": "the"})).json()
    assert (answer["bucket"], answer["outputs"]["ids_output"]["data"]) == ("2", [[2, 1]])
    answer = await api.post(PREDICT, json={"text": "the cat sat"})
    assert answer.status_code == 422
    assert "got more tokens, expected at most 2" in answer.json()["detail"]


async def test_each_of_many_clients_gets_its_own_answer(
    server: ServerProcess, api: httpx.AsyncClient
) -> None:
    await add(api, [2, None], buckets=[2, 4, 6])
    await api.put(TRANSFORM, json=TEXT)
    random = np.random.default_rng(5)
    asked = [random.integers(2, 8, random.integers(1, 7)).tolist() for _ in range(120)]
    limits = httpx.Limits(max_connections=40)
    async with httpx.AsyncClient(base_url=server.url, timeout=60, limits=limits) as many:

        async def ask_for(places: list[int]) -> list[Any]:
            text = " ".join(WORDS[place] for place in places)
            outputs = (await many.post(PREDICT, json={"text": text})).json()["outputs"]
            ids = np.ravel(outputs["ids_output"]["data"]).tolist()
            return [ids[: len(places)], outputs["count_output"]["data"]]

        given_up = [asyncio.create_task(ask_for(places)) for places in asked[:20]]
        wanted = [asyncio.create_task(ask_for(places)) for places in asked]
        await asyncio.wait(given_up, return_when=asyncio.FIRST_COMPLETED)
        for task in given_up:
            task.cancel()  # closes their connections, whatever they requested
        found = await asyncio.gather(*wanted)
    assert found == [[places, [len(places)]] for places in asked]


async def test_the_second_axis_may_be_the_batch(api: httpx.AsyncClient) -> None:
    await add(api, [3, 2], "TN")
    await api.put(TRANSFORM, json=TEXT)
    ids, lengths = await ask(api, json={"text": ["the cat", "a mat sat"]})
    assert (ids, lengths) == ([[2, 6], [3, 7], [9, 4]], [2, 3])


async def test_large_bodies_go_through_the_router(api: httpx.AsyncClient) -> None:
    await add(api, [2, 4])
    await api.put(TRANSFORM, json={**TEXT, "padding": "<pad>"})
    for letters in (20_000, 300_000):
        text = "the cat" + " sat" * (letters // 4)
        assert await ask(api, json={"text": [text, "a"]}) == (
            [[2, 3, 4, 4], [6, 1, 1, 1]],
            [4, 1],
        )
        assert (await ask(api, content=text.encode(), headers=PLAIN))[0] == [[2, 3, 4, 4]]


@pytest.mark.parametrize(
    ("request_", "status", "said"),
    [
        ({"json": {"text": 3}}, 422, "text: got 3"),
        ({"json": {"text": []}}, 422, "text: got 0 examples, expected 1 to 256"),
        ({"json": {"text": ["a"] * 257}}, 422, "257 examples"),
        ({"json": {"text": ["a", 3]}}, 422, "text[1]: got 3"),
        ({"json": {"text": "a", "inputs": {"data": "a"}}}, 422, "none beside inputs.data"),
        ({"json": {"inputs": {"data": {"b64": "?"}}}}, 422, "inputs.data.b64"),
        ({"json": {"inputs": {"data": {"b64": "/w=="}}}}, 422, "byte 0 that is no UTF-8"),
        ({"json": {"inputs": {"data": "a", "other": [1]}}}, 422, "other"),
        ({"json": {"text": " "}}, 422, "no token"),
        ({"json": {"text": "a", "bukcet": 3}}, 422, "did you mean 'bucket'"),
        ({"content": b"\xff", "headers": PLAIN}, 422, "data: got byte 0"),
        ({"content": b"x", "headers": {"Content-Type": "audio/wav"}}, 415, "text/plain"),
        ({"content": b"x", "headers": {"Content-Type": "image/png"}}, 422, "an image"),
        ({"content": b"{", "headers": {"Content-Type": "application/json"}}, 400, "JSON"),
    ],
)
async def test_invalid_texts_are_refused(
    api: httpx.AsyncClient, request_: dict[str, Any], status: int, said: str
) -> None:
    await add(api, [2, 4])
    await api.put(TRANSFORM, json=TEXT)
    for _ in range(2):  # by the router, and again once the module is known
        answer = await api.post(PREDICT, **request_)
        assert answer.status_code == status, answer.text
        assert said in answer.json()["detail"]


async def test_texts_for_modules_without_a_vocabulary_are_refused(api: httpx.AsyncClient) -> None:
    await add(api, [2, 4])
    assert (await api.get(TRANSFORM)).status_code == 404
    answer = await api.post(PREDICT, json={"text": "a"})
    assert answer.status_code == 422
    await api.put(TRANSFORM, json={**TEXT, "unknown": None})
    answer = await api.post(PREDICT, json={"text": "the dog"})
    assert "data: got dog, expected tokens of the vocabulary" in answer.json()["detail"]
    await api.put("/v1/modules/echo/transforms/lengths", json=TEXT)
    answer = await api.post(PREDICT, json={"inputs": {"lengths": "a"}})
    assert "an axis of examples, and one of tokens" in answer.json()["detail"]
    answer = await api.post(PREDICT, json={"text": "a"})
    assert "here data, lengths has one" in answer.json()["detail"]


def test_a_vocabulary_is_uploaded_as_a_file(
    server: ServerProcess, api: httpx.AsyncClient, tmp_path: Path
) -> None:
    file = tmp_path / "vocab.txt"
    file.write_text("\n".join(WORDS) + "\n")
    with Client(server.url) as client:
        symbol = mx.sym.identity(mx.sym.Variable("data"), name="ids").tojson()
        client.create_module("echo", symbol, label_names=[])
        client.bind("echo", [{"name": "data", "shape": [1, 4]}], for_training=False)
        client.init_params("echo", seed=1)
        fields = {"type": "text", "unknown": "<unk>", "padding": "<pad>"}
        view = client.set_transform("echo", "data", vocabulary=file, **fields)
        assert view["transforms"]["data"]["vocabulary_size"] == 8
        (found,) = client.predict_texts("echo", "data", "the cat", "mat").values()
        np.testing.assert_array_equal(found, [[2, 3, 1, 1], [7, 1, 1, 1]])
        # 40,000 tokens, with gluonnlp's settings for them.
        tokens = ["<unk>", *(f"t{n}" for n in range(40_000))]
        file.write_text(json.dumps({"idx_to_token": tokens, "unknown_token": "<unk>"}))
        client.set_transform("echo", "data", vocabulary=file, type="text")
        assert client.transform("echo", "data") == {
            "type": "text",
            "vocabulary": tokens,
            "tokens": "words",
            "lowercase": False,
            "unknown": "<unk>",
            "padding": None,
            "max_length": None,
            "longer": "cut",
        }
        end_executor(client)
        (found,) = client.predict_texts("echo", "data", "t7 what t39999 t0").values()
        np.testing.assert_array_equal(found, [[8, 0, 40_000, 1]])


@pytest.mark.parametrize(
    ("files", "status", "said"),
    [
        ([("vocabulary", ("v", b"a"))], 422, "transform"),
        ([("transform", (None, "{")), ("vocabulary", ("v", b"a"))], 422, "transform"),
        ([("transform", (None, '{"type": "text"}'))], 422, "vocabulary"),
        ([("transform", (None, '{"type": "text"}')), ("other", ("v", b"a"))], 422, "other"),
        ([("transform", (None, '{"type": "text"}')), ("vocabulary", ("v", b"\xff"))], 422, "UTF-8"),
        ([("transform", (None, '{"type": "text"}')), ("more", (None, "1"))], 422, "more"),
        (
            [("transform", (None, '{"type": "text"}')), ("vocabulary", ("v", b"a\na\n"))],
            422,
            "each token once",
        ),
    ],
)
async def test_invalid_vocabularies_are_refused(
    api: httpx.AsyncClient, files: list[Any], status: int, said: str
) -> None:
    await add(api, [2, 4])
    answer = await api.put(TRANSFORM, files=files)
    assert answer.status_code == status, answer.text
    assert said in answer.json()["detail"]
    assert (await api.get("/v1/modules/echo")).json()["transforms"] == {}
