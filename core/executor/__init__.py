"""From a symbol's graph to a running plan. The files' order is the order of compilation:
trace, roll, gradient, rewrite, layout, memory, lower; verify checks in between.
"""

from __future__ import annotations

from ..symbol.symbol import set_binder
from .binding import ExecutorBinder, bind, simple_bind
from .executor import Executor
from .flat import FlatBuffer
from .timing import StepTime

__all__ = ["Executor", "FlatBuffer", "StepTime", "bind", "simple_bind"]

set_binder(ExecutorBinder())
