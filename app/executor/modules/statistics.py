"""Statistics of arrays while a module trains: outputs of operators, parameters, gradients."""

from __future__ import annotations

import fnmatch
import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from app.domain.named_arrays import NamedArray
from app.executor.modules.engine_optimizer import Engine, main_module
from app.executor.modules.hosted_module import HostedModule
from core.executor import Executor
from core.ndarray import NDArray
from core.symbol import Symbol

__all__ = ["Row", "parameter_arrays", "parameter_statistics", "watched"]

Row = dict[str, Any]
"""``name``, ``of`` (output, backward, parameter, gradient or auxiliary), ``device``, ``shape``, and
``magnitude`` (norm / sqrt(size), as MXNet's Monitor), ``mean``, ``std``, ``min``, ``max`` of the
finite elements, None if there are none, and the number of others as ``nonfinite``."""

_CHUNK = 1 << 14

_BACKWARD = re.compile(r"_backward_output\d*$")
"""MXNet's names for gradients of an operator's inputs: ``fc1_backward_output0``."""


@contextmanager
def watched(engine: Engine, pattern: str) -> Iterator[list[Row]]:
    """Collect statistics of the outputs of operators that run in the block, in execution order.

    In a backward pass, the outputs are gradients of the inputs of the forward operators. A pass
    that is watched runs operator by operator, which takes long: where the pattern means parameters
    only, it is not.

    Args:
        engine: a bound module.
        pattern: glob for the names, such as ``fc*_output``.
    """
    observer = _Observer(_matcher(pattern))
    if not _may_match(engine.symbol, observer.matches):
        yield observer.rows
        return
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
        self.matches = matches

    def install(self, executor: Executor) -> None:
        executor.set_monitor_callback(self._see)

    def _see(self, name: str, values: NDArray) -> None:
        if self.matches(name):
            kind = "backward" if _BACKWARD.search(name) else "output"
            self.rows.append(_describe(name, kind, values))


def _may_match(symbol: Symbol, matches: Callable[[str], bool]) -> bool:
    """Return whether an output of an operator, or a gradient of its inputs, may have such a
    name."""
    nodes = {id(node): node for node, _ in symbol.get_internals().heads if node.op is not None}
    return any(
        any(matches(node.output_name(number)) for number in range(node.output_count()))
        or matches(f"{node.name}_backward_output")
        or any(matches(f"{node.name}_backward_output{n}") for n in range(len(node.inputs)))
        for node in nodes.values()
    )


def _matcher(pattern: str) -> Callable[[str], bool]:
    return lambda name: fnmatch.fnmatchcase(name, pattern)


def _describe(name: str, kind: str, values: NDArray) -> Row:
    host = values.asnumpy().reshape(-1)
    row: Row = {
        "name": name,
        "of": kind,
        "device": str(values.context),
        "shape": list(values.shape),
    }
    return row | _figures(host)


def _figures(values: npt.NDArray[Any]) -> Row:
    """Return statistics of the finite elements, computed in pieces that stay in the cache."""
    count, nonfinite, mean, squares = 0, 0, 0.0, 0.0  # squares: of the differences from the mean
    least, most = math.inf, -math.inf
    for start in range(0, len(values), _CHUNK):
        chunk = values[start : start + _CHUNK].astype(np.float64)
        total = float(chunk.sum())
        if not math.isfinite(total):
            chunk = chunk[np.isfinite(chunk)]
            nonfinite += min(_CHUNK, len(values) - start) - len(chunk)
            total = float(chunk.sum())
        if not len(chunk):
            continue
        least, most = min(least, float(chunk.min())), max(most, float(chunk.max()))
        own = total / len(chunk)
        chunk -= own
        own_squares = float(np.einsum("i,i->", chunk, chunk))
        # Chan's formula joins the pieces without loss of digits.
        shift = own - mean
        joined = count + len(chunk)
        squares += own_squares + shift * shift * count * len(chunk) / joined
        mean += shift * len(chunk) / joined
        count = joined
    if not count:
        none = dict.fromkeys(("magnitude", "mean", "std", "min", "max"))
        return {"nonfinite": nonfinite, **none}
    return {
        "nonfinite": nonfinite,
        "magnitude": math.sqrt(squares / count + mean * mean),
        "mean": mean,
        "std": math.sqrt(squares / count),
        "min": least,
        "max": most,
    }
