"""The examination of a model: each step tells what it found, and the next builds on it."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from app.executor.modules.input_shapes import guess_shapes, is_label
from app.quoting import did_you_mean
from core.checkpoint import load_params, read_states
from core.device import Context
from core.errors import MXNetError
from core.executor import Executor
from core.ndarray import NDArray
from core.ops.registry import has_operator, registered_names
from core.symbol import Symbol
from core.symbol import load as load_symbol
from core.types import Shape, shape_size

__all__ = ["Finding", "Model", "examine"]

_MOST_NAMES = 6
_RUNS = 5


@dataclass(frozen=True, slots=True)
class Finding:
    """What one step of the examination found.

    Attributes:
        step: what was examined.
        ok: False where the model cannot be used as it is.
        summary: one line.
        details: further figures by name, for JSON.
    """

    step: str
    ok: bool
    summary: str
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Model:
    """The files of a model.

    Attributes:
        prefix, epoch: of ``prefix-symbol.json`` and ``prefix-0001.params``.
        shapes: of inputs by name, where the caller knows them.
        device: to run on.
    """

    prefix: str
    epoch: int
    shapes: Mapping[str, Shape]
    device: Context

    @property
    def symbol_path(self) -> Path:
        """The graph."""
        return Path(f"{self.prefix}-symbol.json")

    @property
    def params_path(self) -> Path:
        """The parameters."""
        return Path(f"{self.prefix}-{self.epoch:04d}.params")

    @property
    def states_path(self) -> Path:
        """The optimizer's states, which may be absent."""
        return Path(f"{self.prefix}-{self.epoch:04d}.states")


def examine(model: Model) -> Iterator[Finding]:
    """Yield findings in order; after one that is not ok only what needs nothing of it follows."""
    yield (files := _files(model))
    if not files.ok:
        return
    yield (operators := _operators(model))
    params: tuple[dict[str, NDArray], dict[str, NDArray]] | None = None
    try:
        params = load_params(model.prefix, model.epoch)
        yield _parameters(*params)
    except (MXNetError, ValueError) as error:
        yield Finding("parameters", False, str(error))
    if model.states_path.exists():
        yield _states(model)
    if not operators.ok or params is None:
        return
    try:
        symbol = load_symbol(str(model.symbol_path))
    except MXNetError as error:
        yield Finding("graph", False, str(error))
        return
    yield (graph := _graph(symbol, *params))
    if graph.ok:
        yield from _use(model, symbol, *params)


def _files(model: Model) -> Finding:
    missing = [str(path) for path in (model.symbol_path, model.params_path) if not path.is_file()]
    if missing:
        beside = sorted(path.name for path in model.symbol_path.parent.glob("*.params"))
        hint = f"; there are {_listed(beside)}" if beside else ""
        return Finding("files", False, f"missing: {', '.join(missing)}{hint}")
    paths = [model.symbol_path, model.params_path]
    paths += [model.states_path] if model.states_path.exists() else []
    sizes = {path.name: path.stat().st_size for path in paths}
    text = ", ".join(f"{name} ({_size(size)})" for name, size in sizes.items())
    return Finding("files", True, text, {"files": sizes})


def _operators(model: Model) -> Finding:
    """Count the operators by the raw JSON: a graph with unknown ones cannot be loaded."""
    try:
        graph = orjson.loads(model.symbol_path.read_bytes())
        names = list(_operator_names(graph))
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        return Finding("operators", False, f"{model.symbol_path.name} holds no graph: {error}")
    counts = Counter(name for name in names if name != "null")
    unknown = {
        name: did_you_mean(name, registered_names()) for name in counts if not has_operator(name)
    }
    details = {"operators": dict(counts.most_common()), "unknown": sorted(unknown)}
    if unknown:
        text = ", ".join(f"{name!r}{hint}" for name, hint in sorted(unknown.items()))
        return Finding("operators", False, f"not known here: {text}", details)
    text = ", ".join(f"{count} {name}" for name, count in counts.most_common())
    return Finding("operators", True, text or "none", details)


def _operator_names(graph: Any) -> Iterator[str]:
    """Yield the operators of a graph in JSON, and those of the graphs in its loops and branches."""
    graphs = [graph]
    while graphs:
        for node in graphs.pop()["nodes"]:
            yield str(node["op"])
            graphs += node.get("subgraphs", ())


def _parameters(arguments: Mapping[str, NDArray], auxiliary: Mapping[str, NDArray]) -> Finding:
    arrays = {**arguments, **auxiliary}
    raw = {name: array.asnumpy() for name, array in arrays.items()}
    count = sum(one.size for one in raw.values())
    nbytes = sum(one.nbytes for one in raw.values())
    dtypes = sorted({str(one.dtype) for one in raw.values()})
    wrong = [name for name, one in raw.items() if not np.isfinite(one).all()]
    text = (
        f"{len(arguments)} parameters and {len(auxiliary)} auxiliary states: {count:,} numbers, "
        f"{_size(nbytes)}, {' and '.join(dtypes) or 'none'}"
    )
    if wrong:
        text += f"; NaN or infinite values in {_listed(wrong)}"
    details = {"numbers": count, "bytes": nbytes, "dtypes": dtypes, "not_finite": wrong}
    return Finding("parameters", not wrong, text, details)


