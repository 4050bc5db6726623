"""Exports of checkpoints to other file formats, made on request."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from app.domain.checkpoint import CheckpointTag
from app.domain.module import ModuleRecord
from app.domain.onnx_request import OnnxRequest, onnx_inputs
from app.files.durable_files import make_directory, tell_full_disk
from app.services.modules.checkpoints import CheckpointService

__all__ = ["Exported", "export_onnx"]

Exported = tuple[BinaryIO, list[str]]


@tell_full_disk()
def export_onnx(
    checkpoints: CheckpointService,
    record: ModuleRecord,
    tag: CheckpointTag,
    make: Callable[[OnnxRequest, Callable[[bytes], object]], list[str]],
) -> Exported:
    """Export a checkpoint to ONNX; return the open file, and notes about the export. It blocks.

    Args:
        make: writes the model block by block, and returns the notes.

    Raises:
        NotFound, Damaged: the checkpoint does not exist, or was changed since it was written.
        Conflict: the module is not bound.
        Invalid: ONNX cannot express the model.
    """
    inputs = onnx_inputs(record)
    names = checkpoints.get(record.name, tag).files
    own = next((name for name in names if name.endswith("-symbol.json")), None)
    text = record.symbols[record.default_bucket_key]
    if own is not None:
        with checkpoints.open_file(record.name, tag, own) as file:
            text = file.read().decode()
    params = next(name for name in names if name.endswith(".params"))
    with checkpoints.open_file(record.name, tag, params) as file:
        request = OnnxRequest(
            symbol=json.loads(text),
            params=f"/proc/{os.getpid()}/fd/{file.fileno()}",  # works even if it is deleted
            inputs=inputs,
            state_names=record.state_names,
        )
        return _written(checkpoints.temporary_folder, lambda write: make(request, write))


def _written(folder: Path, make: Callable[[Callable[[bytes], object]], list[str]]) -> Exported:
    make_directory(folder, parents=True)
    target = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - the answer closes it
    try:
        notes = make(target.write)
        target.flush()
        target.seek(0)
    except BaseException:
        target.close()
        raise
    return target, notes
