"""Records made by scripts: tasks, frames, events, counters and markers."""

from __future__ import annotations

import time

from ..errors import UsageError
from .recorder import profiler

__all__ = ["Counter", "Domain", "Event", "Frame", "Marker", "Task"]

_SCOPES = ("global", "process", "thread", "task", "marker")


class Domain:
    """A category that groups tasks, frames, counters and markers."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return self.name

    def new_task(self, name: str) -> Task:
        """Return a task of this domain."""
        return Task(self, name)

    def new_frame(self, name: str) -> Frame:
        """Return a frame of this domain."""
        return Frame(self, name)

    def new_counter(self, name: str, value: float | None = None) -> Counter:
        """Return a counter of this domain, set to a value if one is given."""
        return Counter(self, name, value)

    def new_marker(self, name: str) -> Marker:
        """Return a marker of this domain."""
        return Marker(self, name)


class _Duration:
    """A record with a start and an end; only one thread at a time may use it."""

    def __init__(self, category: str, name: str) -> None:
        self.name = name
        self._category = category
        self._started: int | None = None

    def __str__(self) -> str:
        return self.name

    def start(self) -> None:
        """Start it now."""
        self._started = time.perf_counter_ns()

    def stop(self) -> None:
        """Stop it now; it is recorded if the profiler runs.

        Raises:
            UsageError: it has not been started.
        """
        if self._started is None:
            raise UsageError(f"{self.name!r} has not been started; call start() before stop()")
        if profiler.recorder is not None:
            stopped = time.perf_counter_ns()
            profiler.recorder.add_span(self._category, self.name, self._started, stopped)
        self._started = None


class Task(_Duration):
    """A unit of work; the runs of a name are totalled."""

    def __init__(self, domain: Domain, name: str) -> None:
        super().__init__(domain.name, name)


class Frame(_Duration):
    """One iteration of a repeated process."""

    def __init__(self, domain: Domain, name: str) -> None:
        super().__init__(f"{domain.name},frame", name)


class Event(_Duration):
    """A section of code, without a domain."""

    def __init__(self, name: str) -> None:
        super().__init__("event", name)


class Counter:
    """A value that changes over time.

    Args:
        domain: its domain.
        name: its name.
        value: its initial value; if omitted it is 0 and not recorded.
    """

    def __init__(self, domain: Domain, name: str, value: float | None = None) -> None:
        self.name = name
        self._category = domain.name
        self._value: float = 0
        if value is not None:
            self.set_value(value)

    def __str__(self) -> str:
        return self.name

    def set_value(self, value: float) -> None:
        """Set the counter."""
        self._value = value
        if profiler.recorder is not None:
            profiler.recorder.add_sample(self._category, self.name, value)

    def increment(self, delta: float = 1) -> None:
        """Add to the counter."""
        self.set_value(self._value + delta)

    def decrement(self, delta: float = 1) -> None:
        """Subtract from the counter."""
        self.set_value(self._value - delta)

    def __iadd__(self, delta: float) -> Counter:
        self.increment(delta)
        return self

    def __isub__(self, delta: float) -> Counter:
        self.decrement(delta)
        return self


class Marker:
    """An instant on the timeline."""

    def __init__(self, domain: Domain, name: str) -> None:
        self.name = name
        self.domain = domain

    def __str__(self) -> str:
        return self.name

    def mark(self, scope: str = "process") -> None:
        """Record the current instant.

        Args:
            scope: ``"global"``, ``"process"``, ``"thread"``, ``"task"`` or ``"marker"``: the part
                of the timeline that the instant marks.

        Raises:
            UsageError: the scope is unknown.
        """
        if scope not in _SCOPES:
            raise UsageError(f"scope is {scope!r}, expected one of {', '.join(_SCOPES)}")
        if profiler.recorder is not None:
            category = f"{self.domain.name},instant_marker"
            profiler.recorder.add_mark(category, self.name, scope)
