"""A module from its symbol to its predictions, call by call."""

import io
from typing import Any

import httpx
import numpy as np
import pytest
import safetensors.numpy

from app.tensors.npy import write_npz
from served.network import BATCH, CLASSES, FEATURES


def npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def batch() -> np.ndarray:
    return np.random.RandomState(0).rand(BATCH, FEATURES).astype(np.float32)


async def test_each_call_leads_to_the_next_stage(created: httpx.AsyncClient) -> None:
    async def stage() -> str:
        return (await created.get("/v1/modules/net")).json()["stage"]

    shapes = {
        "data_shapes": [{"name": "data", "shape": [BATCH, FEATURES]}],
        "label_shapes": [{"name": "softmax_label", "shape": [BATCH]}],
    }
    assert await stage() == "created"
    for path, body, expected in (
        ("bind", shapes, "bound"),
        ("params/init", {"initializer": "xavier"}, "initialized"),
        ("optimizer", {"name": "adam"}, "ready"),
    ):
        answer = await created.post(f"/v1/modules/net/{path}", json=body)
        assert answer.status_code == 200, answer.text
        assert answer.json()["stage"] == expected == await stage()


async def test_description_has_the_inferred_shapes(ready: httpx.AsyncClient) -> None:
    answer = (await ready.get("/v1/modules/net")).json()
    assert answer["live"] is not None
    text = str(answer["live"])
    assert "fc_weight" in text
    assert "softmax_output" in text


async def test_predict_reads_and_writes_every_media_type(initialized: httpx.AsyncClient) -> None:
    x = batch()
    bodies = {
        "application/json": httpx.Response(200, json={"inputs": {"data": x.tolist()}}).content,
        "application/x-npy": npy(x),
        "application/x-safetensors": safetensors.numpy.save({"data": x}),
    }
    stream = io.BytesIO()
    np.savez(stream, data=x)
    bodies["application/x-npz"] = stream.getvalue()
    answers = []
    for kind, body in bodies.items():
        response = await initialized.post(
            "/v1/modules/net/predict", content=body, headers={"Content-Type": kind, "Accept": kind}
        )
        assert response.status_code == 200, response.text
        assert response.headers["content-type"] == kind
        answers.append(read_output(kind, response))
    for answer in answers:
        assert answer.shape == (BATCH, CLASSES)
        np.testing.assert_allclose(answer.sum(axis=1), 1, rtol=1e-5)
        np.testing.assert_allclose(answer, answers[0], rtol=1e-6)


@pytest.mark.parametrize("content_type", [None, "application/x-www-form-urlencoded"])
async def test_a_body_without_a_media_type_is_recognized_by_its_first_bytes(
    initialized: httpx.AsyncClient, content_type: str | None
) -> None:
    """As curl sends bodies with ``-T`` and with ``--data-binary``."""
    x = batch()
    stream = io.BytesIO()
    np.savez(stream, data=x)
    headers = {"Content-Type": content_type} if content_type else {}
    answers = []
    for body in (
        httpx.Request("POST", "/", json={"inputs": {"data": x.tolist()}}).content,
        npy(x),
        stream.getvalue(),
        safetensors.numpy.save({"data": x}),
    ):
        path = "/v1/modules/net/predict"
        response = await initialized.post(path, content=body, headers=headers)
        assert response.status_code == 200, response.text
        answers.append(read_output("application/json", response))
    assert all(np.array_equal(answers[0], answer) for answer in answers)


def read_output(kind: str, response: httpx.Response) -> np.ndarray:
    if kind == "application/json":
        output = response.json()["outputs"]["softmax_output"]
        array = np.array(output["data"], dtype=output["dtype"])
        assert list(array.shape) == output["shape"]
        return array
    if kind == "application/x-npy":
        return np.load(io.BytesIO(response.content))
    if kind == "application/x-npz":
        return np.load(io.BytesIO(response.content))["softmax_output"]
    return safetensors.numpy.load(response.content)["softmax_output"]


async def test_predict_takes_any_number_of_examples(initialized: httpx.AsyncClient) -> None:
    for count in (1, 3, 4, 7, 33):
        x = np.random.RandomState(count).rand(count, FEATURES).astype(np.float32)
        response = await initialized.post(
            "/v1/modules/net/predict", json={"inputs": {"data": x.tolist()}}
        )
        assert response.json()["outputs"]["softmax_output"]["shape"] == [count, CLASSES]


