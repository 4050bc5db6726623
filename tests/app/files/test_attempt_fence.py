"""An attempt presumed dead replaces no checkpoint when it wakes up."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.domain.checkpoint import CheckpointTag
from app.errors.tree import Damaged, Superseded, Unavailable
from app.files.attempt_fence import FENCE
from app.files.checkpoint_files import (
    admit_attempt,
    list_tags,
    read_manifest,
    shut_out_attempt,
    write_checkpoint,
)
from app.files.durable_files import locked

TAG = CheckpointTag(1)


def write(root: Path, job_id: int, attempt: int, content: bytes = b"w") -> None:
    with write_checkpoint(root, TAG, module="a", job_id=job_id, attempt=attempt) as writer:
        (writer.directory / "a-0001.params").write_bytes(content)


def test_only_the_admitted_attempt_writes(tmp_path: Path) -> None:
    with pytest.raises(Superseded, match="the attempt that may is none"):
        write(tmp_path, 1, 1)
    admit_attempt(tmp_path, 1, 1)
    write(tmp_path, 1, 1)
    for job_id, attempt in ((1, 2), (2, 1)):
        with pytest.raises(Superseded, match="the attempt that may is 1 of 1"):
            write(tmp_path, job_id, attempt)
    with write_checkpoint(tmp_path, CheckpointTag(2), module="a"):
        pass  # a call, not a job's attempt
    assert list_tags(tmp_path) == [TAG, (2, 0)]


def test_an_attempt_that_sleeps_while_writing_replaces_nothing(tmp_path: Path) -> None:
    admit_attempt(tmp_path, 1, 1)
    writing = write_checkpoint(tmp_path, TAG, module="a", job_id=1, attempt=1)
    zombie = writing.__enter__()
    (zombie.directory / "a-0001.params").write_bytes(b"of a zombie")
    admit_attempt(tmp_path, 1, 2)
    write(tmp_path, 1, 2, b"of the living")
    with pytest.raises(Superseded, match="attempt 1 of job 1 can no longer write checkpoints"):
        writing.__exit__(None, None, None)
    assert read_manifest(tmp_path / "1").attempt == 2
    assert (tmp_path / "1" / "a-0001.params").read_bytes() == b"of the living"
    assert {path.name for path in tmp_path.iterdir()} == {"1", FENCE}


def test_an_attempt_presumed_dead_cannot_write_even_before_its_successor(
    tmp_path: Path,
) -> None:
    admit_attempt(tmp_path, 1, 1)
    shut_out_attempt(tmp_path, 1, 2)  # has no effect: another attempt is admitted
    write(tmp_path, 1, 1)
    shut_out_attempt(tmp_path, 1, 1)
    with pytest.raises(Superseded):
        write(tmp_path, 1, 1)


def test_a_process_stopped_while_writing_blocks_no_one(tmp_path: Path) -> None:
    admit_attempt(tmp_path, 1, 1)
    with locked(tmp_path), pytest.raises(Unavailable, match="makes no progress"):
        shut_out_attempt(tmp_path, 1, 1)


def test_a_zombie_does_not_bring_back_a_deleted_module(tmp_path: Path) -> None:
    root = tmp_path / "modules" / "a" / "checkpoints"
    with pytest.raises(FileNotFoundError):
        write(root, 1, 1)
    assert not list(tmp_path.iterdir())


def test_a_damaged_fence_refuses_all_writes(tmp_path: Path) -> None:
    admit_attempt(tmp_path, 1, 1)
    (tmp_path / FENCE).write_bytes(b"{")
    with pytest.raises(Damaged, match="attempt"):
        write(tmp_path, 1, 1)
    admit_attempt(tmp_path, 1, 2)
    write(tmp_path, 1, 2)
