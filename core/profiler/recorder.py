"""Recording by a running profiler: spans of time, values of counters, and marks.

``profiler.recorder`` is None unless the profiler is recording. Measured code checks only this, so
that a stopped profiler costs nearly nothing.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TypeAlias

from .statistics import Statistics
from .trace_file import Mark, Record, Sample, Span, TraceFile

__all__ = [
    "Profiler",
    "Recorder",
    "Settings",
    "Switches",
    "custom_operator",
    "operator_span",
    "profiler",
    "span",
]

OPERATOR, CUSTOM_OPERATOR = "operator", "Custom Operator"
"""Categories of records of operators, called by scripts and from within custom operators."""

Scope: TypeAlias = AbstractContextManager[None]


@dataclasses.dataclass(frozen=True)
class Switches:
    """What to record, by the arguments of ``set_config``."""

    symbolic: bool = True
    imperative: bool = True
    memory: bool = True
    api: bool = True


@dataclasses.dataclass(frozen=True)
class Settings:
    """The options of ``set_config``, with MXNet's defaults."""

    switches: Switches = Switches()
    filename: str = "profile.json"
    continuous_dump: bool = True
    dump_period: float = 1.0
    aggregate_stats: bool = False


class Recorder:
    """Collects records from all threads, and passes them to statistics and a trace file.

    Attributes:
        switches: what callers should record.
        statistics: of all records since the last reset; brought up to date by ``count``.
    """

    def __init__(self, settings: Settings) -> None:
        self.switches = settings.switches
        self.statistics = Statistics()
        self._settings = settings
        self._file = TraceFile(Path(settings.filename))
        self._records: list[Record] = []
        self._counted = 0
        self._flushed = time.monotonic()
        self._lock = threading.Lock()

    def configure(self, settings: Settings) -> None:
        """Change the settings; records not written yet go to the new file."""
        with self._lock:
            self._count()
            if settings.filename != self._settings.filename:
                self._file = TraceFile(Path(settings.filename))
            self._settings, self.switches = settings, settings.switches
            # Records from before are not counted, even if only the new settings ask for statistics.
            self._counted = len(self._records)

    def add_span(
        self,
        category: str,
        name: str,
        start: int,
        stop: int,
        detail: Mapping[str, str] | None = None,
    ) -> None:
        """Record that something took from ``start`` to ``stop`` (``time.perf_counter_ns``).

        Without the lock, which would cost more than short operators take: appending to a list is
        atomic. A record that another thread appends during ``flush`` may be lost.
        """
        if category == OPERATOR and _inside.name:
            category, name = CUSTOM_OPERATOR, f"{_inside.name}::{name}"
        self._records.append(
            Span(category, name, start, stop, threading.get_native_id(), detail or {})
        )

    def add_sample(self, category: str, name: str, value: float) -> None:
        """Record the current value of a counter."""
        self._records.append(Sample(category, name, time.perf_counter_ns(), value))

    def add_mark(self, category: str, name: str, scope: str) -> None:
        """Record an instant; ``scope`` is the part of the timeline that it marks."""
        thread = threading.get_native_id()
        self._records.append(Mark(category, name, time.perf_counter_ns(), thread, scope))

    @contextmanager
    def span(self, category: str, name: str) -> Iterator[None]:
        """Record the duration of a block."""
        start = time.perf_counter_ns()
        try:
            yield
        finally:
            self.add_span(category, name, start, time.perf_counter_ns())

    @property
    def keeps_statistics(self) -> bool:
        """Whether statistics are collected."""
        return self._settings.aggregate_stats

    def count(self) -> Statistics:
        """Return the statistics of everything recorded so far; empty if none are collected."""
        with self._lock:
            self._count()
        return self.statistics

    def flush(self) -> None:
        """Append the records not written yet to the trace file."""
        with self._lock:
            self._count()
            records, self._records, self._counted = self._records, [], 0
            self._file.append(records)
            self._flushed = time.monotonic()

    def flush_if_due(self) -> None:
        """Flush if the profiler dumps continuously and its period has passed."""
        settings = self._settings
        if settings.continuous_dump and time.monotonic() - self._flushed >= settings.dump_period:
            self.flush()

    def _count(self) -> None:
        if self.keeps_statistics:
            stop = len(self._records)
            self.statistics.add(self._records[self._counted : stop])
            self._counted = stop


class Profiler:
    """The profiler of this process.

    Attributes:
        settings: take effect at the next start.
        recorder: the active recorder; None while the profiler is stopped or paused.
        session: the recorder of the current or last run; None before the first, or after its file
            has been finished.
    """

    def __init__(self) -> None:
        self.settings = Settings()
        self.recorder: Recorder | None = None
        self.session: Recorder | None = None
        self._is_running = False
        self._is_paused = False

    def start(self) -> None:
        """Start recording, continuing a stopped session if there is one; this ends a pause."""
        if self.session is None:
            self.session = Recorder(self.settings)
        else:
            self.session.configure(self.settings)
        self._is_running, self._is_paused = True, False
        self._choose()

    def stop(self) -> None:
        """Stop recording."""
        if self.session is not None:
            self.session.flush_if_due()
        self._is_running = False
        self._choose()

    def pause(self) -> None:
        """Suspend recording until ``resume``."""
        self._is_paused = True
        self._choose()

    def resume(self) -> None:
        """End a pause."""
        self._is_paused = False
        self._choose()

    def finish(self) -> None:
        """Stop recording; the next start begins a new session."""
        self._is_running = False
        self._choose()
        self.session = None

    def _choose(self) -> None:
        self.recorder = self.session if self._is_running and not self._is_paused else None


profiler = Profiler()
"""The profiler of this process."""

_NOTHING = nullcontext()


def span(category: str, name: str) -> Scope:
    """Record the duration of a block if the profiler records calls."""
    recorder = profiler.recorder
    if recorder is None or not recorder.switches.api:
        return _NOTHING
    return recorder.span(category, name)


def operator_span(name: str) -> Scope:
    """Record the duration of a block as an operator, if the profiler records operators."""
    recorder = profiler.recorder
    if recorder is None or not recorder.switches.imperative:
        return _NOTHING
    return recorder.span(OPERATOR, name)


class _Inside(threading.local):
    """The custom operator that this thread is running."""

    name = ""


_inside = _Inside()


@contextmanager
def custom_operator(name: str) -> Iterator[None]:
    """Record a call of a custom operator, and operators called in the block as part of it.

    Args:
        name: its ``op_type``, with ``_backward_`` before it for the backward pass.
    """
    recorder = profiler.recorder
    if recorder is None:
        yield
        return
    outer, _inside.name = _inside.name, name
    try:
        with recorder.span(CUSTOM_OPERATOR, f"{name}::pure_python"):
            yield
    finally:
        _inside.name = outer
