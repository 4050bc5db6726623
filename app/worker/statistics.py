"""Statistics of arrays while a module trains: outputs of operators, parameters, gradients."""

from __future__ import annotations

import fnmatch
import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from app.worker.engine_optimizer import Engine, holder_of
from app.worker.hosted_module import HostedModule
from core.executor import Executor
from core.module import BucketingModule
from core.ndarray import NDArray

__all__ = ["Row", "held_statistics", "watched"]

Row = dict[str, Any]
"""``name``, ``of`` (output, backward, parameter, gradient or auxiliary), ``device``, ``shape``, and
``magnitude`` (norm / sqrt(size), as MXNet's Monitor), ``mean``, ``std``, ``min``, ``max`` of the
finite elements, None where there are none, and the number of others as ``nonfinite``."""

_BACKWARD = re.compile(r"_backward_output\d*$")
"""How MXNet names the gradients of an operator's inputs: ``fc1_backward_output0``."""


@contextmanager
def watched(engine: Engine, pattern: str) -> Iterator[list[Row]]:
    """Collect statistics of what operators put out within the block, in their order.

    Those of a backward pass put out gradients of the inputs of the operators they belong to.

    Args:
        engine: a bound module.
        pattern: of the names, as of files: ``fc*_output``.
    """
    observer = _Observer(_matcher(pattern))
    modules = list(engine._buckets.values()) if isinstance(engine, BucketingModule) else [engine]
    engine.install_monitor(observer)
    for module in modules:  # a batch of another shape may bring back executors kept for it
        for group in module._groups.values():
            group.install_monitor(observer)
    try:
        yield observer.rows
    finally:
        observer.remove()
        for one in (engine, *modules):
            one._monitor = None


def held_statistics(module: HostedModule, pattern: str) -> list[Row]:
    """Return statistics of a bound module's parameters, gradients and auxiliary states.

    Gradients are those of the last backward pass, of each device; the others are equal on all
    devices, or come from the first.
    """
    matches = _matcher(pattern)
    held = module.on_device()
    device = str(held.context)
    rows = [
        _describe(name, kind, device, value)
        for kind, values in (("parameter", held.arguments), ("auxiliary", held.auxiliary))
        for name, value in values.items()
        if matches(name)
    ]
    group = holder_of(module.engine)._exec_group
    assert group is not None
    for executor in group.execs:
        gradients = executor.grad_dict
        rows += [
            _describe(name, "gradient", str(executor._ctx), gradient)
            for name in held.arguments
            if matches(name) and (gradient := gradients.get(name)) is not None
        ]
    return rows


class _Observer:
    """What the engine takes for a monitor: it is installed on each executor."""

    def __init__(self, matches: Callable[[str], bool]) -> None:
        self.rows: list[Row] = []
        self._matches = matches
        self._executors: list[Executor] = []

    def install(self, executor: Executor) -> None:
        executor.set_monitor_callback(partial(self._see, str(executor._ctx)))
        self._executors.append(executor)

    def remove(self) -> None:
        for executor in self._executors:
            executor.set_monitor_callback(None)

    def _see(self, device: str, name: str, values: NDArray) -> None:
        if self._matches(name):
            kind = "backward" if _BACKWARD.search(name) else "output"
            self.rows.append(_describe(name, kind, device, values))


def _matcher(pattern: str) -> Callable[[str], bool]:
    return lambda name: fnmatch.fnmatchcase(name, pattern)


def _describe(name: str, kind: str, device: str, values: NDArray) -> Row:
    host = values.asnumpy()
    finite = host[np.isfinite(host)].astype(np.float64)
    row: Row = {
        "name": name,
        "of": kind,
        "device": device,
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
