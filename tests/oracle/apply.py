"""Run an operator on given arrays without a case, for tests that compare two runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from core.backends import backend_of
from core.device import Context
from core.ops import Operator, Run, make_operator
from core.ops.attributes import format_attribute
from core.random import DeviceRandom
from oracle.run_operator import garbage, keep_declared

__all__ = ["Applied", "apply", "make"]

_CPU = Context("cpu", 0)


@dataclasses.dataclass
class Applied:
    """The result of a run: outputs, including hidden ones, and the gradients of all inputs."""

    outputs: list[np.ndarray]
    grads: list[np.ndarray]


def make(op: str, attrs: Mapping[str, Any]) -> Operator:
    """Return the operator, with attributes passed as in a symbol JSON."""
    return make_operator(op, "node", {key: format_attribute(x) for key, x in attrs.items()})


def apply(
    op: str,
    attrs: Mapping[str, Any],
    inputs: Sequence[np.ndarray],
    heads: Sequence[np.ndarray] = (),
    *,
    train: bool = True,
    seed: int = 7,
) -> Applied:
    """Run forward, and backward if gradients of the visible outputs are given."""
    operator = make(op, attrs)
    count = len(operator.output_names())
    backend = backend_of(_CPU)
    _, shapes = operator.infer_shape([x.shape for x in inputs], [None] * count)
    _, dtypes = operator.infer_type([x.dtype for x in inputs], [None] * count)
    outputs = [garbage(backend, s, t) for s, t in zip(shapes, dtypes, strict=True)]
    run = Run(backend.xp, train, DeviceRandom(_CPU, seed), lambda s, t: garbage(backend, s, t))
    with np.errstate(all="ignore"):
        operator.forward(run, inputs, outputs)
    grads: list[Any] = []
    if heads:
        reads = operator.backward_reads()
        wanted = operator.gradient_inputs(len(inputs))
        grads = [
            garbage(backend, x.shape, x.dtype) if i in wanted else None
            for i, x in enumerate(inputs)
        ]
        hidden = [np.zeros_like(y) for y in outputs[len(heads) :]]
        operator.backward(
            run,
            [*heads, *hidden] if reads.out_grads else [None] * count,
            keep_declared(inputs, reads.inputs),
            keep_declared(outputs, reads.outputs),
            grads,
        )
    return Applied(outputs, grads)
