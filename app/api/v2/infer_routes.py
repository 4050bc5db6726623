"""Inference requests outside the fast path: large, chunked, compressed or raw."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from fastapi import APIRouter, Request, Response

from app.api.bodies import beside_the_loop, decoders
from app.api.contents import content_response
from app.api.dependencies import ServicesOf
from app.api.disconnect import unless_hung_up
from app.api.v2.bytes_tensors import pack
from app.api.v2.codings import chosen_coding
from app.api.v2.datatypes import BYTES, dtype_of
from app.api.v2.infer_request import InferHeader, Wish
from app.api.v2.inference import LENGTH_FIELD, Inferences, header_bytes_of, split
from app.api.v2.interfaces import TensorDesc, interface_of
from app.api.v2.large_headers import read_large
from app.api.v2.named_models import NamedModel
from app.api.v2.openapi import answers, json_content, raw_request
from app.api.v2.raw_tensors import has_bytes, with_tensors
from app.api.v2.requests import known_model, model_now, read_content
from app.api.v2.views import InferAnswer
from app.domain.module import ModuleRecord
from app.errors.tree import Invalid, Malformed
from app.services.services import Services
from app.tensors.content import Content

__all__ = ["router"]

router = APIRouter(prefix="/v2/models/{model}", tags=["inference protocol"])

_LARGEST_JSON_HERE = 1 << 18
"""Larger JSON is decoded in another process, because parsing holds the interpreter's lock."""

_REQUEST = {
    "id": "42",
    "inputs": [
        {"name": "data", "shape": [1, 4], "datatype": "FP32", "data": [0.5, 1.0, 0.0, 0.25]}
    ],
    "outputs": [{"name": "softmax_output"}],
}
_ANSWER = {
    "model_name": "mlp",
    "model_version": "live",
    "id": "42",
    "outputs": [
        {"name": "softmax_output", "datatype": "FP32", "shape": [1, 2], "data": [0.25, 0.75]}
    ],
}
_TENSOR = {
    "type": "object",
    "required": ["name", "shape", "datatype"],
    "properties": {
        "name": {"type": "string"},
        "shape": {"type": "array", "items": {"type": "integer", "minimum": 0}},
        "datatype": {"type": "string", "examples": ["FP32"]},
        "parameters": {
            "type": "object",
            "properties": {"binary_data_size": {"type": "integer", "minimum": 0}},
        },
        "data": {"type": "array", "items": {}},
    },
}
_SCHEMA = {
    "type": "object",
    "required": ["inputs"],
    "properties": {
        "id": {"type": "string"},
        "parameters": {
            "type": "object",
            "properties": {
                "priority": {"type": "integer", "minimum": 0},
                "timeout": {"type": "integer", "minimum": 0, "description": "Microseconds."},
                "binary_data_output": {"type": "boolean"},
                "sequence_id": {"type": ["integer", "string"], "description": "0 for none."},
                "sequence_start": {"type": "boolean"},
                "sequence_end": {"type": "boolean"},
            },
        },
        "inputs": {"type": "array", "minItems": 1, "items": _TENSOR},
        "outputs": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": {"type": "string"},
                    "parameters": {
                        "type": "object",
                        "properties": {
                            "binary_data": {"type": "boolean"},
                            "classification": {"type": "integer", "minimum": 1},
                        },
                    },
                },
            },
        },
    },
}
_BINARY = {
    "application/octet-stream": {
        "schema": {
            "type": "string",
            "format": "binary",
            "description": "JSON of Inference-Header-Content-Length bytes, then "
            "the tensors that announce a binary_data_size.",
        }
    }
}
_BODY = raw_request({**json_content(_REQUEST, _SCHEMA), **_BINARY})
_HEADER: dict[str, Any] = {
    "parameters": [
        {
            "name": "Inference-Header-Content-Length",
            "in": "header",
            "required": False,
            "description": "Length of the JSON at the start of the decompressed body; 0 for a body "
            "that is just the only input with batch 1; absent for a body that is only JSON.",
            "schema": {"type": "integer", "minimum": 0},
        }
    ]
}
_ANSWERS = answers(InferAnswer, _ANSWER, 400, 404, 413, 501, 503, 504)
_ANSWERS[200]["content"] |= _BINARY


