"""Summary statistics of parameters; those of checkpoints, which do not change, are cached."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from pathlib import Path

from app.domain.checkpoint import CheckpointTag
from app.domain.versions import LIVE
from app.link import calls
from app.link.packed_json import unpack_json
from app.services.modules.checkpoints import CheckpointService
from app.services.modules.module_access import ModuleAccess

__all__ = ["ParamSummaries"]

_MOST_KEPT = 16

_Key = tuple[str, str | None, int]


class ParamSummaries:
    """Asks executors for summaries, one request at a time."""

    def __init__(self, access: ModuleAccess, checkpoints: CheckpointService) -> None:
        self._access = access
        self._checkpoints = checkpoints
        self._kept: OrderedDict[_Key, bytes] = OrderedDict()
        self._turn = asyncio.Lock()

    async def summarize(self, name: str, checkpoint: str, against: str | None, bins: int) -> bytes:
        """Return the summary of a module's parameters in JSON; see ``SummarizeParams``.

        Args:
            name: of the module.
            checkpoint: ``live``, or the tag of a checkpoint.
            against: tag of another one, to compare with.
            bins: number of bins of the histograms.

        Raises:
            Invalid: a tag is malformed.
            NotFound, Damaged: the module or a checkpoint does not exist, or is damaged.
            WrongStage: the module has no live parameters yet.
        """
        record = await self._access.record(name)
        own = None if checkpoint == LIVE else await self._place(record.name, checkpoint)
        other = None if against is None else await self._place(record.name, against, "against")
        call = calls.SummarizeParams(
            module=record.name,
            directory=None if own is None else str(own[0]),
            against=None if other is None else str(other[0]),
            bins=bins,
        )
        if own is None:
            async with self._turn:
                reply = await self._access.ask_at(name, "get_params", call)
                reply.release()
                return await asyncio.to_thread(unpack_json, reply.result)
        key = own[1], None if other is None else other[1], bins
        async with self._turn:
            if key not in self._kept:
                reply = await self._access.ask(record, call)
                reply.release()
                self._kept[key] = await asyncio.to_thread(unpack_json, reply.result)
                if len(self._kept) > _MOST_KEPT:
                    self._kept.popitem(last=False)
            self._kept.move_to_end(key)
            return self._kept[key]

    async def _place(self, name: str, text: str, field: str = "checkpoint") -> tuple[Path, str]:
        """Return a checkpoint's directory, and its ETag, on which alone its summary depends."""
        tag = CheckpointTag.parse(text, field)
        manifest = await asyncio.to_thread(self._checkpoints.get, name, tag)
        return self._checkpoints.directory(name, tag), manifest.etag
