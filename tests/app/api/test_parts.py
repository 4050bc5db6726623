"""A part of a file (``Content-Range``) is never taken for the whole."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest

from served.document import openapi_document
from served.network import examples_npz

PART = {"Content-Range": "bytes 4-9/10"}


def routes_with_a_body() -> list[tuple[str, str]]:
    return [
        (verb.upper(), path)
        for path, operations in openapi_document()["paths"].items()
        for verb, operation in operations.items()
        if verb == "put" or "requestBody" in operation
    ]


@pytest.mark.parametrize(("verb", "path"), routes_with_a_body())
async def test_a_part_is_refused(ready: httpx.AsyncClient, verb: str, path: str) -> None:
    names: dict[str, Any] = {"module": "net", "model": "net", "dataset": "examples", "epoch": "1"}
    filled = re.sub(r"\{(\w+)\}", lambda found: names.get(found[1], "one"), path)
    refused = await ready.request(verb, filled, content=b"{}", headers=PART)
    assert refused.status_code == 400, refused.text
    assert "Content-Range" in refused.text
    assert "curl" in refused.text


async def test_a_dataset_is_kept(ready: httpx.AsyncClient) -> None:
    path = "/v1/datasets/examples"
    await ready.put(path, content=examples_npz())
    before = (await ready.get(path)).json()
    assert (await ready.put(path, content=examples_npz(5), headers=PART)).status_code == 400
    assert (await ready.get(path)).json() == before
