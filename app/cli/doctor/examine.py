"""The examination of a model: a sequence of steps with findings, each building on the previous."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from app.errors.quoting import did_you_mean
from app.errors.tree import ServiceError
from app.executor.modules.inspection import Examination
from app.executor.modules.inspection import examine as examine_symbol
from app.executor.modules.param_files import read_param_file
from app.executor.modules.variable_roles import GivenNames
from app.files.file_kinds import not_a_symbol
from core.checkpoint import read_states
from core.device import Context
from core.errors import MXNetError
from core.executor import Executor
from core.ndarray import NDArray
from core.ops.registry import has_operator, registered_names
from core.symbol import Symbol
from core.symbol import load as load_symbol
from core.types import Shape, shape_size

__all__ = ["Finding", "Model", "Verdict", "examine"]

_MOST_NAMES = 6
_RUNS = 5


class Verdict(StrEnum):
    """The consequence of a finding for the use of a model."""

    GOOD = "good"
    OPEN = "open"
    """It cannot be decided without information from the caller."""
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Finding:
    """The finding of one step of the examination.

    Attributes:
        step: what was examined.
        verdict: what it means.
        summary: one line.
        details: further figures by name, for JSON.
    """

    step: str
    verdict: Verdict
    summary: str
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """False if the examination ends here, or the model cannot be used as it is."""
        return self.verdict is Verdict.GOOD


@dataclass(frozen=True, slots=True)
class Model:
    """The files of a model.

    Attributes:
        symbol_path: the graph.
        params_path: the parameters; None to examine the graph alone.
        shapes: of inputs by name, if known.
        device: to run on.
    """

    symbol_path: Path
    params_path: Path | None
    shapes: Mapping[str, Shape]
    device: Context

    @property
    def states_path(self) -> Path | None:
        """The optimizer's states; None if there are none."""
        path = None if self.params_path is None else self.params_path.with_suffix(".states")
        return path if path is not None and path.exists() else None


def examine(model: Model) -> Iterator[Finding]:
    """Yield findings in order; after one that is not ok only independent steps follow."""
    yield (files := _files(model))
    if not files.ok:
        return
    yield (operators := _operators(model))
    symbol, fault = _load(model) if operators.ok else (None, "")
    params: dict[str, NDArray] | None = None
    if model.params_path is not None:
        try:
            params = read_param_file(str(model.params_path), model.params_path.name)
            yield _parameters(*_by_role(symbol, params))
        except ServiceError as error:
            yield Finding("parameters", Verdict.WRONG, str(error))
    if model.states_path is not None:
        yield _states(model.states_path)
    if fault:
        yield Finding("graph", Verdict.WRONG, fault)
    elif symbol is not None and model.params_path is None:
        yield from _symbol_alone(model, symbol)
    elif symbol is not None and params is not None:
        yield from _with_params(model, symbol, params)


def _load(model: Model) -> tuple[Symbol | None, str]:
    """Return the graph; None, and why not, if it cannot be loaded."""
    try:
        return load_symbol(str(model.symbol_path)), ""
    except MXNetError as error:
        return None, str(error)


def _by_role(
    symbol: Symbol | None, params: Mapping[str, NDArray]
) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
    """Return arguments and auxiliary states; without a graph, all are taken for arguments."""
    auxiliary = () if symbol is None else symbol.list_auxiliary_states()
    return (
        {name: array for name, array in params.items() if name not in auxiliary},
        {name: array for name, array in params.items() if name in auxiliary},
    )


def _symbol_alone(model: Model, symbol: Symbol) -> Iterator[Finding]:
    found = examine_symbol(symbol, None, GivenNames(), model.shapes)
    yield _graph(found)
    text = "none beside the symbol; with them it is tried whether the model binds and runs"
    yield Finding("parameters", Verdict.OPEN, text)


def _with_params(model: Model, symbol: Symbol, params: Mapping[str, NDArray]) -> Iterator[Finding]:
    stored = {name: array.shape for name, array in params.items()}
    found = examine_symbol(symbol, stored, GivenNames(), model.shapes)
    yield (graph := _graph(found))
    if graph.ok:
        yield from _use(model, found, *_by_role(symbol, params))


def _files(model: Model) -> Finding:
    named = [path for path in (model.symbol_path, model.params_path) if path is not None]
    missing = [str(path) for path in named if not path.is_file()]
    if missing:
        beside = sorted(path.name for path in model.symbol_path.parent.glob("*.params"))
        hint = f"; there are {_listed(beside)}" if beside else ""
        return Finding("files", Verdict.WRONG, f"missing: {', '.join(missing)}{hint}")
    paths = [path for path in (*named, model.states_path) if path is not None]
    sizes = {path.name: path.stat().st_size for path in paths}
    text = ", ".join(f"{name} ({_size(size)})" for name, size in sizes.items())
    return Finding("files", Verdict.GOOD, text, {"files": sizes})


