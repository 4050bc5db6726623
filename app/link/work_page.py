"""A page of shared memory that says what an executor is doing, and outlives its process.

The API process creates the page and passes it to the executor. A process killed by the OOM killer
cannot send a last message, but the page still says which call it was running.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

__all__ = ["RunningWork", "WorkPage"]

_BYTES = mmap.PAGESIZE
_HEAD = 4
_END = b"\0"
"""Ends an entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningWork:
    """A call, or a turn of a job.

    Attributes:
        call_id: the call; 0 for a job.
        method: method of the call.
        module: module of the call or job; empty if there is none.
        job_id: the job; 0 for a call.
    """

    call_id: int = 0
    method: str = ""
    module: str = ""
    job_id: int = 0

    def __str__(self) -> str:
        if self.job_id:
            return f"job {self.job_id} on module {self.module!r}"
        return f"{self.method} of module {self.module!r}" if self.module else self.method


class WorkPage:
    """A page that one process writes and another one reads, even after the first has died.

    Attributes:
        fd: the file descriptor of the page.
    """

    def __init__(self, fd: int) -> None:
        """Map a page of another process."""
        self.fd = fd
        self._memory = mmap.mmap(fd, _BYTES)

    @classmethod
    def create(cls) -> Self:
        """Create an empty page."""
        fd = os.memfd_create("modserve-work")
        os.truncate(fd, _BYTES)
        return cls(fd)

    def write(self, works: Iterable[RunningWork]) -> None:
        """Record everything that is running, as far as the page has room."""
        text = b""
        for work in works:
            fields = (str(work.call_id), str(work.job_id), work.method, work.module)
            record = "\n".join(fields).encode() + _END
            if len(text) + len(record) <= _BYTES - _HEAD:
                text += record
        # The process may be killed between any two of these lines: with the length set last, a
        # half-written page reads as empty.
        self.clear()
        self._memory[_HEAD : _HEAD + len(text)] = text
        self._memory[:_HEAD] = len(text).to_bytes(_HEAD, "little")

    def clear(self) -> None:
        """Record that nothing is running."""
        self._memory[:_HEAD] = bytes(_HEAD)

    def read(self) -> tuple[RunningWork, ...]:
        """Return what is running, or was running when the writer died."""
        length = int.from_bytes(self._memory[:_HEAD], "little")
        records = self._memory[_HEAD : _HEAD + length].split(_END)[:-1]
        works = (_work_of(record.decode(errors="replace")) for record in records)
        return tuple(work for work in works if work is not None)

    def close(self) -> None:
        """Release the page."""
        self._memory.close()
        os.close(self.fd)


def _work_of(text: str) -> RunningWork | None:
    """Return what a record says; None for one that the writer, if it still lives, is replacing."""
    try:
        # Only the module may contain newlines, so it comes last.
        call_id, job_id, method, module = text.split("\n", 3)
        return RunningWork(call_id=int(call_id), job_id=int(job_id), method=method, module=module)
    except ValueError:
        return None
