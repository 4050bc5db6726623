"""Forms that carry the files of a checkpoint, beside the fields of a JSON body."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, ClassVar

from fastapi import Request
from pydantic import ConfigDict

from app.api.bodies import announced_bytes, canonical_text, check_object
from app.api.forms import FORM, Form, read_form
from app.api.v1.requests import ModuleBody
from app.domain.checkpoint import CheckpointTag
from app.domain.codec import STRICT_FIELDS, from_plain
from app.domain.model_names import PARAMS_ALONE
from app.domain.module import SINGLE
from app.errors.tree import Damaged, Invalid, Malformed
from app.services.modules.incoming_checkpoint import IncomingCheckpoint
from app.tensors.json_bodies import parse_json

__all__ = [
    "ArchiveFields",
    "archive_fields",
    "checkpoint_form",
    "module_form",
    "read_any_form",
    "read_checkpoint_form",
    "read_module_form",
]

_LISTS = (
    "outputs",
    "data_names",
    "label_names",
    "state_names",
    "fixed_param_names",
    "fixed_param_patterns",
    "excluded_param_patterns",
    "contexts",
)
_TEXTS = ("name", "kind", "executor", "default_bucket_key")
_JSON_TEXTS = ("buckets", "compression_params")
_FLAGS = {"true": True, "false": False}

_FILE = {"type": "string", "format": "binary"}
_FILES = {"params": _FILE, "states": _FILE}
_SAID_BY_NAME = "Unless the name of `params` says it"
_EPOCH = {"epoch": {"type": "string", "description": f"{_SAID_BY_NAME}."}}
_FIRST_EPOCH = {"epoch": {"type": "string", "description": f"{_SAID_BY_NAME}; else 0."}}


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveFields:
    """Fields of a form beside the archive from which a module is made.

    Attributes:
        name: of the module; None takes that in the archive.
        executor: its device; None takes the first one.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS

    name: str | None = None
    executor: str | None = None


async def read_any_form(request: Request, files: IncomingCheckpoint) -> Form:
    """Read a form that creates a module, after its files were received."""
    return await _read(request, files)


def archive_fields(form: Form) -> ArchiveFields:
    """Return the fields beside an archive; raise Invalid for those that only other forms have."""
    plain = {name: _value(name, values) for name, values in form.fields.items()}
    return from_plain(ArchiveFields, plain)


async def read_module_form(
    request: Request, form: Form, files: IncomingCheckpoint
) -> tuple[ModuleBody, CheckpointTag | None, bool]:
    """Return the module that a form describes.

    Returns:
        the module; the tag of its checkpoint, None if there is no file of parameters; and whether
        unknown parameters are skipped, which is the default.
    """
    epoch, allow_extra = form.pop("epoch"), _flag(form, "allow_extra", default="true")
    plain = {name: _value(name, values) for name, values in form.fields.items()}
    body = await check_object(request, ModuleBody, plain)
    texts = await _symbols(request, files)
    if files.has_params and not texts:
        expected = "the symbol that belongs to the parameters, a file like net-symbol.json"
        raise Invalid("symbol", "nothing", expected, PARAMS_ALONE)
    body = body.with_texts(texts)
    return body, files.tag(epoch, default=0) if files.has_params else None, allow_extra


async def read_checkpoint_form(request: Request, files: IncomingCheckpoint) -> CheckpointTag:
    """Read a form that adds a checkpoint to a module; return the tag."""
    form = await _read(request, files)
    epoch = form.pop("epoch")
    if form.fields:
        name, values = next(iter(form.fields.items()))
        raise Invalid(name, values, "no form field other than 'epoch'")
    if files.has_archive:
        raise Invalid("archive", "a file", "none; POST /v1/modules makes a module of one")
    if not files.has_params:
        raise Invalid("params", "nothing", "a file of parameters")
    return files.tag(epoch)


def module_form() -> dict[str, Any]:
    """Return the OpenAPI content of a form that creates a module."""
    lists = {name: {"type": "array", "items": {"type": "string"}} for name in _LISTS}
    fields = {
        **{name: {"type": "string"} for name in _TEXTS},
        **lists,
        **{name: {"type": "string", "description": "As JSON."} for name in _JSON_TEXTS},
        **_FIRST_EPOCH,
        "allow_extra": {"type": "string", "enum": list(_FLAGS), "default": "true"},
        "symbol": _FILE,
        **_FILES,
        "archive": _FILE
        | {
            "description": "A .mar or .model archive of mxnet-model-server, or a model.tar.gz of "
            "SageMaker; besides it only a name."
        },
    }
    content = _content(fields, [])
    content[FORM]["schema"]["patternProperties"] = {r"^symbols\[.+\]$": _FILE}
    return content


def checkpoint_form() -> dict[str, Any]:
    """Return the OpenAPI content of a form that adds a checkpoint."""
    return _content({**_EPOCH, "symbol": _FILE, **_FILES}, ["params"])


def _content(fields: dict[str, Any], required: list[str]) -> dict[str, Any]:
    schema = {
        "type": "object",
        "required": required,
        "additionalProperties": False,
        "properties": fields,
    }
    return {FORM: {"schema": schema}}


async def _symbols(request: Request, files: IncomingCheckpoint) -> dict[str, str]:
    """Return the canonical text of the symbols by bucket key."""
    lone = await asyncio.to_thread(files.symbol)
    by_key = await asyncio.to_thread(files.symbols)
    if lone is not None and by_key:
        raise Invalid("symbol", "both", "either symbol, or symbols by bucket key")
    if lone is not None:
        return {SINGLE: await canonical_text(request, lone, "symbol")}
    return {
        key: await canonical_text(request, text, f"symbols[{key}]") for key, text in by_key.items()
    }


async def _read(request: Request, files: IncomingCheckpoint) -> Form:
    files.expect(announced_bytes(request))
    return await read_form(request, files.open)


def _value(name: str, values: list[str]) -> Any:
    """Return what a JSON body would have instead of a field's values."""
    if name in _LISTS:
        return [value for value in values if value]
    if len(values) > 1:
        raise Invalid(name, values, "one value")
    return _parse(name, values[0].encode()) if name in _JSON_TEXTS else values[0]


def _flag(form: Form, name: str, default: str) -> bool:
    text = form.pop(name) or default
    if text not in _FLAGS:
        raise Invalid(name, text, "true or false")
    return _FLAGS[text]


def _parse(field: str, text: bytes) -> Any:
    try:
        return parse_json(text)
    except Malformed as error:
        raise Damaged(field, error, "JSON") from None
