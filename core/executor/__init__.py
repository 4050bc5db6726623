"""From a symbol's graph to a running plan; ``compile.compile_graph`` lists all passes in order."""

from __future__ import annotations

from .binding import bind, simple_bind
from .executor import Executor
from .flat import FlatBuffer
from .timing import StepTime

__all__ = ["Executor", "FlatBuffer", "StepTime", "bind", "simple_bind"]
