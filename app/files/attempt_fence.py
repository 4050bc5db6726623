"""A fence: only the current attempt of a job may write its module's checkpoints.

    <root>/.attempt.json    {"job": 7, "attempt": 2}; with a null job, no attempt may

The server admits an attempt before it tells the executor to begin, and shuts it out when it takes
the job away. A writer checks the fence under the root's lock at the moment of the rename, so that
an executor that stalled past the end of its lease cannot replace a checkpoint when it resumes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from app.errors.tree import Damaged, Superseded
from app.files.durable_files import write_durably

__all__ = ["FENCE", "Admitted", "admit", "check_admitted", "read_fence", "shut_out"]

FENCE = ".attempt.json"


class Admitted(NamedTuple):
    """The attempt that may write; if the job is None, none may."""

    job: int | None
    attempt: int | None


def admit(root: Path, job: int, attempt: int) -> None:
    """Allow this attempt, and no other, to write; the caller holds the root's lock."""
    _write(root, Admitted(job, attempt))


def shut_out(root: Path, job: int, attempt: int) -> None:
    """If this attempt may write, forbid all writing; the caller holds the root's lock."""
    if read_fence(root) == Admitted(job, attempt):
        _write(root, Admitted(None, None))


def read_fence(root: Path) -> Admitted | None:
    """Return which attempt may write; None if no server has decided yet.

    Raises:
        Damaged: the file cannot be read.
    """
    try:
        content = json.loads((root / FENCE).read_bytes())
        return Admitted(content["job"], content["attempt"])
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError) as error:
        raise Damaged(FENCE, error, "the attempt that may write here") from None


def check_admitted(root: Path, job: int, attempt: int | None) -> None:
    """Raise Superseded unless this attempt may write; the caller holds the root's lock."""
    admitted = read_fence(root)
    if admitted != Admitted(job, attempt):
        now = (
            "none"
            if admitted is None or admitted.job is None
            else f"{admitted[1]} of {admitted[0]}"
        )
        raise Superseded(
            f"attempt {attempt} of job {job} can no longer write checkpoints; the attempt that "
            f"may is {now}"
        )


def _write(root: Path, admitted: Admitted) -> None:
    write_durably(root / FENCE, json.dumps(admitted._asdict()).encode())
