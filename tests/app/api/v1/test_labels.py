"""Class labels set and returned over HTTP."""

from __future__ import annotations

import io

import httpx
import numpy as np
import pytest

from served.network import BATCH, FEATURES

OUTPUT = "/v1/modules/net/labels/softmax_output"
RANKED = "/v1/modules/net/predict?top_k=2"


def npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"cat\ndog\nbird\n", None),
        (b"cat\ndog\nbird", "text/plain"),
        (b'["cat", "dog", "bird"]', "application/json"),
    ],
)
async def test_the_best_classes_come_with_their_labels(
    initialized: httpx.AsyncClient, content: bytes, kind: str | None
) -> None:
    headers = {} if kind is None else {"Content-Type": kind}
    answer = await initialized.put(OUTPUT, content=content, headers=headers)
    assert answer.status_code == 200, answer.text
    assert answer.json()["labelled_outputs"] == ["softmax_output"]
    assert (await initialized.get(OUTPUT)).json() == ["cat", "dog", "bird"]
    examples = np.random.RandomState(1).rand(BATCH, FEATURES).astype(np.float32)
    body = {"inputs": {"data": examples.tolist()}}
    scores = (await initialized.post("/v1/modules/net/predict", json=body)).json()["outputs"]
    ranked = (await initialized.post(RANKED, json=body)).json()["outputs"]["softmax_output"]
    again = await initialized.post(
        RANKED, content=npy(examples), headers={"Accept": "application/x-npy"}
    )
    assert again.headers["content-type"] == "application/json"
    rows = scores["softmax_output"]["data"]
    repeated = again.json()["outputs"]["softmax_output"]
    for row, best, same in zip(rows, ranked, repeated, strict=True):
        order = np.argsort(row)[::-1][:2]
        assert [one["index"] for one in best] == order.tolist()
        assert [one["label"] for one in best] == [("cat", "dog", "bird")[i] for i in order]
        assert [one["score"] for one in best] == pytest.approx([row[i] for i in order])
        assert [one["label"] for one in same] == [one["label"] for one in best]


async def test_removed_labels_are_null(initialized: httpx.AsyncClient) -> None:
    await initialized.put(OUTPUT, content=b"cat\ndog\nbird")
    assert (await initialized.delete(OUTPUT)).status_code == 204
    assert (await initialized.get(OUTPUT)).status_code == 404
    body = {"inputs": {"data": [[0.0] * FEATURES]}}
    ranked = (await initialized.post(RANKED, json=body)).json()["outputs"]["softmax_output"]
    assert [one["label"] for one in ranked[0]] == [None, None]


@pytest.mark.parametrize(
    ("path", "content", "status", "said"),
    [
        (OUTPUT, b"cat\ndog", 422, "got 2 labels, expected 3, one for each class"),
        (OUTPUT, b"", 422, "labels"),
        (OUTPUT, b"\xff", 422, "UTF-8"),
        ("/v1/modules/net/labels/softmax", b"a\nb\nc", 404, "softmax_output"),
        ("/v1/modules/other/labels/softmax", b"a\nb\nc", 404, "other"),
    ],
)
async def test_invalid_labels_are_refused(
    initialized: httpx.AsyncClient, path: str, content: bytes, status: int, said: str
) -> None:
    answer = await initialized.put(path, content=content)
    assert answer.status_code == status, answer.text
    assert said in answer.json()["detail"]
    assert (await initialized.get("/v1/modules/net")).json()["labelled_outputs"] == []


@pytest.mark.parametrize("top_k", ["0", "-1", "x", "1001"])
async def test_invalid_counts_are_refused(initialized: httpx.AsyncClient, top_k: str) -> None:
    body = {"inputs": {"data": [[0.0] * FEATURES]}}
    answer = await initialized.post(f"/v1/modules/net/predict?top_k={top_k}", json=body)
    assert answer.status_code == 422
    assert "top_k" in answer.text
