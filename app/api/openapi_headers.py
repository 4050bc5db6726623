"""Headers of answers in the OpenAPI document."""

from __future__ import annotations

from typing import Any

__all__ = ["HEADER_NAMES", "declare_headers"]

_HEADERS = {
    "ETag": ("Changes with the representation.", '"12-3"'),
    "Location": ("Address of the created resource.", "/v1/jobs/1"),
    "X-Request-Id": (
        "Identifies the request in the log; the client's own id if that is a plain word.",
        "0f1e2d3c4b5a69788796a5b4c3d2e1f0",
    ),
    "Server-Timing": (
        "Milliseconds that the server took, from the request's head to the answer's head.",
        "app;dur=1.87",
    ),
    "Idempotency-Replayed": (
        "`true` if an earlier request with the same `Idempotency-Key` did this, and nothing was "
        "done now.",
        "true",
    ),
    "WWW-Authenticate": ("How to send an API key.", 'Bearer realm="modserve"'),
    "X-Model-Version": ("The version that answered: `live`, or the number of an epoch.", "3"),
    "X-Batch-Axes": (
        "JSON: the axis of the examples in each output in which it is not the first; null if an "
        "output has none and is answered whole. Absent if it is the first in all outputs.",
        '{"letters_output": null}',
    ),
    "X-Onnx-Notes": (
        "JSON: what the module has and the ONNX model does not; absent if there is nothing.",
        '["left out, because they need a label: loss_output"]',
    ),
    "Retry-After": ("Number of seconds after which to try again.", "1"),
    "Allow": ("The verbs that the path has, if the error is `method_not_allowed`.", "GET, POST"),
    "Accept-Ranges": ("`bytes`, because `Range` may ask for a part of the file.", "bytes"),
    "Content-Range": ("Which bytes these are, and how many the file has.", "bytes 0-1023/4096"),
    "Content-Disposition": ("The file's name.", 'attachment; filename="lenet-0012.params"'),
    "Last-Modified": ("When the file was written.", "Sun, 22 Nov 2026 19:52:00 GMT"),
    "Cache-Control": ("`no-cache`, because events must not be answered from a cache.", "no-cache"),
    "X-Accel-Buffering": ("`no`, so that proxies pass on each event at once.", "no"),
    "Inference-Header-Content-Length": (
        "Number of bytes of JSON before the binary tensors.",
        "128",
    ),
    "Content-Encoding": (
        "How the answer is compressed, if `Accept-Encoding` asks for it.",
        "gzip",
    ),
    "traceparent": (
        "The client's W3C trace, with the span of this request, if the request has one.",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    ),
}
HEADER_NAMES = frozenset(_HEADERS)
"""All fields of answers that are not in every answer of HTTP."""
_HAVE_ETAG = {
    "get_module",
    "create_module",
    "get_module_symbol",
    "get_checkpoint",
    "get_checkpoint_file",
    "get_dataset",
    "add_dataset",
    "put_dataset",
    "put_images",
    "get_dataset_file",
    "get_job",
}
_HAVE_LOCATION = {
    "create_module",
    "save_checkpoint",
    "add_dataset",
    "fit_module",
    "score_module",
    "predict_dataset",
}
_HAVE_VERSION = {"predict_file", "predict_module", "predict_with_version"}
_ARE_INFERENCES = {"infer_model", "infer_version"}
_OF_FILES = ("Accept-Ranges", "Content-Disposition", "Last-Modified", "ETag")
_RANGE = {
    "name": "Range",
    "in": "header",
    "required": False,
    "description": "The bytes to send; without it, all.",
    "schema": {"type": "string", "examples": ["bytes=0-1023"]},
}
_OF_ETAG = {
    "If-Match": "ETags that the client expects; unless the current one is among them, the answer "
    "is 412.",
    "If-None-Match": "ETags that the client knows; if the current one is among them, the answer is "
    "304.",
}
_OF_DATE = {
    "If-Modified-Since": "Answer 304 unless the file was written after this date.",
    "If-Unmodified-Since": "Answer 412 if the file was written after this date.",
}


def declare_headers(document: dict[str, Any], moved_on: dict[str, Any]) -> None:
    """Add the headers of all answers to a document.

    Args:
        document: to be changed.
        moved_on: the answer if ``If-Match`` or ``If-None-Match`` of a change is not met.
    """
    components = document["components"].setdefault("headers", {})
    for name, (description, example) in _HEADERS.items():
        components[name] = {
            "description": description,
            "schema": {"type": "string"},
            "example": example,
        }
    for operations in document["paths"].values():
        for verb, operation in operations.items():
            _declare(verb, operation, moved_on)


def _declare(verb: str, operation: dict[str, Any], moved_on: dict[str, Any]) -> None:
    name, responses = operation["operationId"], operation["responses"]
    parameters = operation.setdefault("parameters", [])
    if any(one["name"] == "if-match" for one in parameters):
        responses.setdefault("412", {**moved_on})
        _add(responses["412"], "ETag")
    has_key = any(one["name"] == "idempotency-key" for one in parameters)
    for status, answer in list(responses.items()):
        _add(answer, "X-Request-Id", "Server-Timing", "traceparent")
        if status == "503":
            _add(answer, "Retry-After")
        if status == "default":
            _add(answer, "Allow")
        if status in ("200", "206") and "206" in responses:
            _add(answer, *_OF_FILES)
            if name == "get_onnx":
                _add(answer, "X-Onnx-Notes")
        if status in ("206", "416"):
            _add(answer, "Content-Range")
        if "text/event-stream" in answer.get("content", {}):
            _add(answer, "Cache-Control", "X-Accel-Buffering")
        if status == "200" and name in _ARE_INFERENCES:
            _add(answer, "Inference-Header-Content-Length", "Content-Encoding")
        if status in ("200", "201") and name in _HAVE_ETAG:
            _add(answer, "ETag")
        if status in ("201", "202") and has_key:
            _add(answer, "Idempotency-Replayed")
        if status == "200" and name in _HAVE_VERSION:
            _add(answer, "X-Model-Version", "X-Batch-Axes")
        if status in ("201", "202") and name in _HAVE_LOCATION:
            _add(answer, "Location")
    if "206" in responses:
        parameters.append(_RANGE)
    if verb == "get" and name in _HAVE_ETAG:
        conditions = _OF_ETAG | (_OF_DATE if "206" in responses else {})
        parameters.extend(_condition(*one) for one in conditions.items())
        responses["304"] = {"description": "The client has it already"}
        _add(responses["304"], "ETag", "X-Request-Id", "Server-Timing")
        responses["412"] = {**moved_on}
        _add(responses["412"], "ETag", "X-Request-Id", "Server-Timing", "traceparent")
    if not parameters:
        del operation["parameters"]


def _condition(name: str, description: str) -> dict[str, Any]:
    text = {"description": description, "schema": {"type": "string"}}
    return {"name": name, "in": "header", "required": False, **text}


def _add(answer: dict[str, Any], *names: str) -> None:
    headers = answer.setdefault("headers", {})
    for name in names:
        headers[name] = {"$ref": f"#/components/headers/{name}"}
