"""``Executor.reshape``, with the values of MXNet's own test (test_executor.py, test_reshape)."""

import numpy as np
import pytest

import core.symbol as sym
from core.device import cpu
from core.errors import ShapeError


@pytest.fixture
def layer():
    exe = sym.FullyConnected(sym.Variable("x"), num_hidden=4, name="fc").simple_bind(
        cpu(), x=(5, 4), grad_req="null"
    )
    exe.arg_arrays[0][:] = 1
    exe.arg_arrays[1][:] = np.ones((4, 4), np.float32)
    exe.arg_arrays[2][:] = 0
    return exe


def test_a_smaller_shape_shares_memory(layer):
    small = layer.reshape(x=(3, 4))
    small.forward(is_train=False)
    assert (small.outputs[0].asnumpy() == 4).all()
    assert small.outputs[0].shape == (3, 4)
    assert small.arg_arrays[1] is layer.arg_arrays[1]
    small.arg_arrays[0][:] = 2
    layer.forward()
    np.testing.assert_array_equal(layer.outputs[0].asnumpy()[:, 0], [8, 8, 8, 4, 4])


def test_a_larger_shape_needs_allow_up_sizing(layer):
    with pytest.raises(ShapeError, match=r"\(6, 4\) of 'x' is larger.*allow_up_sizing=True"):
        layer.reshape(x=(6, 4))
    large = layer.reshape(allow_up_sizing=True, x=(6, 4))
    large.arg_arrays[0][:] = 0
    assert (large.forward()[0].asnumpy() == 0).all()
    assert (layer.forward()[0].asnumpy() == 4).all()


def test_changing_other_arguments_needs_partial_shaping(layer):
    with pytest.raises(ShapeError, match=r"fc_weight.*partial_shaping=True"):
        layer.reshape(x=(5, 2))
    narrow = layer.reshape(partial_shaping=True, x=(5, 2))
    assert narrow.arg_arrays[1].shape == (4, 2)
    assert (narrow.forward()[0].asnumpy() == 2).all()


def test_gradients_are_reshaped_too():
    exe = sym.square(sym.Variable("x")).simple_bind(cpu(), x=(4, 2), grad_req="add")
    small = exe.reshape(x=(2, 2))
    small.forward(is_train=True, x=np.full((2, 2), 3, np.float32))
    small.backward(small.outputs[0].copy())
    assert small.grad_arrays[0].shape == (2, 2)
    np.testing.assert_array_equal(exe.grad_arrays[0].asnumpy()[:, 0], [54, 54, 0, 0])


def test_inputs_that_need_not_change_are_kept():
    net = sym.broadcast_add(sym.Variable("x"), sym.Variable("offset"))
    exe = net.simple_bind(cpu(), x=(4, 2), offset=(1, 2))
    assert exe.reshape(x=(2, 2)).arg_dict["offset"] is exe.arg_dict["offset"]


def test_a_contradicting_shape_is_refused(layer):
    with pytest.raises(ShapeError):
        layer.reshape(x=(3, 4), fc_weight=(4, 5))


def test_dtypes_are_kept():
    exe = sym.square(sym.Variable("x")).simple_bind(cpu(), type_dict={"x": "float64"}, x=(4,))
    assert exe.reshape(x=(2,)).outputs[0].dtype == np.float64


def test_the_monitor_is_kept(layer):
    seen = []
    layer.set_monitor_callback(lambda name, values: seen.append((name, values.shape)))
    layer.reshape(x=(2, 4)).forward()
    assert seen == [(layer._symbol.list_outputs()[0], (2, 4))]


def test_an_unknown_name_is_an_error(layer):
    with pytest.raises(ShapeError, match="the graph has no input 'fc_weigth'; did you mean"):
        layer.reshape(fc_weigth=(4, 4))
