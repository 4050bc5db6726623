"""From a symbol's graph to a running plan. The files' order is the order of compilation:
trace, gradient, rewrite, layout, memory, lower; verify checks in between.
"""

from __future__ import annotations

from core.executor.bind import bind, simple_bind
from core.executor.executor import Executor
from core.executor.flat import FlatBuffer

__all__ = ["Executor", "FlatBuffer", "bind", "simple_bind"]
