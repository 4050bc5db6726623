"""From a symbol's graph to a running plan. The files' order is the order of compilation:
trace, roll, gradient, rewrite, layout, memory, lower; verify checks in between.
"""

from __future__ import annotations

from core.executor.binding import ExecutorBinder, bind, simple_bind
from core.executor.executor import Executor
from core.executor.flat import FlatBuffer
from core.executor.timing import StepTime
from core.symbol.symbol import set_binder

__all__ = ["Executor", "FlatBuffer", "StepTime", "bind", "simple_bind"]

set_binder(ExecutorBinder())