def _states(model: Model) -> Finding:
    try:
        read = read_states(model.states_path.read_bytes())
    except MXNetError as error:
        return Finding("optimizer states", False, str(error))
    states, optimizer = read if isinstance(read, tuple) else (read, None)
    kind = "" if optimizer is None else f" of {type(optimizer).__name__}"
    text = f"states{kind} for {len(states)} parameters"
    return Finding("optimizer states", True, text, {"parameters": len(states)})


def _graph(
    symbol: Symbol, arguments: Mapping[str, NDArray], auxiliary: Mapping[str, NDArray]
) -> Finding:
    """Compare what the graph needs with what the file holds."""
    names, states = symbol.list_arguments(), symbol.list_auxiliary_states()
    inputs = [name for name in names if name not in arguments]
    missing = [name for name in states if name not in auxiliary]
    extra = [name for name in arguments if name not in names]
    extra += [name for name in auxiliary if name not in states]
    details = {
        "inputs": inputs,
        "outputs": symbol.list_outputs(),
        "missing": missing,
        "extra": extra,
    }
    text = f"inputs {_listed(inputs)}; outputs {_listed(symbol.list_outputs())}"
    if missing:
        text += f"; the file lacks auxiliary states {_listed(missing)}"
    if extra:
        text += f"; not used by the graph: {_listed(extra)}"
    return Finding("graph", not missing, text, details)


def _use(
    model: Model,
    symbol: Symbol,
    arguments: Mapping[str, NDArray],
    auxiliary: Mapping[str, NDArray],
) -> Iterator[Finding]:
    stored = {name: array.shape for name, array in (*arguments.items(), *auxiliary.items())}
    shapes = guess_shapes(symbol, stored, model.shapes)
    if shapes is None:
        yield _unknown_shapes(model, symbol, arguments)
        return
    text = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
    guessed = sorted(shapes.keys() - model.shapes.keys())
    hint = "; guessed, set them with --shape" if guessed else ""
    yield Finding("shapes", True, f"{text}{hint}", {"shapes": shapes, "guessed": guessed})
    started = time.perf_counter()
    try:
        executor = _bind(model, symbol, shapes, arguments, auxiliary)
    except (MXNetError, ValueError) as error:
        yield Finding("bind", False, str(error))
        return
    seconds, memory = time.perf_counter() - started, executor.memory_report()
    yield Finding(
        "bind",
        True,
        f"in {seconds * 1e3:.0f} ms; parameters {_size(memory.arguments + memory.auxiliaries)}, "
        f"activations {_size(memory.arena)}",
        {"seconds": seconds, "arena_bytes": memory.arena},
    )
    yield _run(executor)


def _unknown_shapes(model: Model, symbol: Symbol, arguments: Mapping[str, NDArray]) -> Finding:
    names = symbol.list_arguments()
    known = {name: array.shape for name, array in arguments.items() if name in names}
    try:
        symbol.infer_shape_partial(**{**known, **model.shapes})
    except MXNetError as error:
        return Finding("shapes", False, str(error))
    unknown = [name for name in names if name not in arguments and name not in model.shapes]
    missing = [name for name in unknown if not is_label(name)] or unknown
    text = (
        f"none found that fit the parameters for {_listed(missing)}; "
        f"give them, for example --shape {missing[0] if missing else names[0]}=1,3,224,224"
    )
    return Finding("shapes", False, text, {"missing": missing})


def _bind(
    model: Model,
    symbol: Symbol,
    shapes: Mapping[str, Shape],
    arguments: Mapping[str, NDArray],
    auxiliary: Mapping[str, NDArray],
) -> Executor:
    inputs: dict[str, Any] = dict(shapes)
    executor: Executor = symbol.simple_bind(model.device, "null", **inputs)
    used = {name: array for name, array in arguments.items() if name in executor.arg_dict}
    executor.copy_params_from(used, dict(auxiliary), allow_extra_params=True)
    return executor


def _run(executor: Executor) -> Finding:
    times = []
    try:
        for _ in range(_RUNS):
            started = time.perf_counter()
            outputs = [output.asnumpy() for output in executor.forward(is_train=False)]
            times.append(time.perf_counter() - started)
    except MXNetError as error:
        return Finding("run", False, str(error))
    shapes = {
        name: output.shape for name, output in zip(executor.output_dict, outputs, strict=True)
    }
    wrong = [name for name, one in zip(shapes, outputs, strict=True) if not np.isfinite(one).all()]
    text = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
    median = statistics.median(times)
    text += f" in {median * 1e3:.2f} ms from zeros"
    if wrong:
        text += f"; NaN or infinite values in {_listed(wrong)}"
    count = sum(shape_size(shape) for shape in shapes.values())
    details = {"outputs": shapes, "numbers": count, "seconds": median, "not_finite": wrong}
    return Finding("run", not wrong, text, details)


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:_MOST_NAMES]) or "none"
    rest = len(names) - _MOST_NAMES
    return f"{shown} and {rest} more" if rest > 0 else shown


def _size(nbytes: int) -> str:
    size = float(nbytes)
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
