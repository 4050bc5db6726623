"""JSON numbers become the dtype that an input is bound to, and nothing is rounded before."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

import core as mx

BIG = 2**24 + 1
"""No float32 has it."""
SPACES = " " * 20_000
"""With them a body is one that the router reads in a thread."""
MORE_SPACES = " " * (1 << 19)
"""With these, one that another process reads."""


async def post(api: httpx.AsyncClient, path: str, body: Any, spaces: str = "") -> httpx.Response:
    content = json.dumps(body) + spaces
    return await api.post(path, content=content, headers={"Content-Type": "application/json"})


async def add(api: httpx.AsyncClient, dtype: str, **buckets: Any) -> None:
    """Add a module ``same`` whose output is its input."""
    symbol = mx.sym.identity(mx.sym.Variable("data"), name="same").tojson()
    body = {"name": "same", "symbol": symbol, "label_names": [], **buckets}
    assert (await post(api, "/v1/modules", body)).status_code == 201
    shape = [2, None] if buckets else [2, 3]
    shapes = {"data_shapes": [{"name": "data", "shape": shape, "dtype": dtype, "layout": "NT"}]}
    for call, plain in (("bind", shapes | {"for_training": False}), ("params/init", {"seed": 1})):
        answer = await post(api, f"/v1/modules/same/{call}", plain)
        assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("spaces", ["", SPACES, MORE_SPACES], ids=["small", "large", "larger"])
@pytest.mark.parametrize(
    ("dtype", "numbers"),
    [("int32", [[1, -2, BIG]]), ("int64", [[1, 2, 2**53 + 1]]), ("uint8", [[0, 1, 255]])],
)
async def test_predicting_with_integers(
    api: httpx.AsyncClient, dtype: str, numbers: Any, spaces: str
) -> None:
    await add(api, dtype)
    for path, body in (("predict", {"data": numbers}), ("forward", {"inputs": {"data": numbers}})):
        answer = await post(api, f"/v1/modules/same/{path}", body, spaces)
        assert answer.status_code == 200, answer.text
        (output,) = answer.json()["outputs"].values()
        assert (output["dtype"], output["data"][:1]) == (dtype, numbers)
        if path == "predict":
            assert output["shape"] == [1, 3]


@pytest.mark.parametrize("spaces", ["", SPACES], ids=["small", "large"])
async def test_predicting_with_ragged_integers(api: httpx.AsyncClient, spaces: str) -> None:
    await add(api, "int32", buckets=[2, 4])
    numbers = [[BIG], [1, 2, 3]]
    answer = await post(api, "/v1/modules/same/predict", {"data": numbers}, spaces)
    assert answer.status_code == 200, answer.text
    (output,) = answer.json()["outputs"].values()
    assert (output["dtype"], output["data"]) == ("int32", numbers)


@pytest.mark.parametrize("spaces", ["", SPACES, MORE_SPACES], ids=["small", "large", "larger"])
async def test_fractions_for_an_integer_input_are_refused_by_name(
    api: httpx.AsyncClient, spaces: str
) -> None:
    await add(api, "int32")
    answer = await post(api, "/v1/modules/same/predict", {"data": [[0.5, 1, 2]]}, spaces)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["expected"] == "whole numbers for int32"


THIRD = 1 / 3
"""No float32 has it either."""


@pytest.mark.parametrize("spaces", ["", SPACES, MORE_SPACES], ids=["small", "large", "larger"])
async def test_float64_inputs_keep_every_digit(api: httpx.AsyncClient, spaces: str) -> None:
    await add(api, "float64")
    numbers = [[THIRD, 123456789.125, 1e300]]
    for path, body in (("predict", {"data": numbers}), ("forward", {"inputs": {"data": numbers}})):
        answer = await post(api, f"/v1/modules/same/{path}", body, spaces)
        assert answer.status_code == 200, answer.text
        (output,) = answer.json()["outputs"].values()
        assert (output["dtype"], output["data"][:1]) == ("float64", numbers)


@pytest.mark.parametrize("spaces", ["", SPACES], ids=["small", "large"])
async def test_ragged_float64_inputs_keep_every_digit(api: httpx.AsyncClient, spaces: str) -> None:
    await add(api, "float64", buckets=[2, 4])
    numbers = [[THIRD], [1.0, 2.0, THIRD]]
    answer = await post(api, "/v1/modules/same/predict", {"data": numbers}, spaces)
    assert answer.status_code == 200, answer.text
    (output,) = answer.json()["outputs"].values()
    assert (output["dtype"], output["data"]) == ("float64", numbers)


async def test_float64_parameters_and_gradients_keep_every_digit(api: httpx.AsyncClient) -> None:
    product = mx.sym.Variable("data") * mx.sym.Variable("factor", shape=(2, 2))
    body = {"name": "times", "symbol": product.tojson(), "label_names": []}
    assert (await post(api, "/v1/modules", body)).status_code == 201
    shapes = [{"name": "data", "shape": [2, 2], "dtype": "float64"}]
    bind = {"data_shapes": shapes, "inputs_need_grad": True}
    assert (await post(api, "/v1/modules/times/bind", bind)).status_code == 200
    ones, thirds = [[1.0, 1.0]] * 2, [[THIRD, 2.0]] * 2
    url = "/v1/modules/times/params"
    answer = await api.put(url, json={"inputs": {"factor": thirds}})
    assert answer.status_code == 200, answer.text
    assert (await api.get(url)).json()["params"]["factor"]["data"] == thirds
    await post(api, "/v1/modules/times/forward", {"inputs": {"data": ones}, "is_train": True})
    (name,) = (await api.get("/v1/modules/times/outputs")).json()["outputs"]
    answer = await post(api, "/v1/modules/times/backward", {"inputs": {name: thirds}})
    assert answer.status_code == 200, answer.text
    grads = (await api.get("/v1/modules/times/input_grads")).json()["input_grads"]
    (grad,) = grads.values()
    assert grad["data"] == [[THIRD * THIRD, 4.0]] * 2


async def test_parameters_too_large_for_their_dtype_are_refused(api: httpx.AsyncClient) -> None:
    product = mx.sym.Variable("data") * mx.sym.Variable("factor", shape=(1,))
    body = {"name": "times", "symbol": product.tojson(), "label_names": []}
    assert (await post(api, "/v1/modules", body)).status_code == 201
    bind = {"data_shapes": [{"name": "data", "shape": [1]}]}
    assert (await post(api, "/v1/modules/times/bind", bind)).status_code == 200
    answer = await api.put("/v1/modules/times/params", json={"inputs": {"factor": [1e300]}})
    assert answer.status_code == 422
    assert "factor: got NaN or infinity" in answer.json()["detail"]
