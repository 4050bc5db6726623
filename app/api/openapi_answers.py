"""Successful answers in the OpenAPI document: tensors, files, and their descriptions."""

from __future__ import annotations

from typing import Any

from app.tensors.codec import JSON, NPY, NPZ, SAFETENSORS

__all__ = [
    "ANSWERED_TENSOR",
    "BINARY",
    "RANKING",
    "describe_successes",
    "file_answer",
    "tensor_answer",
]

Answers = dict[int | str, dict[str, Any]]

BINARY: dict[str, Any] = {"schema": {"type": "string", "format": "binary"}}

ANSWERED_TENSOR: dict[str, Any] = {
    "title": "AnsweredTensor",
    "description": "An array.",
    "type": "object",
    "required": ["dtype", "data"],
    "properties": {
        "shape": {
            "type": "array",
            "items": {"type": "integer", "minimum": 0},
            "description": "The length of each axis; absent if there is `lengths`.",
        },
        "dtype": {"type": "string", "examples": ["float32"], "description": "NumPy's name for it."},
        "data": {
            "description": "Nested lists of numbers, with null for NaN and infinity; a single "
            "number if the array has no axes.",
            "anyOf": [{"type": "array", "items": {}}, {"type": ["number", "boolean", "null"]}],
        },
        "lengths": {
            "type": "array",
            "items": {"type": "integer", "minimum": 0},
            "description": "The length of each example, if they differ in length.",
        },
        "batch_axis": {
            "type": ["integer", "null"],
            "description": "Only in predictions: the axis of an output along which the examples "
            "lie; null if there is none, because the output belongs to all examples together.",
        },
    },
}

RANKING: dict[str, Any] = {
    "title": "Ranking",
    "description": "The best classes of each row, the best first; nested like the output.",
    "type": "array",
    "items": {
        "anyOf": [
            {"$ref": "#/components/schemas/Ranking"},
            {
                "type": "object",
                "required": ["label", "index", "score"],
                "properties": {
                    "label": {"type": ["string", "null"], "description": "Null if none is set."},
                    "index": {"type": "integer", "description": "The number of the class, from 0."},
                    "score": {"type": ["number", "null"], "description": "Null for NaN."},
                },
            },
        ]
    },
}

_KINDS_OF_TENSORS = (NPY, NPZ, SAFETENSORS)


def tensor_answer(
    key: str, fields: dict[str, Any] | None = None, *, is_ranked: bool = False
) -> Answers:
    """Return ``responses`` of a route that answers with tensors.

    Args:
        key: member of a JSON answer that holds the tensors.
        fields: schemas of its other members.
        is_ranked: whether the best classes may be returned instead.
    """
    tensor: dict[str, Any] = {"$ref": "#/components/schemas/AnsweredTensor"}
    if is_ranked:
        tensor = {"anyOf": [tensor, {"$ref": "#/components/schemas/Ranking"}]}
    tensors = {"type": "object", "description": "Tensors by name.", "additionalProperties": tensor}
    schema = {"type": "object", "required": [key], "properties": {key: tensors, **(fields or {})}}
    content: dict[str, Any] = {JSON: {"schema": schema}}
    content.update({kind: BINARY for kind in _KINDS_OF_TENSORS})
    return {
        200: {
            "description": "Tensors by name, in the form that `Accept` asks for, JSON by default",
            "content": content,
        }
    }


def file_answer(description: str) -> Answers:
    """Return ``responses`` of a route that sends a file, or requested ranges of it."""
    content = {"application/octet-stream": BINARY}
    return {
        200: {"description": description, "content": content},
        206: {
            "description": "The parts that `Range` asks for",
            "content": {**content, "multipart/byteranges": BINARY},
        },
    }


def describe_successes(operation: dict[str, Any], schemas: dict[str, Any]) -> None:
    """Describe a successful answer if its route does not."""
    for status, answer in operation["responses"].items():
        if answer.get("description") != "Successful Response":
            continue
        if status == "204":
            answer["description"] = "Done; there is no body"
            continue
        schema = answer.get("content", {}).get(JSON, {}).get("schema", {})
        name = schema.get("$ref", "").rpartition("/")[2]
        said = schemas.get(name, {}).get("description") or "The requested resource."
        answer["description"] = said.partition("\n\n")[0].rstrip(".")