def _operators(model: Model) -> Finding:
    """Count the operators in the raw JSON, because a graph with unknown ones cannot be loaded."""
    content = model.symbol_path.read_bytes()
    try:
        graph = orjson.loads(content)
        names = list(_operator_names(graph))
    except orjson.JSONDecodeError as error:
        got, expected, hint = not_a_symbol(content, str(error))
        text = f"{model.symbol_path.name} is not a graph: got {got}, expected {expected}"
        return Finding("operators", Verdict.WRONG, f"{text}; {hint}" if hint else text)
    except (KeyError, TypeError, AttributeError) as error:
        return Finding(
            "operators", Verdict.WRONG, f"{model.symbol_path.name} is not a graph: {error}"
        )
    counts = Counter(name for name in names if name != "null")
    unknown = {
        name: did_you_mean(name, registered_names()) for name in counts if not has_operator(name)
    }
    details = {"operators": dict(counts.most_common()), "unknown": sorted(unknown)}
    if unknown:
        text = ", ".join(f"{name!r}{hint}" for name, hint in sorted(unknown.items()))
        return Finding("operators", Verdict.WRONG, f"unknown operators: {text}", details)
    text = ", ".join(f"{count} {name}" for name, count in counts.most_common())
    return Finding("operators", Verdict.GOOD, text or "none", details)


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
    return Finding("parameters", Verdict.WRONG if wrong else Verdict.GOOD, text, details)


def _states(path: Path) -> Finding:
    try:
        read = read_states(path.read_bytes())
    except MXNetError as error:
        return Finding("optimizer states", Verdict.WRONG, str(error))
    states, optimizer = read if isinstance(read, tuple) else (read, None)
    kind = "" if optimizer is None else f" of {type(optimizer).__name__}"
    text = f"states{kind} for {len(states)} parameters"
    return Finding("optimizer states", Verdict.GOOD, text, {"parameters": len(states)})


def _graph(found: Examination) -> Finding:
    """Compare the parameters that the graph needs with those in the file."""
    roles, outputs = found.roles, found.symbol.list_outputs()
    details = {
        "data": roles.data,
        "labels": roles.labels,
        "states": roles.states,
        "outputs": outputs,
        "missing": roles.missing,
        "extra": roles.extra,
    }
    groups = (("inputs", roles.data), ("labels", roles.labels), ("first states", roles.states))
    text = "; ".join(f"{what} {_listed(names)}" for what, names in groups if names)
    text += f"; outputs {_listed(outputs)}"
    if roles.missing:
        text += f"; the file lacks {_listed(roles.missing)}"
    if roles.extra:
        text += f"; not used by the graph: {_listed(roles.extra)}"
    return Finding("graph", Verdict.WRONG if roles.missing else Verdict.GOOD, text, details)


def _use(
    model: Model,
    found: Examination,
    arguments: Mapping[str, NDArray],
    auxiliary: Mapping[str, NDArray],
) -> Iterator[Finding]:
    guess = found.guess
    if guess.open or not set(found.roles.data) <= guess.shapes.keys():
        yield _unknown_shapes(model, found, arguments)
        return
    shapes = {**model.shapes, **guess.shapes}
    if fault := _contradiction(found.symbol, arguments, shapes):
        yield Finding("shapes", Verdict.WRONG, fault)
        return
    text = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
    guessed = sorted(shapes.keys() - model.shapes.keys())
    hint = "; guessed, set them with --shape" if guessed else ""
    if guess.free:
        hint += f"; other sizes of {_listed(guess.free)} fit as well"
    for name, (low, high) in guess.ranges.items():
        hint += f"; sizes of {name} from {low} to {high} fit as well"
    details = {
        "shapes": shapes,
        "guessed": guessed,
        "free": guess.free,
        "ranges": guess.ranges,
    }
    yield Finding("shapes", Verdict.GOOD, f"{text}{hint}", details)
    started = time.perf_counter()
    try:
        executor = _bind(model, found.symbol, shapes, arguments, auxiliary)
    except (MXNetError, ValueError) as error:
        yield Finding("bind", Verdict.WRONG, str(error))
        return
    seconds, memory = time.perf_counter() - started, executor.memory_report()
    yield Finding(
        "bind",
        Verdict.GOOD,
        f"in {seconds * 1e3:.0f} ms; parameters {_size(memory.arguments + memory.auxiliaries)}, "
        f"activations {_size(memory.arena)}",
        {"seconds": seconds, "arena_bytes": memory.arena},
    )
    yield _run(executor)


def _contradiction(
    symbol: Symbol, arguments: Mapping[str, NDArray], shapes: Mapping[str, Shape]
) -> str:
    """Return why shapes do not fit the parameters; an empty text if they do."""
    names = symbol.list_arguments()
    known = {name: array.shape for name, array in arguments.items() if name in names}
    try:
        symbol.infer_shape_partial(**{**known, **shapes})
    except MXNetError as error:
        return str(error)
    return ""


def _unknown_shapes(model: Model, found: Examination, arguments: Mapping[str, NDArray]) -> Finding:
    if fault := _contradiction(found.symbol, arguments, model.shapes):
        return Finding("shapes", Verdict.WRONG, fault)
    missing = found.guess.open
    text = (
        f"found none that fit the parameters, for {_listed(missing)}; "
        f"give them, for example --shape {missing[0]}=1,3,224,224"
    )
    return Finding("shapes", Verdict.OPEN, text, {"missing": missing})


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
        return Finding("run", Verdict.WRONG, str(error))
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
    return Finding("run", Verdict.WRONG if wrong else Verdict.GOOD, text, details)


def _listed(names: Sequence[str]) -> str:
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
