"""The layer that plans make of unrolled cells, against the RNN operator."""

from __future__ import annotations

import numpy as np
import pytest

import core as mx
from core.compiler.recurrent import RecurrentLayer
from core.ops import Run
from core.random import device_random

STEPS, BATCH, INPUTS, HIDDEN = 4, 2, 3, 5
ORDERS = {"lstm": (2, 0, 3, 1), "gru": (1, 2, 0), "rnn_tanh": (0,), "rnn_relu": (0,)}


@pytest.mark.parametrize("mode", ORDERS)
def test_it_matches_the_operator_in_any_order_of_gates(mode: str) -> None:
    layer = RecurrentLayer(mode, HIDDEN, ORDERS[mode])
    run = Run(np, True, device_random(mx.cpu()), np.empty)
    shapes, out_shapes = _shapes(layer)
    random = np.random.RandomState(1)
    inputs = [random.normal(size=shape) for shape in shapes]
    outputs = [np.empty(shape) for shape in out_shapes]
    layer.forward(run, inputs, outputs)
    grads = [random.normal(size=shape) for shape in out_shapes[:-1]]
    in_grads = [np.empty(shape) for shape in shapes]
    layer.backward(run, [*grads, None], inputs, outputs, in_grads)

    states = layer.state_count
    executor = mx.sym.RNN(
        mx.sym.Variable("data"), state_size=HIDDEN, num_layers=1, mode=mode, state_outputs=True
    ).bind(
        mx.cpu(),
        [
            mx.nd.array(one, dtype="float64")
            for one in (
                inputs[0],
                _joined(layer, inputs),
                *(s[None] for s in inputs[1 : 1 + states]),
            )
        ],
        [mx.nd.zeros(shape, dtype="float64") for shape in _rnn_shapes(layer, shapes)],
    )
    expected = executor.forward(is_train=True)
    for got, wanted in zip(outputs, expected, strict=False):
        np.testing.assert_allclose(got, wanted.asnumpy().reshape(got.shape), rtol=1e-10)
    head_grads = [grads[0], *(grad[None] for grad in grads[1:])]
    executor.backward([mx.nd.array(grad, dtype="float64") for grad in head_grads])
    data, vector, *others = (grad.asnumpy() for grad in executor.grad_arrays)
    np.testing.assert_allclose(in_grads[0], data, rtol=1e-9)
    np.testing.assert_allclose(_joined(layer, in_grads), vector, rtol=1e-9)
    for got, wanted in zip(in_grads[1 : 1 + states], others, strict=True):
        np.testing.assert_allclose(got, wanted[0], rtol=1e-9)


def _shapes(layer: RecurrentLayer) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    unknown = [None] * (len(layer.input_names()) - 1), [None] * len(layer.output_names())
    return layer.infer_shape([(STEPS, BATCH, INPUTS), *unknown[0]], unknown[1])


def _rnn_shapes(layer: RecurrentLayer, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    states = [(1, *shape) for shape in shapes[1 : 1 + layer.state_count]]
    size = sum(int(np.prod(shape)) for shape in shapes[1 + layer.state_count :])
    return [shapes[0], (size,), *states]


def _joined(layer: RecurrentLayer, arrays: list[np.ndarray]) -> np.ndarray:
    """Return the parameters as the operator takes them: one vector, in its order of gates."""
    parameters = arrays[1 + layer.state_count :]
    gates = [one.reshape(len(layer.order), -1)[list(layer.order)] for one in parameters]
    return np.concatenate([one.ravel() for one in gates])
