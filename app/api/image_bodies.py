"""Predictions asked for with images: one as the body, or several as the files of a form."""

from __future__ import annotations

import asyncio
import dataclasses

from fastapi import Request

from app.api.bodies import decoders, read_body
from app.api.decoding import tensors_of
from app.api.forms import FORM, parse_form
from app.domain.codec import to_plain
from app.domain.module import ModuleRecord, require
from app.domain.transforms import missing_size
from app.errors import Invalid
from app.settings import Settings
from app.tensors.codec import Tensors, media_type

__all__ = ["holds_images", "read_images"]

_MOST_IMAGES = 256


def holds_images(content_type: str | None) -> bool:
    """Tell whether a body of such a type is an image, or a form with images."""
    kind = media_type(content_type) if content_type else ""
    return kind == FORM or kind.startswith("image/")


async def read_images(request: Request, record: ModuleRecord) -> Tensors:
    """Return the inputs of a body with images, decoded and transformed in another process.

    Raises:
        Invalid: an input has no transform, or images of one input come out in different shapes.
        TooLarge: the body, the images or what they would be decoded to.
    """
    require(record, "predict")
    body = await read_body(request)
    content_type = request.headers.get("content-type")
    if media_type(content_type or "") == FORM:
        images = await asyncio.to_thread(_of_form, content_type, body)
    else:
        images = {_only_input(record): [body]}
    tensors: Tensors = {}
    for name, encoded in images.items():
        tensors |= await _transformed(request, record, name, encoded)
    return tensors


def _of_form(content_type: str | None, body: bytes) -> dict[str, list[bytes]]:
    files: list[tuple[str, _Image]] = []

    def open_file(part: str, file: str) -> _Image:
        files.append((part, _Image()))
        return files[-1][1]

    form = parse_form(content_type, body, open_file)
    if form.fields:
        name = next(iter(form.fields))
        raise Invalid(name, form.fields[name], "files alone; curl sends one by -F data=@cat.jpg")
    images: dict[str, list[bytes]] = {}
    for part, file in files:
        images.setdefault(part, []).append(bytes(file.content))
    if not images:
        raise Invalid("body", "a form without files", "an image or several")
    if len(files) > _MOST_IMAGES:
        raise Invalid("body", f"{len(files)} images", f"at most {_MOST_IMAGES}")
    return images


class _Image:
    """A file of a form, in memory; the body it is from was limited."""

    def __init__(self) -> None:
        self.content = bytearray()

    def write(self, data: bytes) -> None:
        self.content += data


def _only_input(record: ModuleRecord) -> str:
    names = list(record.transforms) or ["nothing"]
    if len(record.transforms) != 1:
        raise Invalid(
            "body",
            "an image",
            "a module with one input that has a transform",
            f"here {', '.join(names)} has one; set it by PUT …/transforms/{{input}}, or send a "
            "form with a file for each input",
        )
    return names[0]


async def _transformed(
    request: Request, record: ModuleRecord, name: str, images: list[bytes]
) -> Tensors:
    settings: Settings = request.app.state.settings
    transform = record.transforms.get(name)
    if transform is None:
        known = ", ".join(record.transforms) or "none has one"
        raise Invalid(name, "an image", f"an input that has a transform: {known}")
    assert record.bind is not None
    bound = next(one for one in record.bind.data_shapes if one.name == name)
    transform = dataclasses.replace(transform, size=missing_size(transform, name, bound.shape))
    work = {
        "op": "images",
        "name": name,
        "transform": to_plain(transform),
        "sizes": [len(one) for one in images],
        "most_pixels": settings.max_image_pixels,
    }
    decoded = await decoders(request).decode(work, b"".join(images))
    tensors, _ = tensors_of(decoded.plain, decoded.pieces[0])
    return tensors
