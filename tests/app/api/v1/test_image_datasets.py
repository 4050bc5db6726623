"""Image folders uploaded as datasets, used for training and prediction."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Mapping
from typing import Any

import httpx
import numpy as np
import pytest

import core as mx
from served.many_images import zipped
from served.pictures import picture

HERE = "/v1/datasets/pets"
FILES = {
    f"train/{name}/{index}.png": picture(12, 9, seed=10 * place + index)
    for place, name in enumerate(("cat", "dog"))
    for index in range(4)
}


def classifier() -> str:
    net = mx.sym.FullyConnected(mx.sym.Flatten(mx.sym.Variable("data")), num_hidden=2, name="fc")
    return str(mx.sym.SoftmaxOutput(net, name="softmax").tojson())


async def post(api: httpx.AsyncClient, path: str, body: Any, status: int = 200) -> Any:
    answer = await api.post(path, json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


async def upload(
    api: httpx.AsyncClient, files: Mapping[str, bytes], status: int = 200, **query: Any
) -> Any:
    answer = await api.put(f"{HERE}/images", content=zipped(files), params=query)
    assert answer.status_code == status, answer.text
    return answer.json()


async def arrays(api: httpx.AsyncClient) -> Any:
    return np.load(io.BytesIO((await api.get(f"{HERE}/file")).content))


async def ended(api: httpx.AsyncClient, job: dict[str, Any]) -> dict[str, Any]:
    async with asyncio.timeout(60):
        while (job := (await api.get(f"/v1/jobs/{job['id']}")).json())["status"] in (
            "queued",
            "running",
        ):
            await asyncio.sleep(0.05)
    return job


async def test_a_folder_is_trained_on_and_its_subfolders_name_the_classes(
    api: httpx.AsyncClient,
) -> None:
    made = await upload(api, FILES, size=8)
    assert made["classes"] == ["cat", "dog"]
    assert made["kind"] == "npz"
    assert [(one["name"], one["shape"], one["dtype"]) for one in made["arrays"]] == [
        ("data", [8, 3, 8, 8], "uint8"),
        ("softmax_label", [8], "float32"),
    ]
    assert (await api.get(HERE)).json() == made
    held_out = zipped({path: one for path, one in FILES.items() if "dog" in path})
    query = {"size": 8, "classes_of": "pets"}
    other = await api.put("/v1/datasets/others/images", content=held_out, params=query)
    assert other.json()["classes"] == ["cat", "dog"], other.text

    await post(api, "/v1/modules", {"name": "eye", "symbol": classifier()}, 201)
    fit = {
        "dataset": "pets",
        "inputs": {"data": {"array": "data", "scale": 1 / 255}},
        "epochs": 1,
        "batch_size": 4,
        "optimizer": {"name": "sgd", "options": {"learning_rate": 0.1}},
        "validation": {"dataset": "others", "inputs": {"data": {"array": "data"}}},
    }
    job = await ended(api, await post(api, "/v1/modules/eye/fit", fit, 202))
    assert job["status"] == "succeeded", job
    assert (await api.get("/v1/modules/eye/labels/softmax_output")).json() == ["cat", "dog"]
    asked = {"inputs": {"data": np.zeros((1, 3, 8, 8)).tolist()}}
    best = (await api.post("/v1/modules/eye/predict?top_k=1", json=asked)).json()
    assert best["outputs"]["softmax_output"][0][0]["label"] in ("cat", "dog")

    parrots = {path.replace("dog", "parrot"): one for path, one in FILES.items()}
    refused = await api.put(
        "/v1/datasets/parrots/images", content=zipped(parrots), params={"size": 8}
    )
    assert refused.status_code == 200, refused.text
    refused = await api.post(
        "/v1/modules/eye/fit", json=fit | {"validation": {"dataset": "parrots"}}
    )
    assert refused.status_code == 422
    (error,) = refused.json()["errors"]
    assert error["field"] == "validation.dataset"
    assert "dog, parrot" in error["got"]
    assert "classes_of=pets" in error["hint"]


async def test_training_and_prediction_apply_the_same_transform(api: httpx.AsyncClient) -> None:
    """What is trained on is what a prediction makes of the same image."""
    symbol = mx.sym.Flatten(mx.sym.Variable("data"), name="flat").tojson()
    await post(api, "/v1/modules", {"name": "eye", "symbol": symbol, "label_names": []}, 201)
    await upload(api, FILES, 422, module="eye")
    bind = {"data_shapes": [{"name": "data", "shape": [1, 3, 6, 8]}], "for_training": False}
    await post(api, "/v1/modules/eye/bind", bind)
    await post(api, "/v1/modules/eye/params/init", {})
    transform = {"mean": [120, 115, 100], "std": [60], "color": "bgr"}
    await api.put("/v1/modules/eye/transforms/data", json=transform)
    made = await upload(api, FILES, module="eye")
    assert made["arrays"][0]["shape"] == [8, 3, 6, 8]
    assert made["arrays"][0]["dtype"] == "float32"
    image = next(iter(FILES.values()))
    seen = await api.post("/v1/modules/eye/predict", content=image)
    row = (await arrays(api))["data"][0].reshape(1, -1)
    np.testing.assert_array_equal(np.float32(seen.json()["outputs"]["flat_output"]["data"]), row)
    refused = await upload(api, FILES, 422, module="eye", size=4)
    assert refused["errors"][0]["field"] == "size"


async def test_all_broken_images_are_named_and_nothing_changes(api: httpx.AsyncClient) -> None:
    before = await upload(api, FILES, size=4)
    broken = {"train/cat/x.png": b"no image", "train/dog/y.jpg": b"\xff\xd8\xff"}
    refused = await upload(api, FILES | broken, 422, size=4)
    assert [one["field"] for one in refused["errors"]] == [*broken]
    assert (await api.get(HERE)).json() == before


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({}, "size"),
        ({"resize": "8"}, "size"),
        ({"size": "big"}, "size"),
        ({"size": "8,8,8"}, "size"),
        ({"size": "0"}, "size"),
        ({"size": "8", "mean": "1,2"}, "mean"),
        ({"size": "8", "color": "blue"}, "color"),
        ({"size": "8", "data_name": "softmax_label"}, "label_name"),
        ({"size": "8", "colour": "rgb"}, "colour"),
    ],
)
async def test_invalid_query_parameters_are_refused(
    api: httpx.AsyncClient, query: dict[str, str], field: str
) -> None:
    refused = await upload(api, FILES, 422, **query)
    assert refused["errors"][0]["field"].startswith(field), refused
    assert (await api.get(HERE)).status_code == 404
