"""Run one operator case through a symbol and its executor.

The same code drives the real MXNet (``mx`` is ``mxnet``) and our engine (``mx`` is ``core``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from oracle.case import Case

__all__ = ["make_symbol", "record", "record_shapes", "run_symbol"]

_NUMPY = ("_np_", "_npi_", "_npx_")
"""Prefixes of operators that MXNet offers to ``mx.np`` only; a symbol JSON may hold them too."""

_NAMESPACES = ("contrib", "linalg", "sparse", "image")


def find_function(mx: Any, op: str) -> Any:
    """Return the symbol function of an operator name as it stands in a symbol JSON."""
    for namespace in _NAMESPACES:
        prefix = f"_{namespace}_"
        if op.startswith(prefix):
            return getattr(getattr(mx.sym, namespace), op.removeprefix(prefix))
    return getattr(mx.sym._internal if op.startswith("_") else mx.sym, op)


def symbol_json(case: Case) -> str:
    """Return the symbol JSON of a case: variables named like the inputs, one operator."""
    names = [*case.inputs, *case.aux]
    nodes: list[dict[str, Any]] = [{"op": "null", "name": name, "inputs": []} for name in names]
    nodes.append(
        {
            "op": case.op,
            "name": "op",
            "attrs": {key: str(value) for key, value in case.attrs.items()},
            "inputs": [[i, 0, 0] for i in range(len(names))],
        }
    )
    return json.dumps(
        {"nodes": nodes, "arg_nodes": list(range(len(names))), "heads": [[len(names), 0, 0]]}
    )


def make_symbol(mx: Any, case: Case) -> Any:
    """Return the symbol of a case: variables named like the inputs, one operator."""
    if case.op.startswith(_NUMPY):
        return mx.sym.load_json(symbol_json(case))
    variables = {name: mx.sym.Variable(name) for name in (*case.inputs, *case.aux)}
    function = find_function(mx, case.op)
    if case.positional:
        return function(*variables.values(), name="op", **case.attrs)
    return function(**variables, name="op", **case.attrs)


def run_symbol(
    mx: Any,
    case: Case,
    symbol: Any = None,
    grad_req: Mapping[str, str] | None = None,
    start: float = 0.0,
    bind: Callable[..., Any] | None = None,
) -> dict[str, np.ndarray]:
    """Bind, run forward and backward; return outputs, gradients and auxiliary states by key.

    Gradient buffers hold ``start`` before the pass; ``bind`` stands in for the symbol's method.
    """
    symbol = make_symbol(mx, case) if symbol is None else symbol
    inputs, aux = case.make_inputs(), case.make_aux()
    if grad_req is None:
        wanted = case.gradient_names()
        grad_req = {name: "write" if name in wanted else "null" for name in inputs}
    executor = (bind or symbol.bind)(
        mx.cpu(),
        _to_device(mx, inputs),
        args_grad=_to_device(mx, {name: np.full_like(x, start) for name, x in inputs.items()}),
        grad_req=dict(grad_req),
        aux_states=_to_device(mx, aux),
    )
    outputs = [output.asnumpy().copy() for output in executor.forward(is_train=case.train)]
    if case.has_backward:
        heads = {str(i): case.make_head(i, y.shape, y.dtype) for i, y in enumerate(outputs)}
        executor.backward(list(_to_device(mx, heads).values()))
    grads = {
        name: executor.grad_dict[name].asnumpy()
        for name in case.gradient_names()
        if grad_req[name] != "null"
    }
    return record(outputs, grads, {name: executor.aux_dict[name].asnumpy() for name in aux})


def record(
    outputs: list[np.ndarray], grads: Mapping[str, np.ndarray], aux: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Return results by key: ``out0``, ``grad_data``, ``aux_moving_mean``."""
    return {
        **{f"out{i}": output for i, output in enumerate(outputs)},
        **{f"grad_{name}": grad for name, grad in grads.items()},
        **{f"aux_{name}": state for name, state in aux.items()},
    }


def record_shapes(mx: Any, case: Case) -> dict[str, np.ndarray]:
    """Return, for every input, its shape as inferred from the others' (0 or none: unknown).

    Some of MXNet's operators raise where an input's shape is missing; then nothing is inferred.
    """
    symbol = make_symbol(mx, case)
    shapes = {name: x.shape for name, x in {**case.make_inputs(), **case.make_aux()}.items()}
    inferred: dict[str, np.ndarray] = {}
    for name in shapes:
        others = {other: shape for other, shape in shapes.items() if other != name}
        try:
            arguments, _, auxiliary = symbol.infer_shape_partial(**others)
        except RuntimeError:
            inferred[f"shape_{name}"] = np.array((), dtype="int64")
            continue
        names = (*symbol.list_arguments(), *symbol.list_auxiliary_states())
        known = dict(zip(names, (*arguments, *auxiliary), strict=True))
        inferred[f"shape_{name}"] = np.array(known[name] or (), dtype="int64")
    return inferred


def _to_device(mx: Any, arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    return {name: mx.nd.array(x, dtype=x.dtype) for name, x in arrays.items()}
