"""JSON numbers are converted to the dtype an input is bound to, integers included."""

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
