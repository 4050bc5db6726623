"""``autograd.get_symbol``: recorded computations as symbols."""

from __future__ import annotations

import numpy as np
import pytest

import core as mx
from core import autograd, nd
from core.errors import MXNetError
from core.ndarray import NDArray


def variable(*values: float) -> NDArray:
    x = nd.array(values)
    x.attach_grad()
    return x


def test_get_symbol_gives_the_recorded_graph() -> None:
    x, z = variable(2.0), variable(5.0)
    with autograd.record():
        y = x * x + 2 * z - 1
    symbol = autograd.get_symbol(y)
    assert symbol.list_arguments() == ["var0", "var1"]
    executor = symbol.bind(mx.cpu(), {"var0": x, "var1": z})
    assert executor.forward()[0].asscalar() == y.asscalar()


def test_get_symbol_of_compiled_blocks() -> None:
    net, layer = mx.gluon.nn.HybridSequential(), mx.gluon.nn.Dense(2, in_units=2)
    net.add(mx.gluon.nn.Dense(2, in_units=2), mx.gluon.nn.BatchNorm(in_channels=2), layer)
    net.initialize()
    net.hybridize()
    layer.hybridize()
    x = nd.array([[1, 2], [3, 5]])
    with mx.autograd.record(train_mode=False):
        y = net(layer(x)) * 2
    symbol = autograd.get_symbol(y)
    # The layer used by both has one weight and one bias.
    assert len(symbol.list_arguments()) == 7
    assert len(symbol.list_auxiliary_states()) == 2
    shapes, _, states = symbol.infer_shape(var0=(2, 2))
    assert shapes is not None
    norm = net[1]
    order = [x, layer.weight, layer.bias, net[0].weight, net[0].bias, norm.gamma, norm.beta]
    arrays = [one if isinstance(one, nd.NDArray) else one.data() for one in order]
    states = [norm.running_mean.data(), norm.running_var.data()]
    executor = symbol.bind(mx.cpu(), arrays, aux_states=states)
    np.testing.assert_allclose(executor.forward()[0].asnumpy(), y.asnumpy(), rtol=1e-5, atol=1e-6)


def test_get_symbol_of_indexing_and_copies() -> None:
    x = nd.arange(24).reshape((2, 3, 4))
    x.attach_grad()
    with autograd.record():
        y = (x[1, :, None, 1:3] * 3).astype("float64").copy()
    symbol = autograd.get_symbol(y)
    executor = symbol.bind(mx.cpu(), {"var0": x})
    assert np.array_equal(executor.forward()[0].asnumpy(), y.asnumpy())


def test_get_symbol_refuses_what_is_not_a_recorded_graph() -> None:
    x = variable(1, 2)
    with pytest.raises(MXNetError, match="not in a recorded"):
        autograd.get_symbol(x * 2)
    with autograd.record():
        y = x[[0, 1]] * 2
    with pytest.raises(MXNetError, match="IndexNode cannot be part of a symbol"):
        autograd.get_symbol(y)
    with pytest.raises(TypeError, match="list"):
        autograd.get_symbol([x])
