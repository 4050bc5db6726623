"""Calls on checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from app.client.bodies import File, FilePath, Json, Progress, checkpoint_form
from app.client.follow import Download, NotedDownload
from app.client.methods import method
from app.client.module_results import CheckpointView, ModuleView
from app.client.request import AsJson, Pages, Request, at, nothing

__all__ = ["CheckpointCalls"]


class CheckpointCalls:
    """Calls on the checkpoints of modules. An epoch may also be a tag such as ``"3.120"``."""

    @method
    def save_checkpoint(self, name: str, epoch: int) -> Request[CheckpointView]:
        """Save the module's current state as the checkpoint of an epoch."""
        path, body = at("modules", name, "checkpoints"), Json({"epoch": epoch})
        return Request("POST", path, AsJson(CheckpointView), body=body)

    @method
    def add_checkpoint(
        self,
        /,
        name: str,
        files: Sequence[FilePath],
        *,
        progress: Progress | None = None,
        **fields: Any,
    ) -> Request[CheckpointView]:
        """Upload a checkpoint that MXNet wrote, so that ``load`` can use it.

        Args:
            name: of the module.
            files: the parameters and optionally the symbol and the optimizer's states.
            progress: called with the bytes sent so far, and the total.
            **fields: ``epoch``, unless the name of the parameters' file has it.
        """
        path, body = at("modules", name, "checkpoints"), checkpoint_form(files, fields)
        return Request("POST", path, AsJson(CheckpointView), body=body, progress=progress)

    @method
    def checkpoints(self, /, name: str, **filters: Any) -> Pages[CheckpointView]:
        """Return a module's checkpoints, newest first.

        Args:
            name: of the module.
            filters: ``job`` (one or a list), ``created_after``, ``created_before``.
        """
        return Pages(at("modules", name, "checkpoints"), CheckpointView, filters)

    @method
    def checkpoint(self, name: str, epoch: int | str) -> Request[CheckpointView]:
        """Return a checkpoint's files with their sizes and digests, and its metrics."""
        return Request("GET", _of(name, epoch), AsJson(CheckpointView))

    @method
    def delete_checkpoint(self, name: str, epoch: int | str) -> Request[None]:
        """Delete a checkpoint."""
        return Request("DELETE", _of(name, epoch), nothing)

    @method
    def get_checkpoint_file(
        self,
        name: str,
        epoch: int | str,
        file: str,
        target: FilePath,
        *,
        progress: Progress | None = None,
    ) -> Download:
        """Download a file of a checkpoint, as named by ``checkpoint``, to a path."""
        return Download(_of(name, epoch, "files", file), Path(target), progress)

    @method
    def get_onnx(
        self, name: str, epoch: int | str, target: FilePath, *, progress: Progress | None = None
    ) -> NotedDownload:
        """Download a checkpoint as an ONNX model to a path.

        Returns:
            what is not as in the module, such as outputs that need a label.
        """
        return NotedDownload(Download(_of(name, epoch, "onnx"), Path(target), progress))

    @method
    def put_checkpoint_file(
        self, name: str, epoch: int, file: FilePath, *, progress: Progress | None = None
    ) -> Request[CheckpointView]:
        """Upload one file of a checkpoint that MXNet wrote, so that ``load`` can use it."""
        file = Path(file)
        path = _of(name, epoch, "files", file.name)
        return Request("PUT", path, AsJson(CheckpointView), body=File(file), progress=progress)

    @method
    def load(self, /, name: str, epoch: int | str, **options: bool) -> Request[ModuleView]:
        """Load a checkpoint; ``optimizer_states=True`` loads the optimizer's states too.

        Other options are ``allow_missing`` and ``allow_extra``.
        """
        path, body = at("modules", name, "load"), Json({"epoch": epoch, **options})
        return Request("POST", path, AsJson(ModuleView), body=body)


def _of(name: str, epoch: int | str, *parts: str) -> str:
    return at("modules", name, "checkpoints", epoch, *parts)
