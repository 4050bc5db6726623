"""Statistics of arrays while a module trains: outputs of operators, parameters, gradients."""

from __future__ import annotations

import fnmatch
import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from app.domain.named_arrays import NamedArray
from app.executor.modules.engine_optimizer import Engine, main_module
from app.executor.modules.hosted_module import HostedModule
from core.executor import Executor
from core.ndarray import NDArray

__all__ = ["Row", "parameter_arrays", "parameter_statistics", "watched"]

Row = dict[str, Any]
"""``name``, ``of`` (output, backward, parameter, gradient or auxiliary), ``device``, ``shape``, and
``magnitude`` (norm / sqrt(size), as MXNet's Monitor), ``mean``, ``std``, ``min``, ``max`` of the
finite elements, None if there are none, and the number of others as ``nonfinite``."""

_BACKWARD = re.compile(r"_backward_output\d*$")
"""MXNet's names for gradients of an operator's inputs: ``fc1_backward_output0``."""


@contextmanager
def watched(engine: Engine, pattern: str) -> Iterator[list[Row]]:
    """Collect statistics of the outputs of operators that run in the block, in execution order.

    In a backward pass, the outputs are gradients of the inputs of the forward operators.

    Args:
        engine: a bound module.
        pattern: glob for the names, such as ``fc*_output``.
    """
    observer = _Observer(_matcher(pattern))
    engine.install_monitor(observer)
    try:
        yield observer.rows
    finally:
        engine.remove_monitor()


def parameter_statistics(module: HostedModule, pattern: str) -> list[Row]:
    """Return statistics of a bound module's parameters, gradients and auxiliary states.

    Gradients are those of the last backward pass, of each device; the others are equal on all
    devices, or come from the first.
    """
    matches = _matcher(pattern)
    shown = module.on_device()
    rows = [
        _describe(name, kind, value)
        for kind, values in (("parameter", shown.arguments), ("auxiliary", shown.auxiliary))
        for name, value in values.items()
        if matches(name)
    ]
    for executor in main_module(module.engine).executor_group.execs:
        gradients = executor.grad_dict
        rows += [
            _describe(name, "gradient", gradient)
            for name in shown.arguments
            if matches(name) and (gradient := gradients.get(name)) is not None
        ]
    return rows


def parameter_arrays(module: HostedModule, pattern: str) -> dict[NamedArray, list[NDArray]]:
    """Return a bound module's parameters whose names match, and their gradients.

    Parameters are given for one device, gradients for each.
    """
    matches = _matcher(pattern)
    arguments = {name: one for name, one in module.on_device().arguments.items() if matches(name)}
    found = {NamedArray("parameter", name): [value] for name, value in arguments.items()}
    executors = main_module(module.engine).executor_group.execs
    for name in arguments:
        gradients = [executor.grad_dict.get(name) for executor in executors]
        present = [one for one in gradients if one is not None]
        if present:
            found[NamedArray("gradient", name)] = present
    return found


class _Observer:
    """Presents itself to the engine as a monitor, installed on each executor."""

    def __init__(self, matches: Callable[[str], bool]) -> None:
        self.rows: list[Row] = []
        self._matches = matches

    def install(self, executor: Executor) -> None:
        executor.set_monitor_callback(self._see)

    def _see(self, name: str, values: NDArray) -> None:
        if self._matches(name):
            kind = "backward" if _BACKWARD.search(name) else "output"
            self.rows.append(_describe(name, kind, values))


def _matcher(pattern: str) -> Callable[[str], bool]:
    return lambda name: fnmatch.fnmatchcase(name, pattern)


def _describe(name: str, kind: str, values: NDArray) -> Row:
    host = values.asnumpy()
    finite = host[np.isfinite(host)].astype(np.float64)
    row: Row = {
        "name": name,
        "of": kind,
        "device": str(values.context),
        "shape": list(host.shape),
        "nonfinite": int(host.size - finite.size),
    }
    if not finite.size:
        return row | dict.fromkeys(("magnitude", "mean", "std", "min", "max"))
    return row | {
        "magnitude": float(np.linalg.norm(finite) / math.sqrt(finite.size)),
        "mean": float(finite.mean()),
        "std": float(finite.std()),
        "min": float(finite.min()),
        "max": float(finite.max()),
    }
