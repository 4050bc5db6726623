"""Graphs of sparse arguments: storage types of results, and rows of gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["CASES", "bound", "record", "run_case"]

ROWS, COLUMNS, WIDTH = 5, 7, 3

Make = Callable[[Any, dict[str, Any]], Any]


class Case:
    """A graph of variables ``a`` and ``b`` (and ``bias``).

    Args:
        make: returns the graph's only output, from MXNet and the variables.
        inputs: shape and storage type by name.
        wanted: names of the arguments that get a gradient.
        whole: names of those that have all rows; MXNet's square sum refuses others' gradients.
    """

    def __init__(
        self,
        make: Make,
        inputs: dict[str, tuple[tuple[int, ...], str]],
        *wanted: str,
        whole: str = "",
    ) -> None:
        self.make, self.inputs, self.wanted, self.whole = make, inputs, wanted, whole


MATRIX = (ROWS, COLUMNS)
CSR, BY_ROWS, DENSE = "csr", "row_sparse", "default"


def _of_rows(function: str, **attributes: Any) -> Case:
    return Case(
        lambda mx, v: getattr(mx.sym, function)(v["a"], **attributes), {"a": (MATRIX, BY_ROWS)}, "a"
    )


def _of_csr(function: str, **attributes: Any) -> Case:
    return Case(lambda mx, v: getattr(mx.sym, function)(v["a"], **attributes), {"a": (MATRIX, CSR)})


def _pair(function: str, left: str, right: str, *wanted: str) -> Case:
    return Case(
        lambda mx, v: getattr(mx.sym, function)(v["a"], v["b"]),
        {"a": (MATRIX, left), "b": (MATRIX, right)},
        *wanted,
    )


def _square_sum(**attributes: Any) -> Case:
    return Case(
        lambda mx, v: mx.sym._internal._square_sum(v["a"], **attributes),
        {"a": (MATRIX, BY_ROWS)},
        "a",
        whole="a",
    )


def _dot(right: str, shape: tuple[int, ...], **attributes: Any) -> Case:
    return Case(
        lambda mx, v: mx.sym.dot(v["a"], v["b"], **attributes),
        {"a": (MATRIX, CSR), "b": (shape, right)},
        "b",
    )


CASES: dict[str, Case] = {
    "dot": _dot(DENSE, (COLUMNS, WIDTH)),
    "dot of one column": _dot(DENSE, (COLUMNS, 1)),
    "dot of rows": _dot(BY_ROWS, (COLUMNS, WIDTH)),
    "dot transposed": _dot(DENSE, (ROWS, WIDTH), transpose_a=True),
    "dot of a hidden layer": Case(
        lambda mx, v: mx.sym.dot(v["a"], mx.sym.tanh(v["b"])),
        {"a": (MATRIX, CSR), "b": ((COLUMNS, WIDTH), DENSE)},
        "b",
    ),
    "there and back": Case(
        lambda mx, v: mx.sym.dot(v["a"], mx.sym.dot(v["a"], v["b"], transpose_a=True)),
        {"a": (MATRIX, CSR), "b": ((ROWS, WIDTH), DENSE)},
        "b",
    ),
    "squares of rows": Case(
        lambda mx, v: mx.sym.dot(
            mx.sym.square(v["a"]), mx.sym._internal._square_sum(v["b"], axis=1, keepdims=True)
        ),
        {"a": (MATRIX, CSR), "b": ((COLUMNS, WIDTH), BY_ROWS)},
        "b",
        whole="b",
    ),
    "fully connected": Case(
        lambda mx, v: mx.sym.FullyConnected(v["a"], v["b"], v["bias"], num_hidden=WIDTH),
        {
            "a": (MATRIX, CSR),
            "b": ((WIDTH, COLUMNS), DENSE),
            "bias": ((WIDTH,), DENSE),
        },
        "b",
        "bias",
    ),
    "embedding": Case(
        lambda mx, v: mx.sym.Embedding(
            v["b"], v["a"], input_dim=ROWS, output_dim=COLUMNS, sparse_grad=True
        ),
        {"a": (MATRIX, BY_ROWS), "b": ((4,), DENSE)},
        "a",
    ),
    "square sum 0": _square_sum(axis=0),
    "square sum 1": _square_sum(axis=1),
    "square sum 1 kept": _square_sum(axis=1, keepdims=True),
    **{f"{name} of rows": _of_rows(name) for name in ("square", "negative", "relu")},
    **{f"{name} of csr": _of_csr(name) for name in ("square", "negative", "tanh", "abs")},
    "sum over rows": _of_csr("sum", axis=0),
    "sum over columns": _of_csr("sum", axis=1),
    "mean over rows": _of_csr("mean", axis=0),
    "mean over columns": _of_csr("mean", axis=1),
    **{
        f"{name} of csr by a row": Case(
            lambda mx, v, name=name: getattr(mx.sym, name)(v["a"], v["b"]),
            {"a": (MATRIX, CSR), "b": ((1, COLUMNS), DENSE)},
        )
        for name in ("broadcast_mul", "broadcast_div")
    },
    "scaled csr": Case(lambda mx, v: v["a"] * 2.5, {"a": (MATRIX, CSR)}),
    "scaled rows": Case(lambda mx, v: v["a"] / 2.5, {"a": (MATRIX, BY_ROWS)}, "a"),
    "sum of rows": _pair("elemwise_add", BY_ROWS, BY_ROWS, "a", "b"),
    "difference of rows": _pair("elemwise_sub", BY_ROWS, BY_ROWS, "a", "b"),
    "sum of csr": _pair("elemwise_add", CSR, CSR),
    "difference of csr": _pair("elemwise_sub", CSR, CSR),
    "product of rows": _pair("elemwise_mul", BY_ROWS, BY_ROWS),
    "product of rows and dense": _pair("elemwise_mul", BY_ROWS, DENSE),
    "product of csr": _pair("elemwise_mul", CSR, CSR),
    "product of csr and dense": _pair("elemwise_mul", CSR, DENSE),
    **{
        f"_scatter_elemwise_div of rows by {right}": Case(
            lambda mx, v: mx.sym._internal._scatter_elemwise_div(v["a"], v["b"]),
            {"a": (MATRIX, BY_ROWS), "b": (MATRIX, right)},
            whole="b",
        )
        for right in (BY_ROWS, DENSE)
    },
    **{
        f"{name} of {stype}": Case(
            lambda mx, v, name=name: getattr(mx.sym._internal, name)(v["a"], scalar=2.5),
            {"a": (MATRIX, stype)},
        )
        for name in ("_scatter_plus_scalar", "_scatter_minus_scalar")
        for stype in (BY_ROWS, CSR)
    },
    "_scatter_plus_scalar of rows, trained": Case(
        lambda mx, v: mx.sym._internal._scatter_plus_scalar(v["a"], scalar=2.5),
        {"a": (MATRIX, BY_ROWS)},
        "a",
    ),
    "sum of both": _pair("elemwise_add", BY_ROWS, DENSE, "b"),
    "sum of three by rows": Case(
        lambda mx, v: mx.sym.add_n(v["a"], v["b"], v["a"]),
        {"a": (MATRIX, BY_ROWS), "b": (MATRIX, BY_ROWS)},
        "a",
        "b",
    ),
    "dot of a sum of rows": Case(
        lambda mx, v: mx.sym.dot(v["a"], mx.sym.add_n(v["b"], v["b"], v["b"])),
        {"a": (MATRIX, CSR), "b": ((COLUMNS, WIDTH), BY_ROWS)},
        "b",
    ),
    "csr below csr": Case(
        lambda mx, v: mx.sym.concat(v["a"], v["b"], v["a"], dim=0),
        {"a": (MATRIX, CSR), "b": ((2, COLUMNS), CSR)},
    ),
}


def _values(case: Case, random: Any) -> dict[str, NDArray[Any]]:
    """Return values by name; sparse ones contain zeros, and an empty row and column."""
    values = {}
    for name, (shape, stype) in case.inputs.items():
        value = random.uniform(0.5, 1.5, shape) * random.choice([-1, 1], shape)
        if stype == CSR:
            value *= random.uniform(size=shape) < 0.4
            value[1], value[:, 2] = 0, 0
        elif stype == BY_ROWS and name not in case.whole:
            value[random.choice(shape[0], 2, replace=False)] = 0
        values[name] = value.astype("float32")
    if len(case.inputs.get("b", ((), ""))[0]) == 1:
        values["b"] = np.array([3, 1, 3, 0], "float32")
    return values


def bound(mx: Any, case_id: str) -> Any:
    """Return a bound executor for a case."""
    case = CASES[case_id]
    variables = {name: mx.sym.var(name) for name in case.inputs}
    return case.make(mx, variables).simple_bind(
        mx.cpu(),
        grad_req={name: "write" if name in case.wanted else "null" for name in case.inputs},
        stype_dict={name: stype for name, (_, stype) in case.inputs.items()},
        **{name: shape for name, (shape, _) in case.inputs.items()},
    )


def run_case(mx: Any, case_id: str) -> dict[str, NDArray[Any]]:
    """Return the output and gradients of two passes with different values."""
    case, executor = CASES[case_id], bound(mx, case_id)
    random, results = np.random.RandomState(11), {}
    for step in range(2):
        for name, value in _values(case, random).items():
            mx.nd.array(value).tostype(case.inputs[name][1]).copyto(executor.arg_dict[name])
        executor.forward(is_train=True)
        output = executor.outputs[0]
        results[f"output {step} {output.stype}"] = output.asnumpy()
        if not case.wanted:
            continue
        executor.backward(mx.nd.array(random.normal(size=output.shape)))
        for name in case.wanted:
            gradient = executor.grad_dict[name]
            results[f"gradient {step} {name} {gradient.stype}"] = gradient.asnumpy()
            # In MXNet, the gradient for a row-wise output has all rows, zeros included.
            if gradient.stype == BY_ROWS and output.stype != BY_ROWS:
                results[f"rows {step} {name}"] = gradient.indices.asnumpy()
    return results


def record(mx: Any) -> dict[str, NDArray[Any]]:
    """Return the results of all cases."""
    return {
        f"{case_id}/{key}": value
        for case_id in CASES
        for key, value in run_case(mx, case_id).items()
    }