async def test_predictions_match_numpys(initialized: httpx.AsyncClient) -> None:
    params = (await initialized.get("/v1/modules/net/params")).json()["params"]
    weight = np.array(params["fc_weight"]["data"])
    bias = np.array(params["fc_bias"]["data"])
    x = batch()
    scores = x @ weight.T + bias
    expected = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    response = await initialized.post(
        "/v1/modules/net/predict", json={"inputs": {"data": x.tolist()}}
    )
    np.testing.assert_allclose(read_output("application/json", response), expected, rtol=1e-4)


async def test_parameters_can_be_set_and_read_back(initialized: httpx.AsyncClient) -> None:
    weight = np.arange(15, dtype=np.float32).reshape(CLASSES, FEATURES)
    stream = io.BytesIO()
    np.savez(stream, fc_weight=weight)
    response = await initialized.put(
        "/v1/modules/net/params?allow_missing=true",
        content=stream.getvalue(),
        headers={"Content-Type": "application/x-npz"},
    )
    assert response.status_code == 200, response.text
    one = await initialized.get(
        "/v1/modules/net/params/fc_weight", headers={"Accept": "application/x-npy"}
    )
    np.testing.assert_array_equal(np.load(io.BytesIO(one.content)), weight)


async def test_a_manual_training_step_lowers_the_loss(ready: httpx.AsyncClient) -> None:
    body = {"inputs": {"data": batch().tolist(), "softmax_label": [0, 1, 2, 0]}}

    async def loss() -> float:
        response = await ready.post("/v1/modules/net/forward_backward", json=body)
        assert response.status_code == 200, response.text
        probabilities = read_output("application/json", response)
        return float(-np.log(probabilities[np.arange(4), [0, 1, 2, 0]]).mean())

    first = await loss()
    for _ in range(20):
        assert (await ready.post("/v1/modules/net/update")).status_code == 200
        last = await loss()
    assert last < first * 0.9


async def test_forward_outputs_can_be_fetched_again(ready: httpx.AsyncClient) -> None:
    body = {"inputs": {"data": batch().tolist()}, "is_train": False}
    forward = await ready.post("/v1/modules/net/forward", json=body)
    again = await ready.get("/v1/modules/net/outputs")
    assert forward.json()["outputs"] == again.json()["outputs"]


async def test_with_binary_tensors_other_fields_go_in_the_query(ready: httpx.AsyncClient) -> None:
    content = write_npz({"data": batch(), "softmax_label": np.zeros(4, "f")})
    headers = {"Content-Type": "application/x-npz"}
    options: dict[str, Any] = {"content": content, "headers": headers}
    path = "/v1/modules/net/forward_backward"
    first = await ready.post(path, params={"with_outputs": False, "sequence": 1}, **options)
    assert first.status_code == 200, first.text
    assert first.json()["outputs"] == {}
    update = await ready.post("/v1/modules/net/update", params={"sequence": 2})
    assert update.json()["sequence"] == 2
    skipped = await ready.post(path, params={"sequence": 4}, **options)
    assert skipped.status_code == 409
    lost = await ready.post(path, params={"generation": 99}, **options)
    assert lost.status_code == 412
    again = await ready.post("/v1/modules/net/update", params={"sequence": 2})
    assert again.json() == update.json()


async def test_a_repeated_query_field_is_refused(ready: httpx.AsyncClient) -> None:
    body = {"inputs": {"data": batch().tolist()}, "is_train": False}
    answer = await ready.post("/v1/modules/net/forward", params={"is_train": True}, json=body)
    assert answer.status_code == 422
    assert "is_train" in answer.json()["detail"]


async def test_learning_rate_can_be_changed(ready: httpx.AsyncClient) -> None:
    answer = await ready.patch("/v1/modules/net/optimizer", json={"learning_rate": 0.125})
    assert answer.status_code == 200, answer.text
    assert (await ready.get("/v1/modules/net/optimizer")).json()["learning_rate"] == 0.125


async def test_optimizer_states_can_be_downloaded_and_uploaded(ready: httpx.AsyncClient) -> None:
    await ready.post(
        "/v1/modules/net/optimizer",
        json={"name": "sgd", "options": {"learning_rate": 0.1, "momentum": 0.9}},
    )
    body = {"inputs": {"data": batch().tolist(), "softmax_label": [0, 1, 2, 0]}}
    await ready.post("/v1/modules/net/forward_backward", json=body)
    await ready.post("/v1/modules/net/update")
    states = await ready.get("/v1/modules/net/optimizer/states")
    assert states.status_code == 200, states.text
    back = await ready.put("/v1/modules/net/optimizer/states", content=states.content)
    assert back.status_code == 204, back.text
    assert (await ready.get("/v1/modules/net/optimizer/states")).content == states.content


