"""Every error code is documented, at /v1/errors and in the OpenAPI document."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest

import app
from app.errors.http import ENGINE_KINDS, ERROR_TABLE, HOST_KINDS
from served.document import openapi_document

KINDS = (*ERROR_TABLE.values(), *ENGINE_KINDS, *HOST_KINDS)
CODES = {kind.code for kind in KINDS if kind.is_listed} | {"internal"}
CODE_OF_A_JOB = re.compile(r'"code": "([a-z_]+)"')


async def test_all_codes_are_listed(api: httpx.AsyncClient) -> None:
    items = (await api.get("/v1/errors")).json()["items"]
    of_answers = [one["code"] for one in items if one["status"] is not None]
    assert sorted(of_answers) == sorted(CODES)
    assert all(one["title"] and one["remedy"] for one in items)


async def test_codes_that_only_jobs_have_are_listed(api: httpx.AsyncClient) -> None:
    moves = (Path(app.__file__).parent / "domain" / "job_transitions.py").read_text()
    items = (await api.get("/v1/errors")).json()["items"]
    of_jobs = {one["code"] for one in items if one["status"] is None}
    assert of_jobs == set(CODE_OF_A_JOB.findall(moves)) - CODES


async def test_the_type_of_a_problem_links_to_its_code(api: httpx.AsyncClient) -> None:
    problem = (await api.get("/v1/modules/nobody")).json()
    told = await api.get(problem["type"])
    assert told.status_code == 200
    assert told.json()["type"] == problem["type"]
    assert (told.json()["code"], told.json()["status"]) == ("not_found", 404)


async def test_an_unknown_code_is_not_found(api: httpx.AsyncClient) -> None:
    refused = await api.get("/v1/errors/not_fond")
    assert refused.status_code == 404
    assert "did you mean 'not_found'" in refused.json()["detail"]


@pytest.mark.parametrize("code", sorted(CODES))
def test_the_document_has_an_example_of_each(code: str) -> None:
    document = openapi_document()
    reference = {"$ref": f"#/components/examples/{code}"}
    example = document["components"]["examples"][code]["value"]
    assert example["code"] == code
    used = [
        status
        for operations in document["paths"].values()
        for operation in operations.values()
        for status, answer in operation["responses"].items()
        for media in answer.get("content", {}).values()
        if media.get("examples", {}).get(code) == reference
    ]
    assert used
    assert set(used) <= {str(example["status"]), "default"}
