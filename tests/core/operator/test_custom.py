"""Custom operators in Python, as symbols and on arrays, against built-in ones."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import core as mx
from core.errors import MXNetError, ShapeError, UnknownOperator
from core.ops import custom


class Square(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux) -> None:
        self.assign(out_data[0], req[0], in_data[0] * in_data[0])
        aux[0][:] = 1

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux) -> None:
        self.assign(in_grad[0], req[0], 2 * in_data[0] * out_grad[0])
        assert (aux[0].asnumpy() == 1).all()


@mx.operator.register("test_square")
class SquareProp(mx.operator.CustomOpProp):
    def list_auxiliary_states(self):
        return ["seen"]

    def infer_shape(self, in_shape):
        return in_shape, [in_shape[0]], [in_shape[0]]

    def create_operator(self, ctx, in_shapes, in_dtypes):
        return Square()


class Softmax(mx.operator.CustomOp):
    """The loss of MXNet's tutorial, in NumPy."""

    def forward(self, is_train, req, in_data, out_data, aux) -> None:
        x = in_data[0].asnumpy()
        y = np.exp(x - x.max(axis=1, keepdims=True))
        self.assign(out_data[0], req[0], mx.nd.array(y / y.sum(axis=1, keepdims=True)))

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux) -> None:
        label = in_data[1].asnumpy().astype(int)
        y = out_data[0].asnumpy()
        y[np.arange(len(label)), label] -= 1.0
        self.assign(in_grad[0], req[0], mx.nd.array(y))


@mx.operator.register("test_softmax")
class SoftmaxProp(mx.operator.CustomOpProp):
    def __init__(self, scale: str = "1") -> None:
        super().__init__(need_top_grad=False)
        self.scale = float(scale)

    def list_arguments(self):
        return ["data", "label"]

    def infer_shape(self, in_shape):
        return [in_shape[0], [in_shape[0][0]]], [in_shape[0]], []

    def create_operator(self, ctx, in_shapes, in_dtypes):
        return Softmax()


def test_missing_inputs_become_variables() -> None:
    loss = mx.sym.Custom(data=mx.sym.var("x"), op_type="test_softmax", name="softmax", scale=2)
    assert loss.list_arguments() == ["x", "softmax_label"]
    assert loss.list_outputs() == ["softmax_output"]
    assert loss.attr_dict()["softmax"] == {"op_type": "test_softmax", "scale": "2"}
    again = mx.sym.load_json(loss.tojson())
    assert again.tojson() == loss.tojson()
    shapes = again.infer_shape(x=(4, 3))
    assert shapes == ([(4, 3), (4,)], [(4, 3)], [])
    with pytest.raises(ShapeError, match=r"label has shape \(2,\), expected \(4,\)"):
        loss.infer_shape(x=(4,), softmax_label=(2,))


def test_a_loss_trains_like_the_built_in_one() -> None:
    """Ten steps with SoftmaxOutput and with its Python counterpart give the same weights."""
    random = np.random.RandomState(0)
    data, label = random.normal(size=(20, 5)), random.randint(0, 3, size=20)
    weights = []
    for custom_loss in (False, True):
        dense = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=3, name="fc")
        target = mx.sym.var("softmax_label")
        net: Any = mx.sym.SoftmaxOutput(dense, target, name="softmax")
        if custom_loss:
            net = mx.sym.Custom(dense, target, op_type="test_softmax", name="softmax")
        module = mx.mod.Module(net)
        iterator = mx.io.NDArrayIter(data, label, batch_size=10, label_name="softmax_label")
        module.fit(
            iterator,
            num_epoch=5,
            initializer=mx.init.Constant(0.1),
            optimizer_params={"learning_rate": 0.1},
        )
        weights.append(module.get_params()[0]["fc_weight"].asnumpy())
    assert not np.allclose(weights[0], 0.1)
    np.testing.assert_allclose(weights[1], weights[0], rtol=1e-5)


def test_custom_operators_on_arrays_are_recorded() -> None:
    x = mx.nd.array([1, -2, 3])
    x.attach_grad()
    seen = mx.nd.zeros(3)
    with mx.autograd.record():
        y = mx.nd.Custom(x, seen, op_type="test_square")
    y.backward(mx.nd.array([1, 10, 100]))
    assert y.asnumpy().tolist() == [1, 4, 9]
    assert x.grad.asnumpy().tolist() == [2, -40, 600]
    assert seen.asnumpy().tolist() == [1, 1, 1]
    named = mx.nd.Custom(data=x, seen=seen, op_type="test_square")
    assert named.asnumpy().tolist() == [1, 4, 9]