async def test_reshape_keeps_parameters(initialized: httpx.AsyncClient) -> None:
    before = (await initialized.get("/v1/modules/net/params")).json()["params"]
    shapes = {
        "data_shapes": [{"name": "data", "shape": [2, FEATURES]}],
        "label_shapes": [{"name": "softmax_label", "shape": [2]}],
    }
    answer = await initialized.post("/v1/modules/net/reshape", json=shapes)
    assert answer.status_code == 200, answer.text
    assert (await initialized.get("/v1/modules/net/params")).json()["params"] == before


async def test_checkpoint_is_saved_listed_fetched_and_loaded(ready: httpx.AsyncClient) -> None:
    before = (await ready.get("/v1/modules/net/params")).json()["params"]
    saved = await ready.post("/v1/modules/net/checkpoints", json={"epoch": 3})
    assert saved.status_code == 201, saved.text
    assert {"net-symbol.json", "net-0003.params"} <= set(saved.json()["files"])
    listed = (await ready.get("/v1/modules/net/checkpoints")).json()["items"]
    assert [one["tag"] for one in listed] == ["3"]
    file = await ready.get("/v1/modules/net/checkpoints/3/files/net-0003.params")
    assert file.content[:8] == (0x112).to_bytes(8, "little")
    await ready.post("/v1/modules/net/params/init", json={"initializer": "one"})
    loaded = await ready.post("/v1/modules/net/load", json={"epoch": 3})
    assert loaded.status_code == 200, loaded.text
    assert (await ready.get("/v1/modules/net/params")).json()["params"] == before


async def test_a_deleted_modules_name_can_be_reused(created: httpx.AsyncClient) -> None:
    symbol = (await created.get("/v1/modules/net/symbol")).json()
    assert (await created.delete("/v1/modules/net")).status_code == 204
    assert (await created.get("/v1/modules/net")).status_code == 404
    again = await created.post("/v1/modules", json={"name": "net", "symbol": symbol})
    assert again.status_code == 201, again.text


async def test_deletion_checks_the_etag(created: httpx.AsyncClient) -> None:
    etag = (await created.get("/v1/modules/net")).headers["etag"]
    refused = await created.delete("/v1/modules/net", headers={"If-Match": '"0-0"'})
    assert refused.status_code == 412
    assert (await created.delete("/v1/modules/net", headers={"If-Match": etag})).status_code == 204


async def test_idempotency_key_creates_one_module(api: httpx.AsyncClient, network: dict) -> None:
    body = {"name": "once", "symbol": network}
    headers = {"Idempotency-Key": "abc"}
    first = await api.post("/v1/modules", json=body, headers=headers)
    second = await api.post("/v1/modules", json=body, headers=headers)
    assert first.status_code == second.status_code == 201
    assert first.json() == second.json()
    assert "idempotency-replayed" not in first.headers
    assert second.headers["idempotency-replayed"] == "true"
    assert "idempotency-replayed" not in (await api.get("/v1/modules/once")).headers
    plain = await api.post("/v1/modules", json=body)
    assert plain.status_code == 409
    assert (await api.delete("/v1/modules/once")).status_code == 204
    anew = await api.post("/v1/modules", json=body, headers=headers)
    assert anew.status_code == 201, "the idempotency key was deleted with its module"
    assert "idempotency-replayed" not in anew.headers


async def test_operations(api: httpx.AsyncClient) -> None:
    assert (await api.get("/livez")).json()["status"] == "alive"
    assert (await api.get("/readyz")).json()["executors"] == {"cpu(0)": "ready"}
    executors = (await api.get("/v1/executors")).json()["items"]
    assert [one["name"] for one in executors] == ["cpu(0)"]
    metrics = (await api.get("/metrics")).text
    assert 'modserve_http_requests_total{method="GET",route="/livez"' in metrics


async def test_a_module_without_buckets_lists_none(initialized: httpx.AsyncClient) -> None:
    answer = await initialized.get("/v1/modules/net/buckets")
    assert (answer.status_code, answer.json()["items"]) == (200, [])
