"""Records of a profiler, and their file in Chrome's trace format.

The format is described in "Trace Event Format" (Google); chrome://tracing and Perfetto read it.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

__all__ = ["Mark", "Record", "Sample", "Span", "TraceFile"]

_HEAD = b'{\n"displayTimeUnit": "ms",\n"traceEvents": [\n'
_TAIL = b"\n]\n}\n"
_MARK_SCOPES = {"global": "g", "process": "p", "thread": "t", "task": "t", "marker": "t"}


@dataclasses.dataclass(frozen=True, slots=True)
class Span:
    """A duration, in nanoseconds of ``time.perf_counter_ns``."""

    category: str
    name: str
    start: int
    stop: int
    thread: int
    detail: Mapping[str, str]

    def event(self, process: int) -> dict[str, Any]:
        """Return the event for the trace."""
        return {
            "ph": "X",
            "cat": self.category,
            "name": self.name,
            "ts": self.start / 1e3,
            "dur": (self.stop - self.start) / 1e3,
            "pid": process,
            "tid": self.thread,
            "args": dict(self.detail),
        }


@dataclasses.dataclass(frozen=True, slots=True)
class Sample:
    """The value of a counter at a time."""

    category: str
    name: str
    time: int
    value: float

    def event(self, process: int) -> dict[str, Any]:
        """Return the event for the trace."""
        return {
            "ph": "C",
            "cat": self.category,
            "name": self.name,
            "ts": self.time / 1e3,
            "pid": process,
            "args": {self.name: self.value},
        }


@dataclasses.dataclass(frozen=True, slots=True)
class Mark:
    """An instant."""

    category: str
    name: str
    time: int
    thread: int
    scope: str

    def event(self, process: int) -> dict[str, Any]:
        """Return the event for the trace."""
        return {
            "ph": "i",
            "cat": self.category,
            "name": self.name,
            "ts": self.time / 1e3,
            "pid": process,
            "tid": self.thread,
            "s": _MARK_SCOPES[self.scope],
        }


Record: TypeAlias = Span | Sample | Mark


class TraceFile:
    """A trace file that is valid JSON after each ``append``; recreated if it has been removed.

    Args:
        path: replaced by the first ``append``.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._length = 0

    def append(self, records: Iterable[Record]) -> None:
        """Append records to the file.

        Raises:
            OSError: the file cannot be written.
        """
        process = os.getpid()
        events = [record.event(process) for record in records]
        begins = self._length == 0 or not self._path.exists()
        if begins:
            name = {"name": "process_name", "ph": "M", "pid": process, "args": {"name": "modserve"}}
            events.insert(0, name)
        text = b",\n".join(json.dumps(event).encode() for event in events)
        if not text:
            return
        with self._path.open("wb" if begins else "r+b") as file:
            if begins:
                file.write(_HEAD)
            else:
                file.seek(self._length)
                file.write(b",\n")
            file.write(text)
            self._length = file.tell()  # of the events; the next append overwrites the tail
            file.write(_TAIL)