def test_an_executor_keeps_auxiliary_states_and_adds_gradients() -> None:
    net = mx.sym.Custom(mx.sym.var("x"), op_type="test_square", name="sq")
    assert net.list_auxiliary_states() == ["sq_seen"]
    executor = net.simple_bind(mx.cpu(), grad_req="add", x=(2,))
    executor.arg_dict["x"][:] = mx.nd.array([3, 4])
    executor.grad_dict["x"][:] = 1
    for _ in range(2):
        executor.forward(is_train=True)
        executor.backward(mx.nd.ones(2))
    assert executor.grad_dict["x"].asnumpy().tolist() == [13, 17]
    assert executor.aux_dict["sq_seen"].asnumpy().tolist() == [1, 1]


def test_each_use_creates_its_own_operator() -> None:
    class Remember(mx.operator.CustomOp):
        def forward(self, is_train, req, in_data, out_data, aux) -> None:
            self.seen = in_data[0].copy()
            self.assign(out_data[0], req[0], in_data[0])

        def backward(self, req, out_grad, in_data, out_data, in_grad, aux) -> None:
            self.assign(in_grad[0], req[0], self.seen)

    @mx.operator.register("test_remember")
    class RememberProp(mx.operator.CustomOpProp):
        def create_operator(self, ctx, in_shapes, in_dtypes):
            return Remember()

    a, b = mx.nd.array([1.0]), mx.nd.array([2.0])
    for x in (a, b):
        x.attach_grad()
    with mx.autograd.record():
        y = mx.nd.Custom(a, op_type="test_remember") + mx.nd.Custom(b, op_type="test_remember")
    y.backward()
    assert [float(x.grad.asscalar()) for x in (a, b)] == [1, 2]
    before = len(custom._instances._found)
    del y
    gc.collect()
    assert len(custom._instances._found) <= before


def test_a_later_registration_replaces_the_earlier() -> None:
    def add(amount: int) -> None:
        class Add(mx.operator.CustomOp):
            def forward(self, is_train, req, in_data, out_data, aux) -> None:
                self.assign(out_data[0], req[0], in_data[0] + amount)

        @mx.operator.register("test_add")
        class AddProp(mx.operator.CustomOpProp):
            def create_operator(self, ctx, in_shapes, in_dtypes):
                return Add()

    for amount in (1, 2):
        add(amount)
        assert mx.nd.Custom(mx.nd.zeros(1), op_type="test_add").asscalar() == amount
    assert "test_add" in custom.custom_names()
    assert "Custom" in mx.operator.get_all_registered_operators()


def test_errors_name_the_operator() -> None:
    with pytest.raises(UnknownOperator, match="'test_sqare' is not registered; did you mean"):
        mx.nd.Custom(mx.nd.zeros(1), op_type="test_sqare")

    @mx.operator.register("test_broken")
    class BrokenProp(mx.operator.CustomOpProp):
        def create_operator(self, ctx, in_shapes, in_dtypes):
            raise RuntimeError("no such device")

    with pytest.raises(MXNetError, match=r"BrokenProp\.create_operator of .*no such device"):
        mx.nd.Custom(mx.nd.zeros(1), op_type="test_broken").wait_to_read()

    @mx.operator.register("test_short")
    class ShortProp(mx.operator.CustomOpProp):
        def infer_shape(self, in_shape):
            return in_shape, []

    with pytest.raises(ShapeError, match=r"returned \[1, 0, 0\] entries; expected 1 for inputs, 1"):
        mx.nd.Custom(mx.nd.zeros(1), op_type="test_short")


def test_an_operator_may_have_no_inputs() -> None:
    """MXNet's test_operator has one; its dtype comes from the properties."""

    class Counting(mx.operator.CustomOp):
        def forward(self, is_train, req, in_data, out_data, aux) -> None:
            self.assign(out_data[0], req[0], np.arange(3))

    @mx.operator.register("test_counting")
    class CountingProp(mx.operator.CustomOpProp):
        def list_arguments(self):
            return []

        def infer_shape(self, in_shape):
            return [], [(3,)], []

        def infer_type(self, in_type):
            return [], [np.int32], []

        def create_operator(self, ctx, in_shapes, in_dtypes):
            return Counting()

    out = mx.nd.Custom(op_type="test_counting")
    assert out.dtype == np.int32
    np.testing.assert_array_equal(out.asnumpy(), [0, 1, 2])


def test_storage_types_are_dense_by_default() -> None:
    prop = SquareProp()
    assert prop.infer_storage_type(["default"]) == (["default"], ["default"], ["default"])
    found = prop.infer_storage_type_backward(
        ["default"], ["default"], ["default"], ["undefined"], ["default"]
    )
    assert found == (["default"],) * 5
    with pytest.raises(AssertionError, match=r"in_stype\[0\] is 'csr'"):
        prop.infer_storage_type(["csr"])
    with pytest.raises(AssertionError, match=r"ograd_stype\[0\] is 'row_sparse'"):
        prop.infer_storage_type_backward(["row_sparse"], [], [], [], [])
