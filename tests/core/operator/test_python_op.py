"""The deprecated NumpyOp and NDArrayOp, against results by hand."""

from __future__ import annotations

import numpy as np
import pytest

import core as mx

X = np.array([[1, -2, 3]], np.float32)


class Weighted:
    """``2 x + y`` with its gradient, for NumPy arrays and NDArrays."""

    def list_arguments(self):
        return ["x", "y"]

    def list_outputs(self):
        return ["sum", "copy"]

    def infer_shape(self, in_shape):
        return [in_shape[0]] * 2, [in_shape[0]] * 2

    def forward(self, in_data, out_data):
        self.seen = type(in_data[0])
        out_data[0][:] = 2 * in_data[0] + in_data[1]
        out_data[1][:] = in_data[0]

    def backward(self, out_grad, in_data, out_data, in_grad):
        in_grad[0][:] = 2 * out_grad[0] + out_grad[1]
        in_grad[1][:] = out_grad[0]


class InNumPy(Weighted, mx.operator.NumpyOp):
    pass


class InNDArrays(Weighted, mx.operator.NDArrayOp):
    pass


@pytest.fixture(params=[(InNumPy, np.ndarray), (InNDArrays, mx.nd.NDArray)], ids=["np", "nd"])
def kind(request):
    return request.param


def test_forward_and_backward_run_the_class(kind) -> None:
    cls, seen = kind
    with pytest.warns(DeprecationWarning, match="use CustomOp"):
        op = cls()
    out = op(mx.sym.Variable("x"), mx.sym.Variable("y"), name="w")
    assert out.list_arguments() == ["x", "y"]
    assert out.list_outputs() == ["w_sum", "w_copy"]
    exe = out.simple_bind(mx.cpu(), x=X.shape)
    total, copy = exe.forward(is_train=True, x=X, y=10 * X)
    np.testing.assert_array_equal(total.asnumpy(), 12 * X)
    np.testing.assert_array_equal(copy.asnumpy(), X)
    assert op.seen is seen
    exe.backward([mx.nd.array(X), mx.nd.array(100 * X)])
    np.testing.assert_array_equal(exe.grad_dict["x"].asnumpy(), 102 * X)
    np.testing.assert_array_equal(exe.grad_dict["y"].asnumpy(), X)


@pytest.mark.parametrize("cls", [mx.operator.NumpyOp, mx.operator.NDArrayOp])
def test_the_base_class_is_the_identity(cls) -> None:
    with pytest.warns(DeprecationWarning, match="use CustomOp"):
        exe = cls()(mx.sym.Variable("x")).simple_bind(mx.cpu(), x=X.shape)
    (out,) = exe.forward(is_train=True, x=X)
    np.testing.assert_array_equal(out.asnumpy(), X)
    exe.backward(mx.nd.array(X))
    np.testing.assert_array_equal(exe.grad_dict["x"].asnumpy(), np.ones_like(X))


def test_a_loss_needs_no_head_gradient() -> None:
    class Loss(mx.operator.NumpyOp):
        def __init__(self):
            super().__init__(need_top_grad=False)

        def backward(self, out_grad, in_data, out_data, in_grad):
            in_grad[0][:] = in_data[0] - 1

    with pytest.warns(DeprecationWarning, match="use CustomOp"):
        exe = Loss()(mx.sym.Variable("x")).simple_bind(mx.cpu(), x=X.shape)
    exe.forward(is_train=True, x=X)
    exe.backward()
    np.testing.assert_array_equal(exe.grad_dict["x"].asnumpy(), X - 1)


def test_the_common_base_class_cannot_make_a_symbol() -> None:
    with pytest.warns(DeprecationWarning, match="use CustomOp"):
        op = mx.operator.PythonOp()
    with pytest.raises(NotImplementedError, match="PythonOp must define get_symbol"):
        op(mx.sym.Variable("x"))
