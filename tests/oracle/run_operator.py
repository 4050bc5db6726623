"""Run one operator case on the operator alone, as a plan would call it: no symbol, no executor.

The harness is stricter than a plan: what must be written starts as NaN, scratch memory is NaN, and
``backward`` finds ``None`` wherever the operator did not declare that it reads.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from core.backends import Backend, backend_of
from core.device import Context
from core.ops import ALL, Operator, Run, get_operator, make_operator
from core.ops.attributes import format_attribute
from core.random import DeviceRandom
from core.types import DType, Shape
from oracle.case import Case
from oracle.run_symbol import record

__all__ = ["OperatorRun", "check_gradient", "infer_from_others", "run_operator"]

_RANDOM_SEED = 7


def parse(case: Case) -> Operator:
    """Return the operator of a case, its attributes passed as a symbol JSON has them."""
    attrs = {key: format_attribute(value) for key, value in case.attrs.items()}
    count = get_operator(case.op).variadic
    if count:
        attrs.setdefault(count, str(len(case.inputs)))
    return make_operator(case.op, case.id, attrs)


def strided_copy(xp: Any, array: Any) -> Any:
    """Return an equal array whose elements are not contiguous."""
    if array.ndim == 0:
        return array.copy()
    wide = xp.zeros((*array.shape[:-1], array.shape[-1] * 2), dtype=array.dtype)
    view = wide[..., ::2]
    view[...] = array
    return view


@dataclasses.dataclass
class OperatorRun:
    """The arrays of one run, and its steps."""

    case: Case
    operator: Operator
    context: Context
    backend: Backend
    names: list[str]
    inputs: list[Any]
    outputs: list[Any]
    heads: list[Any]

    @classmethod
    def prepare(
        cls, case: Case, context: Context | None = None, dtype: str | None = None
    ) -> OperatorRun:
        """Make inputs and outputs; ``dtype`` replaces that of floating inputs."""
        context = context or Context("cpu", 0)
        backend = backend_of(context)
        operator = parse(case)
        host = {**case.make_inputs(), **case.make_aux()}
        names = list(host) if case.positional else list(operator.input_names())
        assert set(names) == set(host), f"inputs are {names}, the case gives {list(host)}"
        arrays = [host[name] for name in names]
        if dtype is not None:
            arrays = [x.astype(dtype) if x.dtype.kind == "f" else x for x in arrays]
        shapes, dtypes = infer_outputs(operator, arrays)
        outputs = [garbage(backend, s, t) for s, t in zip(shapes, dtypes, strict=True)]
        heads = [
            backend.asarray(
                case.make_head(i, s, t) if i < operator.visible_outputs() else np.zeros(s, t)
            )
            for i, (s, t) in enumerate(zip(shapes, dtypes, strict=True))
        ]
        inputs = [backend.asarray(x) for x in arrays]
        return cls(case, operator, context, backend, names, inputs, outputs, heads)

    def environment(self) -> Run:
        """Return a fresh ``Run`` with the same random numbers every time."""
        return Run(
            self.backend.xp,
            self.case.train,
            DeviceRandom(self.context, _RANDOM_SEED),
            lambda shape, dtype: garbage(self.backend, shape, dtype),
        )

    def forward(self) -> None:
        """Fill the outputs."""
        with np.errstate(all="ignore"):
            self.operator.forward(self.environment(), self.inputs, self.outputs)

    def backward(
        self,
        wanted: Sequence[int],
        heads: Mapping[int, Any] | None = None,
        targets: Mapping[int, Any] | None = None,
    ) -> list[Any]:
        """Return gradients by input; None if not wanted.

        ``heads`` and ``targets`` replace single output gradients and the memory of single input
        gradients, to let one lie over the other.
        """
        reads = self.operator.backward_reads()
        given: Sequence[int] = wanted
        if self.operator.needs_every_gradient():
            given = self.operator.gradient_inputs(len(self.inputs))
        in_grads = [
            garbage(self.backend, x.shape, x.dtype) if i in given else None
            for i, x in enumerate(self.inputs)
        ]
        for i, memory in (targets or {}).items():
            in_grads[i] = memory
        if not wanted:
            return in_grads
        out_grads = [(heads or {}).get(i, head) for i, head in enumerate(self.heads)]
        with np.errstate(all="ignore"):
            self.operator.backward(
                self.environment(),
                out_grads if reads.out_grads else [None] * len(out_grads),
                keep_declared(self.inputs, reads.inputs),
                keep_declared(self.outputs, reads.outputs),
                in_grads,
            )
        return in_grads

    def no_gradients(self) -> list[Any]:
        """Return what ``backward`` returns where no gradient is wanted."""
        return [None] * len(self.inputs)

    def gradient_indices(self) -> list[int]:
        """Return the positions of inputs that have a gradient which the case compares."""
        names = self.case.gradient_names()
        own = self.operator.gradient_inputs(len(self.inputs))
        return [i for i in own if self.names[i] in names]

    def results(self, in_grads: Sequence[Any]) -> dict[str, np.ndarray]:
        """Return outputs, gradients and auxiliary states by key, as the golden files have them."""
        host = self.backend.to_host
        wanted = self.case.gradient_names()
        grads = {
            name: host(self.backend.xp.zeros_like(self.inputs[i]) if dx is None else dx)
            for i, (name, dx) in enumerate(zip(self.names, in_grads, strict=True))
            if name in wanted
        }
        aux = {name: host(self.inputs[self.names.index(name)]) for name in self.case.aux}
        visible = self.outputs[: self.operator.visible_outputs()]
        return record([host(y) for y in visible], grads, aux)


def keep_declared(arrays: Sequence[Any], declared: tuple[int, ...]) -> list[Any]:
    """Return the arrays, with None for those not declared."""
    return [x if i in declared or ALL in declared else None for i, x in enumerate(arrays)]


def garbage(backend: Backend, shape: Shape, dtype: DType) -> Any:
    """Return an array of NaN, or of 77 or True where the dtype has no NaN."""
    array = backend.empty(tuple(shape), np.dtype(dtype))
    array[...] = np.nan if array.dtype.kind == "f" else 77 if array.dtype.kind != "b" else True
    return array


def infer_outputs(
    operator: Operator, inputs: Sequence[np.ndarray]
) -> tuple[list[Shape], list[DType]]:
    """Return shapes and dtypes of the outputs; those of the inputs must come back unchanged."""
    count = len(operator.output_names())
    given = [x.shape for x in inputs]
    shapes_in, shapes = operator.infer_shape(list(given), [None] * count)
    assert [tuple(s or ()) for s in shapes_in] == given
    dtypes_in, dtypes = operator.infer_type([x.dtype for x in inputs], [None] * count)
    assert dtypes_in == [x.dtype for x in inputs]
    assert len(shapes) == len(dtypes) == count
    return [tuple(s or ()) for s in shapes], [np.dtype(t) for t in dtypes]


def infer_from_others(case: Case, name: str) -> Shape | None:
    """Return an input's shape as inferred from all the others alone."""
    run = OperatorRun.prepare(case)
    shapes: list[Shape | None] = [tuple(x.shape) for x in run.inputs]
    position = run.names.index(name)
    shapes[position] = None
    completed, _ = run.operator.infer_shape(shapes, [None] * len(run.outputs))
    return completed[position]


