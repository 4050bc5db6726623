"""Transforms of images and texts into the inputs of a module."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request

from app.api.bodies import read_body, read_json
from app.api.conditional import IF_MATCH
from app.api.decoding import Decoded
from app.api.dependencies import ModuleName, ServicesOf
from app.api.forms import FORM, FormFile, is_form, parse_form
from app.api.openapi import json_body, problems
from app.api.v1.module_views import shown
from app.api.v1.views import ModuleView
from app.domain.transforms import Transform, parse_transform
from app.domain.vocabularies import read_vocabulary
from app.errors.tree import Damaged, Invalid, Malformed, NotFound
from app.tensors.json_bodies import parse_json

__all__ = ["check_transform", "router"]

router = APIRouter(prefix="/v1/modules/{module}/transforms", tags=["predict"])

InputName = Annotated[str, Path(max_length=200, description="Name of an input.", examples=["data"])]
_EXAMPLE = {"resize": 256, "crop": [224, 224], "mean": [123.68, 116.779, 103.939]}
_FORM: dict[str, Any] = {
    FORM: {
        "schema": {
            "type": "object",
            "required": ["transform"],
            "additionalProperties": False,
            "properties": {
                "transform": {"type": "string", "description": "As JSON."},
                "vocabulary": {
                    "type": "string",
                    "format": "binary",
                    "description": "A file: a token a line, a JSON list, or JSON of gluonnlp.",
                },
            },
        }
    }
}


@router.get("/{input}", summary="Fetch an input's transform", responses=problems(404, 422))
async def get_transform(module: ModuleName, input: InputName, services: ServicesOf) -> Transform:
    """Return the transform of an input, with all tokens of a vocabulary."""
    record = await services.access.record(module)
    if input not in record.transforms:
        others = ", ".join(record.transforms) or "none"
        raise NotFound("transform of input", input, f"inputs that have one: {others}")
    return record.transforms[input]


@router.put(
    "/{input}",
    summary="Set an input's transform",
    openapi_extra=json_body(Transform, _EXAMPLE, name="Transform", other_forms=_FORM),
    responses=problems(400, 404, 409, 413, 415, 422),
    dependencies=IF_MATCH,
)
async def set_transform(
    module: ModuleName, input: InputName, request: Request, services: ServicesOf
) -> ModuleView:
    """Set how an image or a text becomes this input, so that `predict` accepts them directly.

    An image is resized, center-cropped, normalized by `mean` and `std` in units of pixel values,
    and laid out, with the same results as `mx.image`.

    A text (`"type": "text"`) is split into words or characters, each of which becomes its index in
    the `vocabulary`, which in a form is a file beside the field `transform`. Texts are padded with
    the token `padding` to the length of the smallest bucket that fits; an input bound as
    `lengths_of` this one gets the lengths.
    """
    transform = await _read(request)
    record = await services.access.record(module)
    if input not in record.data_names:
        raise NotFound("input", input, f"the module has {', '.join(record.data_names)}")
    return await shown(services, await services.access.set_transform(module, input, transform))


@router.delete(
    "/{input}",
    status_code=204,
    summary="Remove an input's transform",
    responses=problems(404, 409, 422),
    dependencies=IF_MATCH,
)
async def delete_transform(module: ModuleName, input: InputName, services: ServicesOf) -> None:
    """Remove the transform of an input, if it has one."""
    await services.access.set_transform(module, input, None)


def check_transform(body: bytes) -> Decoded:
    """Validate a JSON body; large ones in another process."""
    parse_transform(parse_json(body), "")
    return Decoded()


async def _read(request: Request) -> Transform:
    if is_form(request):
        body = await read_body(request)
        content_type = request.headers.get("content-type")
        return await asyncio.to_thread(_of_form, content_type, body)
    name = f"{check_transform.__module__}:{check_transform.__qualname__}"
    return parse_transform(await read_json(request, {"op": "function", "function": name}), "")


def _of_form(content_type: str | None, body: bytes) -> Transform:
    files: dict[str, FormFile] = {}

    def open_file(part: str, file: str) -> FormFile:
        if part != "vocabulary" or files:
            raise Invalid(part, file, "one file: the vocabulary")
        return files.setdefault(part, FormFile())

    form = parse_form(content_type, body, open_file)
    text = form.pop("transform")
    if text is None or form.fields:
        got = ", ".join(form.fields) or "nothing"
        raise Invalid("transform", got, "one field of this name, with the transform as JSON")
    try:
        plain = parse_json(text.encode())
    except Malformed as error:
        raise Damaged("transform", str(error), "JSON") from None
    if isinstance(plain, dict) and "vocabulary" in files:
        plain = read_vocabulary(bytes(files["vocabulary"].content), "vocabulary") | plain
    return parse_transform(plain, "")
