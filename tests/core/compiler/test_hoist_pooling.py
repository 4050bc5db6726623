"""Average pooling is moved before 1x1 convolutions."""

from __future__ import annotations

import numpy as np
import pytest

import core as mx
from core.compiler.compile import CompileOptions
from core.executor import bind

Symbol = mx.sym.Symbol
AS_WRITTEN = CompileOptions(rewrite=False, table=None)
DATA = mx.sym.Variable("data")


def layer(data: Symbol = DATA, name: str = "layer", kernel: tuple[int, ...] = (1, 1)) -> Symbol:
    return mx.sym.Convolution(data, name=name, num_filter=4, kernel=kernel)


def halved(data: Symbol, **others: object) -> Symbol:
    attributes = {"kernel": (2, 2), "stride": (2, 2), "pool_type": "avg", **others}
    return mx.sym.Pooling(data, **attributes)


def run(
    symbol: Symbol, shape: tuple[int, ...], options: CompileOptions | None
) -> tuple[list[str], list[np.ndarray]]:
    """Return the operators of the first pass, the outputs and the gradients."""
    rng = np.random.default_rng(1)
    shapes, _, _ = symbol.infer_shape(data=shape)
    names = symbol.list_arguments()
    arguments = {
        name: mx.nd.array(rng.standard_normal(shape).astype("float32"))
        for name, shape in zip(names, shapes, strict=True)
    }
    gradients = {name: mx.nd.zeros(array.shape) for name, array in arguments.items()}
    executor = bind(symbol, mx.cpu(), arguments, gradients, options=options)
    outputs = executor.forward(is_train=True)
    heads = [mx.nd.array(rng.standard_normal(one.shape).astype("float32")) for one in outputs]
    executor.backward(heads)
    inference = executor.forward(is_train=False)
    found = [one.asnumpy() for one in (*outputs, *inference, *gradients.values())]
    (program,) = (plan.compiled.program for mode, plan in executor._plans.items() if mode.is_train)
    return [step.op.names[0] for step in program.forward_steps], found


def compared(symbol: Symbol, shape: tuple[int, ...] = (2, 6, 8, 10)) -> list[str]:
    names, got = run(symbol, shape, None)
    _, expected = run(symbol, shape, AS_WRITTEN)
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5 * np.abs(other).max())
    return [name for name in names if name in ("Convolution", "Pooling")]


@pytest.mark.parametrize(
    ("symbol", "shape"),
    [
        (halved(layer()), (2, 6, 8, 10)),
        (halved(layer(), kernel=(3, 3), stride=(1, 1)), (2, 6, 8, 10)),
        (halved(layer(), pooling_convention="full"), (2, 6, 8, 10)),
        (halved(layer(), global_pool=True), (2, 6, 8, 10)),
        (halved(layer(kernel=(1,)), kernel=(2,), stride=(2,)), (2, 6, 8)),
        (halved(mx.sym.Convolution(DATA, num_filter=4, kernel=(1, 1), num_group=2)), (2, 6, 8, 8)),
    ],
    ids=["halved", "overlapping", "full", "global", "sequence", "groups"],
)
def test_pooling_moves_before_a_pointwise_convolution(
    symbol: Symbol, shape: tuple[int, ...]
) -> None:
    assert compared(symbol, shape) == ["Pooling", "Convolution"]


@pytest.mark.parametrize(
    ("symbol", "shape"),
    [
        (halved(layer(kernel=(3, 3))), (2, 6, 8, 10)),
        (halved(layer(), pool_type="max"), (2, 6, 8, 10)),
        (halved(layer(), pool_type="sum"), (2, 6, 8, 10)),
        (halved(layer(), pad=(1, 1)), (2, 6, 8, 10)),
        (halved(layer(), pooling_convention="full"), (2, 6, 7, 9)),
        (halved(mx.sym.relu(layer())), (2, 6, 8, 10)),
        (halved(layer(), kernel=(1, 1), stride=(1, 1)), (2, 6, 8, 10)),
    ],
    ids=["3x3", "max", "sum", "padded", "overrun", "relu", "no smaller"],
)
def test_other_layers_keep_their_order(symbol: Symbol, shape: tuple[int, ...]) -> None:
    assert compared(symbol, shape) == ["Convolution", "Pooling"]


def test_a_convolution_that_others_read_keeps_its_place() -> None:
    first = layer()
    assert compared(mx.sym.Group([halved(first), mx.sym.exp(first)])) == ["Convolution", "Pooling"]
    assert compared(mx.sym.Group([halved(first), first])) == ["Convolution", "Pooling"]


def test_pooling_moves_before_several_convolutions() -> None:
    symbol = halved(layer(layer(), "second"))
    assert compared(symbol) == ["Pooling", "Convolution", "Convolution"]