def run_operator(
    case: Case,
    context: Context | None = None,
    change: Callable[[OperatorRun], None] | None = None,
) -> dict[str, np.ndarray]:
    """Run forward and backward; return outputs, gradients and auxiliary states by key.

    ``change`` may rearrange the arrays before the pass (strided, aliased).
    """
    run = OperatorRun.prepare(case, context)
    if change is not None:
        change(run)
    run.forward()
    if not case.has_backward:
        return run.results(run.no_gradients())
    return run.results(run.backward(run.gradient_indices()))


def check_gradient(case: Case, epsilon: float = 1e-6) -> tuple[float, float]:
    """Return (numeric, analytic) derivative along one random direction, in float64."""
    run = OperatorRun.prepare(case, dtype="float64")
    start = [x.copy() for x in run.inputs]
    indices = [i for i in run.gradient_indices() if start[i].dtype.kind == "f"]
    random = np.random.RandomState(len(case.id))
    directions = {i: random.normal(size=start[i].shape) for i in indices}

    def value(step: float) -> float:
        run.inputs = [
            x + step * directions[i] if i in indices else x.copy() for i, x in enumerate(start)
        ]
        run.forward()
        return float(sum(np.sum(y * h) for y, h in zip(run.outputs, run.heads, strict=True)))

    numeric = (value(epsilon) - value(-epsilon)) / (2 * epsilon)
    value(0.0)
    in_grads = run.backward(indices)
    return numeric, float(sum(np.sum(in_grads[i] * directions[i]) for i in indices))
