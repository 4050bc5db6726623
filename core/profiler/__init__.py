"""The profiler: time spent by operator, kernel and layout reorder (``mx.profiler``).

    mx.profiler.set_config(aggregate_stats=True, filename="trace.json")
    mx.profiler.set_state("run")
    ...
    mx.profiler.set_state("stop")
    print(mx.profiler.dumps())
    mx.profiler.dump()

The file opens in chrome://tracing and https://ui.perfetto.dev.
"""

from __future__ import annotations

from ..compat.profiler_functions import old_functions
from .control import dump, dumps, pause, resume, set_config, set_state
from .marking import Counter, Domain, Event, Frame, Marker, Task

__all__ = [
    "Counter",
    "Domain",
    "Event",
    "Frame",
    "Marker",
    "Task",
    "dump",
    "dump_profile",
    "dumps",
    "pause",
    "profiler_set_config",
    "profiler_set_state",
    "resume",
    "set_config",
    "set_state",
]

profiler_set_config, profiler_set_state, dump_profile = old_functions(set_config, set_state, dump)
