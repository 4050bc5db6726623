"""Texts and images in a JSON body in the place of tensors."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from app.errors.tree import Invalid

__all__ = ["MOST_EXAMPLES", "Kinds", "RawValues", "take_raw"]

MOST_EXAMPLES = 256
"""Images or texts of one input in a request."""

Kinds: TypeAlias = Mapping[str, Literal["image", "text"]]
"""The raw values of inputs with a transform, by name."""
RawValues: TypeAlias = dict[str, list[bytes]]
"""Files of images, and texts in UTF-8, by input."""


def take_raw(body: dict[str, Any], kinds: Kinds) -> RawValues:
    """Remove the values to be transformed from a parsed body, and return them.

    A text is a string, an image ``{"b64": "…"}``, as for TensorFlow Serving. ``text`` beside
    ``inputs`` is for the only input that takes texts.

    Raises:
        Invalid: a value is neither.
    """
    found: RawValues = {}
    inputs = body.get("inputs")
    for name, kind in kinds.items():
        if isinstance(inputs, dict) and _is_raw(inputs.get(name)):
            found[name] = _examples(inputs.pop(name), kind, f"inputs.{name}")
    if "text" in body:
        name = only_input(kinds, "text", "text")
        if name in found or (isinstance(inputs, dict) and name in inputs):
            raise Invalid("text", "a text", f"none beside inputs.{name}")
        found[name] = _examples(body.pop("text"), "text", "text")
    if found and inputs is None:
        body["inputs"] = {}
    return found


def only_input(kinds: Kinds, wanted: str, field: str) -> str:
    """Return the only input that is made from images, or from texts; else raise Invalid for this
    field.

    Args:
        wanted: ``image`` or ``text``.
    """
    names = [name for name, kind in kinds.items() if kind == wanted]
    if len(names) == 1:
        return names[0]
    article = "an" if wanted == "image" else "a"
    raise Invalid(
        field,
        f"{article} {wanted}",
        f"a module with one input that has a transform of {article} {wanted}",
        f"here {', '.join(names) or 'nothing'} has one; set it by PUT …/transforms/{{input}}, or "
        f"send a form, or a JSON body, that names the input of each {wanted}",
    )


def _is_raw(value: Any) -> bool:
    first = value[0] if isinstance(value, list) and value else value
    return isinstance(first, str) or (isinstance(first, dict) and "b64" in first)


def _examples(value: Any, kind: str, field: str) -> list[bytes]:
    if not isinstance(value, list):
        return [_bytes_of(value, kind, field)]
    check_count(value, field)
    return [_bytes_of(one, kind, f"{field}[{n}]") for n, one in enumerate(value)]


def check_count(examples: Sequence[Any], field: str) -> None:
    """Raise Invalid for more, or fewer, values than a request may have."""
    if not 0 < len(examples) <= MOST_EXAMPLES:
        raise Invalid(field, f"{len(examples):,} examples", f"1 to {MOST_EXAMPLES}")


def _bytes_of(value: Any, kind: str, field: str) -> bytes:
    if isinstance(value, dict) and value.keys() == {"b64"}:
        return unpacked(value["b64"], f"{field}.b64")
    if kind == "text" and isinstance(value, str):
        return value.encode()
    text = 'a text, or {"b64": "…"} with its UTF-8'
    raise Invalid(field, value, text if kind == "text" else 'an image as {"b64": "…"}')


def unpacked(value: Any, field: str) -> bytes:
    """Return decoded Base64; raise Invalid."""
    try:
        return base64.b64decode(value, validate=True)
    except (TypeError, ValueError, binascii.Error) as error:
        got = value.decode(errors="replace") if isinstance(value, bytes) else value
        raise Invalid(field, got, f"Base64 as of RFC 4648 ({error})") from None
