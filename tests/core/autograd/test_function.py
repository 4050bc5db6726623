"""``autograd.Function``: functions with a custom gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from core import autograd, nd
from core.errors import MXNetError, ShapeError
from core.ndarray import NDArray


class Sigmoid(autograd.Function):
    def forward(self, x: NDArray) -> NDArray:
        y = 1 / (1 + nd.exp(-x))
        self.save_for_backward(y)
        return y

    def backward(self, dy: NDArray) -> NDArray:
        (y,) = self.saved_tensors
        return dy * y * (1 - y)


class QuotientAndProduct(autograd.Function):
    def forward(self, x: NDArray, y: NDArray) -> tuple[NDArray, NDArray]:
        self.save_for_backward(x, y)
        return x / y, x * y

    def backward(self, dm: NDArray, dn: NDArray) -> tuple[NDArray, NDArray]:
        x, y = self.saved_tensors
        return dm / y + dn * y, dn * x - dm * x / y / y


def pair() -> tuple[NDArray, NDArray]:
    x, y = nd.array([1, 2, 3]), nd.array([2, 5, 4])
    x.attach_grad()
    y.attach_grad()
    return x, y


def test_gradient_of_one_output() -> None:
    x, _ = pair()
    with autograd.record():
        y = Sigmoid()(x) * 2
    y.backward()
    s = 1 / (1 + np.exp(-x.asnumpy()))
    assert np.allclose(x.grad.asnumpy(), 2 * s * (1 - s))


def test_gradients_of_two_outputs() -> None:
    x, y = pair()
    with autograd.record():
        m, n = QuotientAndProduct()(x, y)
        autograd.backward([m, n])
    expected = x.grad.asnumpy(), y.grad.asnumpy()
    with autograd.record():
        autograd.backward([x / y, x * y])
    assert np.allclose(x.grad.asnumpy(), expected[0])
    assert np.allclose(y.grad.asnumpy(), expected[1])


def test_backward_gets_zeros_for_an_unused_output() -> None:
    x, y = pair()
    with autograd.record():
        _, n = QuotientAndProduct()(x, y)
    n.backward()
    assert np.array_equal(x.grad.asnumpy(), y.asnumpy())


def test_without_recording_only_forward_runs() -> None:
    x, _ = pair()
    y = Sigmoid()(x)
    assert y._origin is None
    with pytest.raises(MXNetError, match="not in a recorded"):
        y.backward()


def test_operations_inside_forward_are_not_recorded() -> None:
    seen = []

    class Watch(Sigmoid):
        def forward(self, x: NDArray) -> NDArray:
            seen.append(autograd.is_recording())
            return super().forward(x)

    x, _ = pair()
    with autograd.record():
        Watch()(x)
        assert autograd.is_recording()
    assert seen == [False]


def test_an_instance_can_be_called_only_once() -> None:
    function = Sigmoid()
    function(nd.ones(2))
    with pytest.raises(MXNetError, match="only be called once"):
        function(nd.ones(2))


def test_an_error_in_forward_restores_recording() -> None:
    class Failing(autograd.Function):
        def forward(self, x: NDArray) -> NDArray:
            raise KeyError("inside")

    with autograd.record():
        with pytest.raises(KeyError, match="inside"):
            Failing()(nd.ones(1))
        assert autograd.is_recording()


@pytest.mark.parametrize(
    ("returned", "error", "text"),
    [
        (lambda dy: (dy, dy), MXNetError, "Expecting 1 got 2"),
        (lambda dy: [dy.asnumpy()], TypeError, "ndarray; expected an NDArray"),
        (lambda dy: nd.ones(7), ShapeError, r"shape \(7,\), expected \(3,\)"),
    ],
)
def test_wrong_gradients_from_backward_are_refused(
    returned: Any, error: type[Exception], text: str
) -> None:
    class Bad(autograd.Function):
        def forward(self, x: NDArray) -> NDArray:
            return x * 2

        def backward(self, dy: NDArray) -> Any:
            return returned(dy)

    x, _ = pair()
    with autograd.record():
        y = Bad()(x)
    with pytest.raises(error, match=text):
        y.backward()


def test_forward_must_be_overridden() -> None:
    with pytest.raises(NotImplementedError, match="Function must define forward"):
        autograd.Function()(nd.ones(1))


def test_get_symbol_refuses_a_function() -> None:
    x, _ = pair()
    with autograd.record():
        y = Sigmoid()(x)
    with pytest.raises(MXNetError, match="FunctionNode cannot be part"):
        autograd.get_symbol(y)
