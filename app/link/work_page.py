"""What an executor is doing, on a page of memory that outlives its process.

The API process makes the page and hands it to the executor. The kernel's killer leaves no time for
a last message, but what stood on the page then still stands there: whose call it was is known.
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
"""Of one piece of work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningWork:
    """A call, or a turn of a job.

    Attributes:
        call_id: the call, 0 for a job.
        method: of the call.
        module: the module that it is on, empty if it is on none.
        job_id: the job, 0 for a call.
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
    """A page that one process writes and another reads when the first is dead.

    Attributes:
        fd: the file descriptor of the page.
    """

    def __init__(self, fd: int) -> None:
        """Map a page of another process."""
        self.fd = fd
        self._memory = mmap.mmap(fd, _BYTES)

    @classmethod
    def create(cls) -> Self:
        """Make an empty page, on which nothing runs."""
        fd = os.memfd_create("modserve-work")
        os.truncate(fd, _BYTES)
        return cls(fd)

    def write(self, works: Iterable[RunningWork]) -> None:
        """Note all that runs; what the page has no room for is left out."""
        text = b""
        for work in works:
            fields = (str(work.call_id), str(work.job_id), work.method, work.module)
            record = "\n".join(fields).encode() + _END
            if len(text) + len(record) <= _BYTES - _HEAD:
                text += record
        self.clear()  # a half-written page says nothing
        self._memory[_HEAD : _HEAD + len(text)] = text
        self._memory[:_HEAD] = len(text).to_bytes(_HEAD, "little")

    def clear(self) -> None:
        """Note that nothing runs."""
        self._memory[:_HEAD] = bytes(_HEAD)

    def read(self) -> tuple[RunningWork, ...]:
        """Return what runs, or ran when the writer died."""
        length = int.from_bytes(self._memory[:_HEAD], "little")
        records = self._memory[_HEAD : _HEAD + length].split(_END)[:-1]
        return tuple(_work_of(record.decode(errors="replace")) for record in records)

    def close(self) -> None:
        """Release the page."""
        self._memory.close()
        os.close(self.fd)


def _work_of(text: str) -> RunningWork:
    call_id, job_id, method, module = text.split("\n", 3)
    return RunningWork(call_id=int(call_id), job_id=int(job_id), method=method, module=module)
