"""What scripts enter into a profile themselves: tasks, frames, events, counters, marks."""

from __future__ import annotations

import time

from ..errors import UsageError
from .recorder import profiler

__all__ = ["Counter", "Domain", "Event", "Frame", "Marker", "Task"]

_SCOPES = ("global", "process", "thread", "task", "marker")


class Domain:
    """A category, under which tasks, frames, counters and markers are shown together."""

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
    """Something with a beginning and an end, of one thread at a time."""

    def __init__(self, category: str, name: str) -> None:
        self.name = name
        self._category = category
        self._started: int | None = None

    def __str__(self) -> str:
        return self.name

    def start(self) -> None:
        """Let it begin now."""
        self._started = time.perf_counter_ns()

    def stop(self) -> None:
        """Let it end now; it is recorded if the profiler runs.

        Raises:
            UsageError: it has not begun.
        """
        if self._started is None:
            raise UsageError(f"{self.name!r} has not been started; call start() before stop()")
        if profiler.recorder is not None:
            stopped = time.perf_counter_ns()
            profiler.recorder.add_span(self._category, self.name, self._started, stopped)
        self._started = None


class Task(_Duration):
    """A unit of work; all runs of one name add up."""

    def __init__(self, domain: Domain, name: str) -> None:
        super().__init__(domain.name, name)


class Frame(_Duration):
    """One pass of something that repeats."""

    def __init__(self, domain: Domain, name: str) -> None:
        super().__init__(f"{domain.name},frame", name)


class Event(_Duration):
    """A stretch of code, in no domain."""

    def __init__(self, name: str) -> None:
        super().__init__("event", name)


class Counter:
    """A value that changes in time.

    Args:
        domain: where it belongs.
        name: of the counter.
        value: its first value; 0, and not recorded, if none is given.
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
    """An instant to be seen on the timeline."""

    def __init__(self, domain: Domain, name: str) -> None:
        self.name = name
        self.domain = domain

    def __str__(self) -> str:
        return self.name

    def mark(self, scope: str = "process") -> None:
        """Record that it is now.

        Args:
            scope: ``"global"``, ``"process"``, ``"thread"``, ``"task"`` or ``"marker"``: for how
                much of the timeline the instant counts.

        Raises:
            UsageError: another scope.
        """
        if scope not in _SCOPES:
            raise UsageError(f"scope is {scope!r}, expected one of {', '.join(_SCOPES)}")
        if profiler.recorder is not None:
            category = f"{self.domain.name},instant_marker"
            profiler.recorder.add_mark(category, self.name, scope)
