"""Which attempt of a job may write a module's checkpoints: a fence against those thought dead.

    <root>/.attempt.json        {"job": 7, "attempt": 2}; job null: none may

A server lets an attempt in before its executor is told to begin, and shuts it out when it takes the
job away. Whoever writes looks here under the root's lock, at the moment of the rename: an executor
that slept past its lease and wakes up replaces nothing.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from app.errors import Damaged, Superseded
from app.files.durable_files import write_durably

__all__ = ["FENCE", "Admitted", "admit", "check_admitted", "read_fence", "shut_out"]

FENCE = ".attempt.json"


class Admitted(NamedTuple):
    """The attempt that may write; without a job, none."""

    job: int | None
    attempt: int | None


def admit(root: Path, job: int, attempt: int) -> None:
    """Allow one attempt, and no other, to write; the caller holds the root's lock."""
    _write(root, Admitted(job, attempt))


def shut_out(root: Path, job: int, attempt: int) -> None:
    """Forbid all writing if this attempt was allowed to; the caller holds the root's lock."""
    if read_fence(root) == Admitted(job, attempt):
        _write(root, Admitted(None, None))


def read_fence(root: Path) -> Admitted | None:
    """Return who may write; None if no server has said it yet.

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
    """Raise Superseded unless this attempt may write; the caller has the root's lock."""
    admitted = read_fence(root)
    if admitted != Admitted(job, attempt):
        now = (
            "none"
            if admitted is None or admitted.job is None
            else f"{admitted[1]} of {admitted[0]}"
        )
        raise Superseded(
            f"attempt {attempt} of job {job} may write no checkpoint any more; the attempt that "
            f"may is {now}"
        )


def _write(root: Path, admitted: Admitted) -> None:
    write_durably(root / FENCE, json.dumps(admitted._asdict()).encode())
