"""Gradients through graphs whose values fork, join, end early or are outputs themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["CASES", "record", "run_case"]

SHAPE = (3, 4)


def forked(mx: Any) -> Any:
    """Use one variable five times."""
    x = mx.sym.Variable("x")
    return x * x + mx.sym.tanh(x) * x + x


def forked_inside(mx: Any) -> Any:
    """Use one inner value three times, twice in one operator."""
    y = mx.sym.exp(mx.sym.Variable("x"), name="inner")
    return mx.sym.broadcast_mul(y, y) - mx.sym.sigmoid(y)


def variable_as_head(mx: Any) -> Any:
    """Output an argument beside a function of it."""
    x = mx.sym.Variable("x")
    return mx.sym.Group([x, x * 2])


def inner_head(mx: Any) -> Any:
    """Output a value that another output depends on."""
    y = mx.sym.square(mx.sym.Variable("x"))
    return mx.sym.Group([y, mx.sym.sqrt(y + 1)])


def unused_output(mx: Any) -> Any:
    """Leave one of three outputs without a reader."""
    parts = mx.sym.SliceChannel(mx.sym.Variable("x"), num_outputs=2, axis=1)
    return parts[1] * 3


def blocked(mx: Any) -> Any:
    """Stop the gradient on one of two paths."""
    x, y = mx.sym.Variable("x"), mx.sym.Variable("y")
    return mx.sym.BlockGrad(x * y) + x


def blocked_everywhere(mx: Any) -> Any:
    """Let no gradient reach one of the arguments."""
    x, y = mx.sym.Variable("x"), mx.sym.Variable("y")
    return mx.sym.Group([mx.sym.BlockGrad(x), y * y])


def views(mx: Any) -> Any:
    """Reshape there and back, on one path with arithmetic in between."""
    x = mx.sym.Variable("x")
    flat = mx.sym.reshape(x, shape=(-1,))
    back = mx.sym.reshape(flat, shape=SHAPE)
    return mx.sym.Group([back * x, mx.sym.Flatten(back), flat])


def in_place_chain(mx: Any) -> Any:
    """Chain operators that could all work in place, and output a value from the middle."""
    y = mx.sym.Activation(mx.sym.Variable("x") + 1, act_type="relu")
    z = mx.sym.Activation(y * 2, act_type="tanh")
    return mx.sym.Group([mx.sym.Activation(z - 1, act_type="sigmoid"), y])


def sum_of_many(mx: Any) -> Any:
    """Add the same value and others in one operator."""
    x, y = mx.sym.Variable("x"), mx.sym.Variable("y")
    z = mx.sym.square(x)
    return mx.sym.add_n(z, y, z, x, mx.sym.negative(y))


def joined(mx: Any) -> Any:
    """Concatenate a value with itself."""
    x = mx.sym.Variable("x")
    return mx.sym.Concat(x, mx.sym.sin(x), x, dim=0)


def tied_weights(mx: Any) -> Any:
    """Multiply by one weight twice, like an autoencoder."""
    w = mx.sym.Variable("w", shape=(5, 4))
    hidden = mx.sym.FullyConnected(mx.sym.Variable("x"), w, num_hidden=5, no_bias=True)
    return mx.sym.dot(mx.sym.tanh(hidden), w)


def loss_and_features(mx: Any) -> Any:
    """Output a loss, which ignores its head gradient, beside its input, which does not."""
    x = mx.sym.FullyConnected(mx.sym.Variable("x"), num_hidden=4, name="fc")
    return mx.sym.Group([mx.sym.SoftmaxOutput(x, name="softmax"), x])


CASES: dict[str, Callable[[Any], Any]] = {
    build.__name__: build
    for build in (
        forked,
        forked_inside,
        variable_as_head,
        inner_head,
        unused_output,
        blocked,
        blocked_everywhere,
        views,
        in_place_chain,
        sum_of_many,
        joined,
        tied_weights,
        loss_and_features,
    )
}


def run_case(mx: Any, case_id: str, grad_req: str = "write") -> dict[str, np.ndarray]:
    """Run forward and backward twice; return outputs and gradients after each backward pass."""
    symbol = CASES[case_id](mx)
    random = np.random.RandomState(len(case_id))
    given = {name: SHAPE for name in ("x", "y") if name in symbol.list_arguments()}
    shapes, output_shapes, _ = symbol.infer_shape(**given)
    names = symbol.list_arguments()
    arrays = [
        random.randint(0, 4, shape) if name.endswith("label") else random.normal(size=shape)
        for name, shape in zip(names, shapes, strict=True)
    ]
    heads = [random.normal(size=shape) for shape in output_shapes]
    wanted = {
        name: shape for name, shape in zip(names, shapes, strict=True) if not name.endswith("label")
    }
    executor = symbol.bind(
        mx.cpu(),
        {name: mx.nd.array(x) for name, x in zip(names, arrays, strict=True)},
        args_grad={name: mx.nd.ones(shape) for name, shape in wanted.items()},
        grad_req={name: grad_req for name in wanted},
    )
    results: dict[str, np.ndarray] = {}
    for number in range(2):
        outputs = executor.forward(is_train=True)
        executor.backward([mx.nd.array(head) for head in heads])
        for i, output in enumerate(outputs):
            results[f"pass{number}/out{i}"] = output.asnumpy().copy()
        for name in wanted:
            results[f"pass{number}/grad_{name}"] = executor.grad_dict[name].asnumpy().copy()
    return results


def record(mx: Any) -> dict[str, np.ndarray]:
    """Return the results of all cases, with gradients written and added."""
    return {
        f"{case_id}/{grad_req}/{key}": value
        for case_id in CASES
        for grad_req in ("write", "add")
        for key, value in run_case(mx, case_id, grad_req).items()
    }
