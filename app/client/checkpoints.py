"""Checkpoints: saved, listed, exchanged, loaded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from app.client.modules import ModuleCalls

__all__ = ["CheckpointCalls"]


class CheckpointCalls(ModuleCalls):
    """Calls on the checkpoints of modules. An epoch may be a tag, too: ``"3.120"``."""

    def save_checkpoint(self, name: str, epoch: int) -> dict[str, Any]:
        """Save the present state as the checkpoint of an epoch."""
        return self._json("POST", f"/v1/modules/{name}/checkpoints", json={"epoch": epoch})

    def add_checkpoint(self, name: str, files: Sequence[Path], **fields: Any) -> dict[str, Any]:
        """Add a checkpoint that MXNet wrote, for ``load``.

        Args:
            name: of the module.
            files: the parameters and, if there are some, symbol and optimizer states.
            **fields: ``epoch``, unless the name of the parameters says it.
        """
        return self._send_files(f"/v1/modules/{name}/checkpoints", files, fields)

    def checkpoints(self, name: str, **filters: Any) -> list[dict[str, Any]]:
        """Return the checkpoints, newest first.

        Args:
            name: of the module.
            filters: ``job`` (one, or a list of several), ``created_after``, ``created_before``.
        """
        return self._items(f"/v1/modules/{name}/checkpoints", **filters)

    def checkpoint(self, name: str, epoch: int | str) -> dict[str, Any]:
        """Return what a checkpoint has: files with their sizes and digests, metrics."""
        return self._json("GET", f"/v1/modules/{name}/checkpoints/{epoch}")

    def delete_checkpoint(self, name: str, epoch: int | str) -> None:
        """Delete a checkpoint."""
        self.request("DELETE", f"/v1/modules/{name}/checkpoints/{epoch}")

    def get_checkpoint_file(self, name: str, epoch: int | str, file: str, target: Path) -> None:
        """Fetch a file of a checkpoint, as ``checkpoint`` names it, and write it to a path."""
        self._download(f"/v1/modules/{name}/checkpoints/{epoch}/files/{file}", target)

    def put_checkpoint_file(self, name: str, epoch: int, file: Path) -> dict[str, Any]:
        """Upload a file of a checkpoint that MXNet wrote, for ``load``."""
        return self._upload(f"/v1/modules/{name}/checkpoints/{epoch}/files/{file.name}", file)

    def load(self, name: str, epoch: int | str, **options: bool) -> dict[str, Any]:
        """Load a checkpoint; with ``optimizer_states=True`` these too.

        Other options are ``allow_missing`` and ``allow_extra``.
        """
        return self._json("POST", f"/v1/modules/{name}/load", json={"epoch": epoch, **options})
