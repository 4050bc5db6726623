"""The OpenAPI document: committed, complete, and accurate about errors."""

import re
from pathlib import Path

import pytest

from app.main import openapi_text
from served.document import openapi_document

COMMITTED = Path(__file__).parents[3] / "openapi" / "openapi.json"


@pytest.fixture(scope="module")
def document() -> dict:
    return openapi_document()


def test_committed_document_is_current() -> None:
    assert COMMITTED.read_text() == openapi_text(), "run: make openapi"


def test_every_reference_resolves(document: dict) -> None:
    def references(node: object) -> list[str]:
        if isinstance(node, dict):
            own = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
            return own + [ref for value in node.values() for ref in references(value)]
        if isinstance(node, list):
            return [ref for item in node for ref in references(item)]
        return []

    for reference in references(document):
        _, components, kind, name = reference.split("/")
        assert name in document[components][kind], reference


def test_every_operation_has_summary_description_and_problem_answers(document: dict) -> None:
    for path, operations in document["paths"].items():
        for verb, operation in operations.items():
            where = f"{verb} {path}"
            assert operation.get("summary"), where
            assert operation.get("description"), where
            for status, answer in operation["responses"].items():
                if status == "416":
                    continue  # of a Range, which the library that answers with files handles
                if (status >= "400" or status == "default") and path.startswith("/v1"):
                    assert "application/problem+json" in answer["content"], f"{where} {status}"


def test_every_operation_has_a_unique_verb_noun_id(document: dict) -> None:
    ids = [
        operation["operationId"]
        for operations in document["paths"].values()
        for operation in operations.values()
    ]
    assert [one for one in ids if not re.fullmatch(r"[a-z]+(_[a-z0-9]+)+", one)] == []
    assert sorted(ids) == sorted(set(ids))
    assert {"fit_module", "predict_module", "get_job_metrics"} <= set(ids)


def test_every_tag_in_use_is_described(document: dict) -> None:
    described = {tag["name"] for tag in document["tags"] if tag["description"]}
    for path, operations in document["paths"].items():
        for verb, operation in operations.items():
            assert set(operation["tags"]) <= described, f"{verb} {path}"


def test_paths_and_their_parameters_are_snake_case(document: dict) -> None:
    for path, operations in document["paths"].items():
        assert re.fullmatch(r"(/[a-z0-9_.]+|/\{[a-z_]+\})+|/", path), path
        for verb, operation in operations.items():
            for one in operation.get("parameters", ()):
                if one["in"] != "header":
                    assert re.fullmatch(r"[a-z_]+", one["name"]), f"{verb} {path}"


def test_every_json_body_has_an_example(document: dict) -> None:
    for path, operations in document["paths"].items():
        for verb, operation in operations.items():
            media = operation.get("requestBody", {}).get("content", {}).get("application/json")
            if media is not None:
                assert "example" in media, f"{verb} {path}"


def test_every_route_with_a_name_can_answer_404(document: dict) -> None:
    for path, operations in document["paths"].items():
        for verb, operation in operations.items():
            if "{module}" in path or "{job}" in path:
                assert "404" in operation["responses"], f"{verb} {path}"
