"""Predictions from untransformed images and texts: in JSON, in a form, or as the body."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

from fastapi import Request

from app.api.bodies import beside_the_loop, decoders
from app.api.decoding import tensors_of
from app.api.forms import FORM, FormFile, parse_form
from app.api.v1.raw_inputs import RawInputs, kinds_of
from app.api.v1.raw_values import Kinds, RawValues, check_count, only_input, take_raw
from app.api.v1.tensor_io import LARGEST_JSON_HERE, tensors_in
from app.domain.module import ModuleRecord
from app.errors.tree import Invalid, UnsupportedMedia
from app.services.predictions.predict_calls import bound_dtypes
from app.tensors.codec import (
    JSON,
    MEDIA_TYPES,
    Tensors,
    body_type,
    is_unstated,
    media_type,
    read_members,
)
from app.tensors.json_bodies import load_json

__all__ = ["RawBody", "begins_as_image", "holds_images", "inputs_in", "split_body"]

_TEXT = "text/plain"
_UNMISTAKABLE = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF8")
"""First bytes of JPEG, PNG and GIF files, with which no body of tensors begins."""
_BEGINNINGS = (*_UNMISTAKABLE, b"BM", b"II*\0", b"MM\0*")
"""First bytes of BMP and TIFF files as well."""


class RawBody(NamedTuple):
    """What a body holds.

    Attributes:
        values: images and texts by input.
        tensors: the other inputs.
        rest: the other members of a JSON body.
    """

    values: RawValues
    tensors: Tensors
    rest: dict[str, Any]


def holds_images(content_type: str | None) -> bool:
    """Return whether a body of this type is an image, or a form with images."""
    kind = media_type(content_type) if content_type else ""
    return kind == FORM or kind.startswith("image/")


def begins_as_image(content_type: str | None, body: bytes) -> bool:
    """Return whether a body without a type can only be an image, whatever the module takes."""
    return body.startswith(_UNMISTAKABLE) and is_unstated(content_type)


async def inputs_in(
    request: Request, body: bytes, record: ModuleRecord
) -> tuple[Tensors, dict[str, Any]]:
    """Return the inputs of a body by name, transformed where they are images or texts.

    Returns:
        the tensors, and a JSON body's other members.

    Raises:
        Invalid: an input has no transform, or one of its examples cannot be transformed.
        TooLarge: the body, the images or their decoded pixels.
        UnsupportedMedia: the module does not accept the type.
    """
    content_type = request.headers.get("content-type")
    dtypes = bound_dtypes(record)
    is_image = holds_images(content_type) or begins_as_image(content_type, body)
    if not record.transforms and not is_image:
        return await tensors_in(request, body, record.data_names, dtypes)
    kinds = kinds_of(record)
    is_json = body_type(content_type, body) == JSON and not _is_text(content_type, kinds)
    if is_json and len(body) > LARGEST_JSON_HERE:
        found = await _split_elsewhere(request, body, kinds, dtypes)
    else:
        work = partial(split_body, content_type, body, kinds, dtypes)
        split = await beside_the_loop(len(body), work)
        if split is None:
            return await tensors_in(request, body, record.data_names, dtypes)
        found = split
    raw: RawInputs = request.app.state.raw_inputs
    return await raw.tensors(record, found.values) | found.tensors, found.rest


def split_body(
    content_type: str | None, body: bytes, kinds: Kinds, dtypes: Mapping[str, str]
) -> RawBody | None:
    """Return the contents of a body with images or texts; None if it has only tensors.

    Args:
        kinds: the raw type of each input with a transform.
        dtypes: of plain numbers in JSON, by name.
    """
    stated = media_type(content_type) if content_type else ""
    if stated.startswith("image/") or _shows_an_image(content_type, body, kinds):
        return RawBody({only_input(kinds, "image", "body"): [body]}, {}, {})
    if stated == FORM:
        return RawBody(_of_form(content_type, body, kinds), {}, {})
    if _is_text(content_type, kinds):
        return RawBody({only_input(kinds, "text", "body"): [body]}, {}, {})
    kind = body_type(content_type, body)
    if kind not in MEDIA_TYPES:
        raise UnsupportedMedia(content_type, _taken(kinds))
    if kind != JSON:
        return None
    parsed = load_json(body)
    values = take_raw(parsed, kinds) if isinstance(parsed, dict) else {}
    return RawBody(values, *read_members(parsed, dtypes)) if values else None


def _shows_an_image(content_type: str | None, body: bytes, kinds: Kinds) -> bool:
    """Return whether a body without a type, as ``curl -T`` sends a file, begins like an image."""
    if "image" not in kinds.values() or not is_unstated(content_type):
        return begins_as_image(content_type, body)
    return body.startswith(_BEGINNINGS) or (body[:4] == b"RIFF" and body[8:12] == b"WEBP")


def _is_text(content_type: str | None, kinds: Kinds) -> bool:
    """Return whether a body is plain text, rather than tensors without a stated type."""
    return bool(content_type) and media_type(content_type) == _TEXT and "text" in kinds.values()


def _taken(kinds: Kinds) -> list[str]:
    images = ["image/*", FORM] if "image" in kinds.values() else []
    return [*MEDIA_TYPES, *images, *([_TEXT] if "text" in kinds.values() else [])]


async def _split_elsewhere(
    request: Request, body: bytes, kinds: Kinds, dtypes: Mapping[str, str]
) -> RawBody:
    """Split a large JSON body in another process."""
    work = {"op": "raw", "kinds": dict(kinds), "dtypes": dict(dtypes)}
    decoded = await decoders(request).decode(work, body)
    plain, data = decoded.plain, memoryview(decoded.pieces[0])
    tensors, rest = tensors_of(plain, data)
    values: RawValues = {}
    at = sum(size for *_, size in plain["tensors"])
    for name, sizes in plain["values"]:
        values[name] = []
        for size in sizes:
            values[name].append(bytes(data[at : at + size]))
            at += size
    return RawBody(values, tensors, rest)


def _of_form(content_type: str | None, body: bytes, kinds: Kinds) -> RawValues:
    files: list[tuple[str, FormFile]] = []

    def open_file(part: str, file: str) -> FormFile:
        files.append((part, FormFile()))
        return files[-1][1]

    form = parse_form(content_type, body, open_file)
    values: RawValues = {}
    for name, texts in form.fields.items():
        if kinds.get(name) != "text":
            expected = "files of images, and texts of inputs that take them"
            raise Invalid(name, texts, expected, "curl sends a file by -F data=@cat.jpg")
        values[name] = [text.encode() for text in texts]
    for part, file in files:
        values.setdefault(part, []).append(bytes(file.content))
    if not values:
        raise Invalid("body", "a form without files", "an image or several")
    for name, examples in values.items():
        check_count(examples, name)
    return values
