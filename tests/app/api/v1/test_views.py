"""Answers have declared types, never bare objects, and match the declaration."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from jsonschema_rs import validator_for

from served.document import openapi_document
from served.network import examples_npz, fit_body

FREE = {
    ("EventView", "data"),  # by kind of event
    ("VersionView", "metrics"),
    ("ModuleView", "compression_params"),
    ("InitSpec", "options"),
    ("OptimizerSpec", "options"),
    ("OptimizerView", "options"),
}


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return openapi_document()


def is_bare(schema: Any) -> bool:
    """Return whether a schema allows any object."""
    if not isinstance(schema, dict):
        return False
    if schema.get("additionalProperties") is True and not schema.get("properties"):
        return True
    return any(is_bare(one) for one in [*schema.get("anyOf", ()), schema.get("items")])


def answers(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the schemas of successful JSON answers under /v1, by operation."""
    return {
        operation["operationId"]: media["schema"]
        for path, operations in document["paths"].items()
        for operation in operations.values()
        for status, answer in operation["responses"].items()
        for kind, media in answer.get("content", {}).items()
        if path.startswith("/v1/") and status[0] == "2" and kind == "application/json"
    }


def test_no_answer_is_a_bare_object_or_text(document: dict[str, Any]) -> None:
    for name, schema in answers(document).items():
        assert not is_bare(schema), name
        assert schema.get("type") != "string", name


def test_members_of_views_are_typed(document: dict[str, Any]) -> None:
    bare = {
        (name, member)
        for name, schema in document["components"]["schemas"].items()
        for member, found in schema.get("properties", {}).items()
        if name.endswith(("View", "Result")) and is_bare(found)
    }
    assert bare <= FREE


def test_no_description_is_an_internal_docstring(document: dict[str, Any]) -> None:
    for name, schema in document["components"]["schemas"].items():
        text = schema.get("description", "")
        assert "Attributes:" not in text, name
        assert "``" not in text, name
    fields = document["components"]["schemas"]["OptimizerSpec"]["properties"]
    assert fields["name"]["description"].startswith("MXNet's name, in lower case")
    assert "description" in document["components"]["schemas"]["ModuleBody"]["properties"]["from"]


@pytest.fixture
async def worked(ready: httpx.AsyncClient) -> httpx.AsyncClient:
    """The client, after jobs of every kind and a manual step."""
    await ready.put("/v1/datasets/examples", content=examples_npz())
    best = {"keep_best": {"metric": "accuracy", "mode": "max"}}
    whole = fit_body(checkpoint=best)
    part = {name: whole[name] for name in ("dataset", "batch_size")}
    for call, body in (
        ("fit", whole),
        ("score", part),
        ("predict_dataset", part | {"output": "out"}),
    ):
        job = (await ready.post(f"/v1/modules/net/{call}", json=body)).json()["id"]
        await ready.get(f"/v1/jobs/{job}/events")  # to its end
    return ready


async def test_answers_match_their_declaration(
    worked: httpx.AsyncClient, document: dict[str, Any]
) -> None:
    schemas = answers(document)
    jobs = (await worked.get("/v1/jobs")).json()["items"]
    assert {one["status"] for one in jobs} == {"succeeded"}, jobs
    asked = {
        "list_modules": "/v1/modules",
        "get_module": "/v1/modules/net",
        "get_optimizer": "/v1/modules/net/optimizer",
        "get_serving": "/v1/modules/net/serving",
        "list_checkpoints": "/v1/modules/net/checkpoints",
        "list_jobs": "/v1/jobs",
        "get_job": f"/v1/jobs/{jobs[0]['id']}",
        "preview_dataset": "/v1/datasets/examples/preview",
        "list_executors": "/v1/executors",
        "list_error_codes": "/v1/errors",
    }
    for name, path in asked.items():
        answer = await worked.get(path)
        assert answer.status_code == 200, answer.text
        schema = schemas[name] | {"components": document["components"]}
        validator_for(schema).validate(answer.json())


async def test_job_results_are_of_the_declared_kinds(
    worked: httpx.AsyncClient, document: dict[str, Any]
) -> None:
    for job in (await worked.get("/v1/jobs")).json()["items"]:
        title = {"fit": "FitResult", "score": "ScoreResult", "predict": "PredictResult"}[
            job["kind"]
        ]
        for name, value in ((title, job["result"]), ("JobProgress", job["progress"])):
            declared = document["components"]["schemas"][name]
            assert set(value) <= set(declared["properties"]), name
            schema = declared | {"components": document["components"]}
            validator_for(schema).validate(value)


async def test_live_values_are_all_declared(
    worked: httpx.AsyncClient, document: dict[str, Any]
) -> None:
    live = (await worked.get("/v1/modules/net")).json()["live"]
    declared = document["components"]["schemas"]["LiveModuleView"]["properties"]
    assert set(declared) <= set(live)
