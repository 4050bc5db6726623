"""Modules made from archives of mxnet-model-server and SageMaker that clients upload."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path

from fastapi import Request

from app.api.bodies import canonical_text
from app.api.forms import closed_beside_the_loop
from app.api.v1.module_forms import ArchiveFields
from app.domain.module import ModuleRecord
from app.domain.names import check_name
from app.errors.tree import Invalid
from app.services.modules.archived_models import unpack_model
from app.services.services import Services

__all__ = ["create_from_archive"]


async def create_from_archive(
    request: Request,
    services: Services,
    archive: Path,
    fields: ArchiveFields,
    idempotency_key: str | None,
) -> ModuleRecord:
    """Make a module from an archive, bound and with its parameters loaded; on failure leave
    nothing.

    Raises:
        Invalid: it is not such an archive, or its contents are inconsistent.
        TooLarge: its contents.
    """
    executor = fields.executor or services.executors.names[0]
    services.executors.check(executor, "executor")
    async with closed_beside_the_loop(services.checkpoints.begin_whole()) as incoming:
        files = await asyncio.to_thread(unpack_model, archive, incoming)
        assert files.archive is not None
        name = fields.name or _name_of(files.archive.model)
        text = await asyncio.to_thread(files.symbol_path.read_bytes)
        files = dataclasses.replace(files, symbol=await canonical_text(request, text, "symbol"))
        record = await services.maker.inspect(files, executor)
        record = record.evolve(name=check_name(name))
        return await services.maker.make(record, files.epoch, incoming, idempotency_key)


def _name_of(model: str) -> str:
    if not model:
        expected = "the module's name beside the archive, which has none: -F name=NAME"
        raise Invalid("name", "nothing", expected)
    try:
        return check_name(model)
    except Invalid as error:
        expected = error.errors[0].expected
        raise Invalid("name", model, expected, "send a name beside the archive") from None