@router.post("/infer", summary="Infer", openapi_extra=_BODY | _HEADER, responses=_ANSWERS)
async def infer_model(named: NamedModel, request: Request, services: ServicesOf) -> Response:
    """Compute the outputs of examples, as `predict` does, in the form of the protocol.

    Texts, and files of images, are taken as tensors of BYTES by inputs that have a transform; in
    JSON an image is a string of Base64, and a raw body is one text or file. Bodies may be
    compressed by gzip or deflate, and answers are where Accept-Encoding names one of them.
    """
    inferences: Inferences = request.app.state.inferences
    record = await known_model(services, named.model)
    # Chosen before the body is read, so that an unknown version is refused without it.
    chosen = await services.versions.choose(record, named.version)
    stated = request.headers.getlist(LENGTH_FIELD)
    header_bytes = header_bytes_of(", ".join(stated) if stated else None)
    body = await read_content(request)
    text, behind = split(body, header_bytes)
    if header_bytes == 0:
        header, behind = await _raw(services, named.model, body)
    elif len(text) > _LARGEST_JSON_HERE:
        header = await read_large(decoders(request), text)
    else:
        header = await beside_the_loop(len(text), partial(inferences.read, text))
    if header.part is not None:  # a sequence stays with the version that began it
        chosen = await services.versions.choose(record, named.version, header.part)
    if has_bytes(header):
        header = await with_tensors(request.app.state.raw_inputs, record, header, behind)
        behind = memoryview(b"")
    coding = chosen_coding(request.headers.get("accept-encoding", ""))
    write = inferences.writer(record, chosen.name, header.wish, coding)
    outcome = await unless_hung_up(request, inferences.outcome(record, chosen, header, behind))
    headers: dict[str, str] = {}

    def make() -> Content:
        written = write(outcome)
        headers.update(written.headers)
        return written.content

    response = await content_response(make, outcome.outputs.nbytes, None, outcome.release)
    response.headers.update(headers)
    return response


async def _raw(services: Services, model: str, body: bytes) -> tuple[InferHeader, memoryview]:
    """Return the header and the tensor for a body that is the only input, with batch 1."""
    record: ModuleRecord = await model_now(services, model)
    inputs = (await interface_of(services, record)).inputs
    if len(inputs) != 1:
        names = ", ".join(one.name for one in inputs)
        raise Malformed(f"a raw body needs a model with one input; {model!r} has {names}")
    desc = inputs[0]
    dtype = dtype_of(desc.datatype, desc.name)
    if dtype == BYTES:
        body = pack([body])
    shape = (1, 1) if dtype == BYTES else _raw_shape(desc, len(body), dtype.itemsize)
    row = desc.name, dtype, shape
    header = InferHeader((row,), (len(body),), {}, Wish(is_binary=True), 0, 0)
    return header, memoryview(body)


def _raw_shape(desc: TensorDesc, size: int, itemsize: int) -> tuple[int, ...]:
    """Return the shape for so many bytes with batch 1; one open axis gets the length they leave."""
    shape = [1 if axis == desc.batch_axis else n for axis, n in enumerate(desc.shape)]
    example = math.prod(n for n in shape if n >= 0) * itemsize
    is_open = shape.count(-1)
    if is_open > 1:
        raise Malformed(
            f"the shape {shape} of input {desc.name!r} cannot be derived from raw bytes"
        )
    if is_open and example and size % example == 0:  # ``example`` is 0 if another axis is empty
        shape[shape.index(-1)] = size // example
    elif size != example:
        what = f"{'a multiple of ' if is_open else ''}{example} bytes, {desc.datatype} {shape}"
        raise Invalid("body", f"{size} bytes", what)
    return tuple(shape)
