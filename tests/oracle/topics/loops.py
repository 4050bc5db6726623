"""Loops and branches with subgraphs: JSON, outputs and gradients."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

__all__ = [
    "BRANCHES",
    "CASES",
    "build",
    "describe",
    "record",
    "run_case",
    "run_on_arrays",
    "write_files",
]

Built = tuple[Any, dict[str, tuple[int, ...]]]
"""A symbol, and shapes of all its inputs, or of those that the rest follows from.

Of conditions and while loops MXNet infers no shapes before they are bound.
"""


def _cell(mx: Any, hidden: int) -> Any:
    """A step of a recurrent layer; its parameters are created inside."""

    def step(x: Any, state: Any) -> Any:
        i2h = mx.sym.FullyConnected(x, num_hidden=hidden, name="i2h")
        h2h = mx.sym.FullyConnected(state, num_hidden=hidden, no_bias=True, name="h2h")
        out = mx.sym.Activation(i2h + h2h, act_type="tanh", name="out")
        return out, out

    return step


def rnn(mx: Any) -> Built:
    """A recurrent cell with its own parameters."""
    out, state = mx.sym.contrib.foreach(_cell(mx, 5), mx.sym.var("data"), mx.sym.var("state"))
    return mx.sym.Group([out * 2, state]), {"data": (4, 2, 3), "state": (2, 5)}


def lstm(mx: Any) -> Built:
    """Two states, and outer weights that the surrounding graph uses, too."""
    weight = mx.sym.var("weight", shape=(16, 7))

    def step(x: Any, states: Any) -> Any:
        hidden, cell = states
        gates = mx.sym.dot(mx.sym.concat(x, hidden, dim=1), weight, transpose_b=True)
        i, f, c, o = mx.sym.split(gates, num_outputs=4, axis=1)
        cell = mx.sym.sigmoid(f) * cell + mx.sym.sigmoid(i) * mx.sym.tanh(c)
        hidden = mx.sym.sigmoid(o) * mx.sym.tanh(cell)
        return hidden, [hidden, cell]

    out, states = mx.sym.contrib.foreach(
        step, mx.sym.var("data"), [mx.sym.var("h"), mx.sym.var("c")], name="lstm"
    )
    parts = [out, *states, mx.sym.sum(weight)]
    return mx.sym.Group(parts), {"data": (3, 2, 3), "h": (2, 4), "c": (2, 4)}


def several(mx: Any) -> Built:
    """Two data arrays, two states and a computed outer value, in another order than given."""
    free = mx.sym.var("f") + mx.sym.var("g")

    def step(data: Any, states: Any) -> Any:
        out = data[1] * 2 + states[0] * free + states[1] * 2 + data[0]
        return [out, out * 2], [out * 0.5, states[0] * 3]

    outs, states = mx.sym.contrib.foreach(
        step, [mx.sym.var("a"), mx.sym.var("b")], [mx.sym.var("s"), mx.sym.var("t")]
    )
    shapes = dict.fromkeys("ab", (3, 2)) | dict.fromkeys("stfg", (2,))
    return mx.sym.Group([*outs, *states]), shapes


def passed_through(mx: Any) -> Built:
    """The body returns a slice, a state and an outer value unchanged."""
    free = mx.sym.var("f")
    outs, states = mx.sym.contrib.foreach(
        lambda x, s: ([x, s, free], s * x), mx.sym.var("a"), mx.sym.var("s")
    )
    return mx.sym.Group([*outs, states]), {"a": (3, 2), "s": (2,), "f": (2,)}


def only_states(mx: Any) -> Built:
    """No output, only a state."""
    free = mx.sym.var("f")
    _, states = mx.sym.contrib.foreach(
        lambda x, s: ([], [x * s[0] * free]), mx.sym.var("a"), [mx.sym.var("s")]
    )
    return states[0], {"a": (3, 2), "s": (2,), "f": (2,)}


def without_states(mx: Any) -> Built:
    """No state."""
    free = mx.sym.var("f")
    out, _ = mx.sym.contrib.foreach(lambda x, s: (mx.sym.sin(x) * free, []), mx.sym.var("a"), [])
    return out, {"a": (3, 2), "f": (2,)}


def numbers(mx: Any) -> Built:
    """One-dimensional data, whose slices have shape (1,)."""
    outs, states = mx.sym.contrib.foreach(
        lambda x, s: ([x[1] * x[0] * s[0]], [s[0] * 2]),
        [mx.sym.var("a"), mx.sym.var("b")],
        [mx.sym.var("s")],
    )
    return mx.sym.Group([*outs, *states]), {"a": (3, 1), "b": (3,), "s": (1,)}


def nested(mx: Any) -> Built:
    """A loop inside a loop; both read an outer weight."""
    weight = mx.sym.var("w")

    def inner(x: Any, s: Any) -> Any:
        out = mx.sym.tanh(x * weight + s)
        return out, out

    def outer(x: Any, s: Any) -> Any:
        out, last = mx.sym.contrib.foreach(inner, x, s)
        return mx.sym.broadcast_add(out, mx.sym.expand_dims(s * weight, 0)), last

    out, last = mx.sym.contrib.foreach(outer, mx.sym.var("a"), mx.sym.var("s"))
    return mx.sym.Group([out, last]), {"a": (3, 4, 2), "s": (2,), "w": (2,)}


def while_states(mx: Any) -> Built:
    """Three loop variables, two outputs, an outer weight; five of at most eight iterations."""
    weight = mx.sym.var("w")
    outs, final = mx.sym.contrib.while_loop(
        lambda i, s, t: i < 5,
        lambda i, s, t: ([s * t, mx.sym.broadcast_mul(s, i)], [i + 1, s * weight + t, t - 0.1 * s]),
        [mx.sym.var("i") * 0, mx.sym.var("s"), mx.sym.var("t")],
        max_iterations=8,
    )
    shown = [mx.sym.slice_axis(one, axis=0, begin=0, end=5) for one in outs]
    return mx.sym.Group([*shown, *final]), {"i": (1,), **dict.fromkeys("stw", (3,))}


def while_full(mx: Any) -> Built:
    """All iterations that are allowed."""
    bound = mx.sym.var("bound")
    out, final = mx.sym.contrib.while_loop(
        lambda s: mx.sym.sum(s) > -100,
        lambda s: (mx.sym.sin(s), [mx.sym.sin(s) * bound]),
        [mx.sym.var("s")],
        max_iterations=3,
    )
    return mx.sym.Group([out, *final]), {"s": (2, 2), "bound": (2, 2)}


def while_without_outputs(mx: Any) -> Built:
    """A loop variable passed and returned without a list, and nothing else."""
    _, final = mx.sym.contrib.while_loop(
        lambda s: mx.sym.sum(s * s) < 50,
        lambda s: (None, s * 2),
        mx.sym.var("s"),
        max_iterations=20,
    )
    return final, {"s": (2,)}


def cond_else(mx: Any) -> Built:
    """The second branch runs, and shares an input with the condition."""
    a, b = mx.sym.var("a"), mx.sym.var("b")
    out = mx.sym.contrib.cond(
        mx.sym.sum(a) > 100,
        lambda: mx.sym.exp(a) * b,
        lambda: mx.sym.sin(b) * a,
        name="choice",
    )
    return out * 3, dict.fromkeys("ab", (2, 3))


def many_inputs(mx: Any) -> Built:
    """So many outer weights that lists in the JSON wrap to one line each."""
    weights = [mx.sym.var(f"w{index}") for index in range(11)]

    def step(x: Any, s: Any) -> Any:
        for weight in weights:
            s = s + x * weight
        return s, s

    out, _ = mx.sym.contrib.foreach(step, mx.sym.var("a"), mx.sym.var("s"))
    shapes = {f"w{index}": (2,) for index in range(11)}
    return out, {"a": (3, 2), "s": (2,), **shapes}


def cond_in_foreach(F: Any, a: Any, s: Any, w: Any) -> list[Any]:
    """A branch in a loop; both branches are taken."""

    def step(x: Any, s: Any) -> Any:
        out = F.contrib.cond(F.sum(x) < 0, lambda: x * w + s, lambda: F.sin(s) - x)
        return out, out

    out, last = F.contrib.foreach(step, a, s)
    return [out, last]


def while_in_foreach(F: Any, a: Any, s: Any, w: Any) -> list[Any]:
    """A loop whose number of iterations differs for every slice."""

    def step(x: Any, s: Any) -> Any:
        _, (last, total) = F.contrib.while_loop(
            lambda y, t: F.sum(y * y) < 20,
            lambda y, t: ([], [y * 2, t + y * w]),
            [x, F.sin(s)],
            max_iterations=9,
        )
        return total + s, last * s

    out, last = F.contrib.foreach(step, a, s)
    return [out, last]


def while_in_cond(F: Any, a: Any, s: Any, w: Any) -> list[Any]:
    """A loop inside a branch, with a condition that reads a value computed outside."""
    bound = F.sum(s * s) * 100 + 10

    def loop() -> Any:
        _, final = F.contrib.while_loop(
            lambda y: F.sum(y * y) < bound,
            lambda y: ([], [F.broadcast_add(y * 2, w)]),
            [a],
            max_iterations=9,
        )
        return final[0]

    return [F.contrib.cond(F.sum(s * s) > 0, loop, lambda: a * 2)]


def cond_of_several(F: Any, a: Any, s: Any, w: Any) -> list[Any]:
    """Several outputs, one of them an unchanged input; both branches read a computed value."""
    product = F.broadcast_mul(a, F.expand_dims(s * w, 0))
    return F.contrib.cond(
        F.sum(a * a) > 0,
        lambda: [(a + 5) * product, s],
        lambda: [(a - 5) * product, w],
    )


def cond_not_taken(F: Any, a: Any, s: Any, w: Any) -> list[Any]:
    """The second branch runs; only the first reads an input."""
    return [F.contrib.cond(F.sum(a * a) < 0, lambda: F.broadcast_mul(a, w), lambda: a * a)]


def while_never(F: Any, a: Any, s: Any, w: Any) -> list[Any]:
    """No iterations at all."""
    _, final = F.contrib.while_loop(
        lambda x, y: F.sum(x * x) < 0,
        lambda x, y: ([], [F.broadcast_mul(x, w), y * w]),
        [a, s],
        max_iterations=3,
    )
    return final


BRANCHES: dict[str, Callable[..., list[Any]]] = {
    one.__name__: one
    for one in (
        cond_in_foreach,
        while_in_foreach,
        while_in_cond,
        cond_of_several,
        cond_not_taken,
        while_never,
    )
}
"""Cases that MXNet computes on arrays only: of the symbols it fails to infer shapes."""

BRANCH_SHAPES = {"a": (6, 2), "s": (2,), "w": (2,)}


CASES: dict[str, Callable[[Any], Built]] = {
    one.__name__: one
    for one in (
        rnn,
        lstm,
        several,
        passed_through,
        only_states,
        without_states,
        numbers,
        nested,
        while_states,
        while_full,
        while_without_outputs,
        cond_else,
        many_inputs,
    )
}


def build(mx: Any, case_id: str) -> Built:
    """Compose a case, with automatic names counted from 0."""
    mx.attribute.AttrScope._subgraph_names = defaultdict(int)
    with mx.name.NameManager():
        if case_id in CASES:
            return CASES[case_id](mx)
        variables = [mx.sym.var(name) for name in BRANCH_SHAPES]
        symbol = mx.sym.Group(BRANCHES[case_id](mx.sym, *variables))
    return symbol, {name: BRANCH_SHAPES[name] for name in symbol.list_arguments()}


def describe(symbol: Any) -> dict[str, list[str]]:
    """Return the names that a symbol lists."""
    return {
        "arguments": symbol.list_arguments(),
        "auxiliary": symbol.list_auxiliary_states(),
        "outputs": symbol.list_outputs(),
        "internals": symbol.get_internals().list_outputs(),
    }


def run_case(
    mx: Any, case_id: str, grad_req: str = "write", symbol: Any = None, context: Any = None
) -> dict[str, np.ndarray]:
    """Run forward and backward twice with head gradients of ones; return the final state."""
    built, given = build(mx, case_id)
    context = context or mx.cpu()
    symbol = built if symbol is None else symbol
    random = np.random.RandomState(len(case_id))
    names = symbol.list_arguments()
    if not set(names) <= set(given):
        given = dict(zip(names, symbol.infer_shape(**given)[0], strict=True))
    arrays = {name: mx.nd.array(random.normal(size=given[name]) + 0.1, context) for name in names}
    executor = symbol.bind(
        context,
        arrays,
        args_grad={name: mx.nd.ones(array.shape, context) for name, array in arrays.items()},
        grad_req=grad_req,
    )
    heads = [
        mx.nd.array(random.normal(size=output.shape), context)
        for output in executor.forward(is_train=True)
    ]
    for _ in range(2):
        outputs = executor.forward(is_train=True)
        executor.backward(heads)
    results = {f"out{index}": output.asnumpy().copy() for index, output in enumerate(outputs)}
    for name in names:
        results[f"grad_{name}"] = executor.grad_dict[name].asnumpy().copy()
    outputs = executor.forward(is_train=False)
    results.update({f"infer{i}": output.asnumpy().copy() for i, output in enumerate(outputs)})
    return results


def run_on_arrays(mx: Any, case_id: str) -> dict[str, np.ndarray]:
    """Run a case of ``BRANCHES`` like ``run_case`` does, using the functions for arrays."""
    random = np.random.RandomState(len(case_id))
    names = build(mx, case_id)[0].list_arguments()
    arrays = {name: mx.nd.zeros(shape) for name, shape in BRANCH_SHAPES.items()}
    for name in names:
        arrays[name] = mx.nd.array(random.normal(size=BRANCH_SHAPES[name]) + 0.1)
    for array in arrays.values():
        array.attach_grad()
    with mx.autograd.record():
        outputs = BRANCHES[case_id](mx.nd, *arrays.values())
    heads = [mx.nd.array(random.normal(size=output.shape)) for output in outputs]
    mx.autograd.backward(outputs, heads)
    values = [output.asnumpy() for output in outputs]
    return {
        **{f"out{index}": value for index, value in enumerate(values)},
        **{f"grad_{name}": arrays[name].grad.asnumpy() for name in names},
        **{f"infer{index}": value for index, value in enumerate(values)},
    }


def record(mx: Any) -> dict[str, np.ndarray]:
    """Return the results of all cases, with gradients written.

    MXNet does not add them right: it loses some where a body uses an input more than once.
    """
    return {
        f"{case_id}/{key}": value
        for case_id in (*CASES, *BRANCHES)
        for key, value in (run_case if case_id in CASES else run_on_arrays)(mx, case_id).items()
    }


def write_files(mx: Any, folder: Path) -> None:
    """Write the JSON of all cases."""
    for case_id in (*CASES, *BRANCHES):
        (folder / f"{case_id}.json").write_text(build(mx, case_id)[0].tojson())
