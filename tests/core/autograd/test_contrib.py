"""``mx.contrib.autograd``, the predecessor of ``mx.autograd``."""

from __future__ import annotations

import numpy as np
import pytest

import core as mx
from core.contrib import autograd as old


def test_train_and_test_sections_set_the_modes() -> None:
    x = mx.nd.ones((50, 20))
    with old.train_section():
        assert mx.autograd.is_recording()
        assert (mx.nd.Dropout(x, p=0.5).asnumpy() == 0).any()
        with old.test_section():
            assert not mx.autograd.is_recording()
            assert (mx.nd.Dropout(x, p=0.5).asnumpy() == 1).all()
        assert mx.autograd.is_training()
    assert not mx.autograd.is_recording()
    assert not mx.autograd.is_training()


def test_set_is_training_returns_the_previous_mode() -> None:
    assert old.set_is_training(True) is False
    assert old.set_is_training(False) is True
    assert not mx.autograd.is_training()


def test_grad_and_grad_and_loss_wrap_a_function() -> None:
    a, b = mx.nd.array([1, 2]), mx.nd.array([3, 5])
    gradients, value = old.grad_and_loss(lambda x, y: x * x * y)(a, b)
    assert value.asnumpy().tolist() == [3, 20]
    assert [one.asnumpy().tolist() for one in gradients] == [[6, 20], [1, 4]]
    (only,) = old.grad(lambda x, twice: x * 2 if twice else x, argnum=0)(a, True)
    assert only.asnumpy().tolist() == [2, 2]
    with pytest.raises(AssertionError, match="should NDArray"):
        old.grad(lambda x, twice: x)(a, True)


def test_backward_takes_several_outputs() -> None:
    x = mx.nd.ones((2, 2))
    dx = mx.nd.zeros_like(x)
    old.mark_variables([x], [dx])
    with old.train_section():
        outputs = [x * 2, x * 3]
        old.backward(outputs, [None, mx.nd.full((2, 2), 10)])
    np.testing.assert_array_equal(dx.asnumpy(), 32)
    with pytest.raises(AssertionError, match="list or tuple"):
        old.backward(outputs[0])
    with pytest.raises(AssertionError, match="same length"):
        old.backward(outputs, [None])
