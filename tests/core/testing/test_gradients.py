"""Gradient checks accept right gradients and reject wrong ones."""

from typing import Any

import numpy as np
import pytest

import core as mx
from core.test_utils import (
    check_consistency,
    check_numeric_gradient,
    check_symbolic_backward,
    check_symbolic_forward,
    compare_optimizer,
    simple_forward,
)

A, B = np.arange(6.0).reshape(2, 3) - 2, np.arange(12.0).reshape(3, 4) / 5


class WrongTanh(mx.operator.CustomOp):
    def forward(self, is_train: bool, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
        self.assign(out_data[0], req[0], mx.nd.tanh(in_data[0]))

    def backward(
        self, req: Any, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any
    ) -> None:
        self.assign(in_grad[0], req[0], out_grad[0])


@mx.operator.register("testing_wrong_tanh")
class WrongTanhProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx: Any, shapes: Any, dtypes: Any) -> WrongTanh:
        return WrongTanh()


def product() -> mx.sym.Symbol:
    return mx.sym.dot(mx.sym.Variable("a"), mx.sym.Variable("b"))


def test_simple_forward_returns_numpy() -> None:
    np.testing.assert_allclose(simple_forward(product(), a=A, b=B), A @ B, rtol=1e-6)
    both = simple_forward(mx.sym.Group([product(), mx.sym.Variable("a")]), a=A, b=B)
    assert len(both) == 2


@pytest.mark.parametrize("location", [[A, B], {"b": B, "a": A}], ids=["in order", "by name"])
def test_check_symbolic_forward(location: Any) -> None:
    (output,) = check_symbolic_forward(product(), location, [A @ B])
    assert output.shape == (2, 4)
    with pytest.raises(AssertionError, match="EXPECTED_"):
        check_symbolic_forward(product(), location, [A @ B + 1])


@pytest.mark.parametrize("grad_req", ["write", "add", {"a": "null", "b": "write"}], ids=str)
def test_check_symbolic_backward(grad_req: Any) -> None:
    head = np.arange(8.0).reshape(2, 4)
    expected = {"a": head @ B.T, "b": A.T @ head}
    check_symbolic_backward(product(), [A, B], [head], expected, grad_req=grad_req)
    with pytest.raises(AssertionError, match="BACKWARD_b"):
        check_symbolic_backward(
            product(), [A, B], [head], {"b": expected["b"] + 1}, grad_req=grad_req
        )


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ValueError, match="do not match"):
        check_symbolic_forward(product(), {"a": A}, [A @ B])
    with pytest.raises(ValueError, match="aux_states"):
        check_symbolic_forward(product(), [A, B], [A @ B], aux_states={"mean": A})


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_check_numeric_gradient_accepts_a_right_gradient(dtype: type) -> None:
    check_numeric_gradient(product(), [A, B], rtol=1e-2, atol=1e-3, dtype=dtype)
    check_numeric_gradient(
        product(), [A, B], rtol=1e-2, atol=1e-3, grad_nodes={"a": "add"}, dtype=dtype
    )
    norm = mx.sym.BatchNorm(mx.sym.Variable("x"), fix_gamma=False, name="bn")
    states = [np.zeros(3), np.ones(3)]
    data = np.random.RandomState(0).randn(4, 3)
    check_numeric_gradient(norm, [data, np.ones(3), np.zeros(3)], states, rtol=0.1, atol=0.01)


def test_check_numeric_gradient_finds_a_wrong_one() -> None:
    wrong = mx.sym.Custom(mx.sym.Variable("x"), op_type="testing_wrong_tanh")
    with pytest.raises(AssertionError, match="BACKWARD_x"):
        check_numeric_gradient(wrong, [A], rtol=1e-2, atol=1e-3)


def test_check_consistency_passes_over_contexts_and_dtypes() -> None:
    sym = mx.sym.FullyConnected(name="fc", num_hidden=3)
    dtypes = (np.float16, np.float64, np.float32)
    bindings = [
        {"ctx": mx.cpu(i), "fc_data": (2, 4), "type_dict": {"fc_data": dtype}}
        for i, dtype in enumerate(dtypes)
    ]
    truth = check_consistency(sym, bindings)
    assert truth["fc_output"].dtype == np.float64
    assert set(truth) == {"fc_output", "fc_data", "fc_weight", "fc_bias"}
    assert set(check_consistency(sym, bindings, grad_req="null")) == {"fc_output"}


def test_check_consistency_finds_a_difference() -> None:
    data = mx.sym.Variable("data")
    bindings = [{"ctx": mx.cpu(), "data": (2, 4)}] * 2
    symbols = [mx.sym.relu(data, name="y"), mx.sym.tanh(data, name="y")]
    with pytest.raises(AssertionError) as caught:
        check_consistency(symbols, bindings)
    assert "y_output" in caught.value.__notes__[0]
    wrong = mx.sym.Custom(data, op_type="testing_wrong_tanh", name="y")
    with pytest.raises(AssertionError) as caught:
        check_consistency([mx.sym.tanh(data, name="y"), wrong], bindings)
    assert "training" in caught.value.__notes__[0]


def test_optimizers_are_compared() -> None:
    def sgd(**options: Any) -> mx.optimizer.Optimizer:
        return mx.optimizer.SGD(learning_rate=0.1, **options)

    compare_optimizer(sgd(momentum=0.9), sgd(momentum=0.9), (3, 4), np.float32)
    compare_optimizer(
        sgd(momentum=0.9, lazy_update=False),
        sgd(momentum=0.9, lazy_update=False),
        (3, 4),
        np.float32,
        w_stype="row_sparse",
        g_stype="row_sparse",
    )
    compare_optimizer(sgd(wd=0.1), sgd(wd=0.1), [(3, 4), (5,)], np.float32, ntensors=2)
    with pytest.raises(AssertionError):
        compare_optimizer(sgd(), sgd(wd=0.5), (3, 4), np.float32)


def test_sparse_arguments_and_gradients_are_compared() -> None:
    left = mx.nd.array(A).tostype("csr")
    check_symbolic_forward(product(), {"a": left, "b": B}, [A @ B])
    head = np.ones((2, 4))
    gradients = check_symbolic_backward(
        product(),
        {"a": left, "b": B},
        [head],
        {"b": A.T @ head},
        grad_req={"a": "null", "b": "write"},
        grad_stypes={"b": "row_sparse"},
    )
    assert gradients["b"].stype == "row_sparse"
    check_numeric_gradient(
        product(), [A, B], rtol=1e-2, atol=1e-3, grad_stype_dict={"b": "row_sparse"}
    )
