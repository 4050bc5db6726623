"""Gradients of recorded computations; what gets recorded follows MXNet 1.9.1."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest

import core as mx
from core import autograd, nd
from core.errors import MXNetError, ShapeError
from core.ndarray import NDArray


def variable(*values: float, grad_req: str = "write") -> NDArray:
    x = nd.array(values)
    x.attach_grad(grad_req)
    return x


# -- backward -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "slope"),
    [
        (lambda x: nd.exp(x), np.exp),
        (lambda x: x / 2, lambda x: np.full_like(x, 0.5)),
        (lambda x: x**2, lambda x: 2 * x),
        (lambda x: x + x * x, lambda x: 1 + 2 * x),
        (lambda x: nd.tanh(x) * 3, lambda x: 3 / np.cosh(x) ** 2),
        (lambda x: 1 / x, lambda x: -1 / x**2),
    ],
)
def test_gradients_of_functions_match_their_derivatives(
    function: Callable[[NDArray], NDArray], slope: Callable
) -> None:
    x = variable(0.5, -1, 2)
    with autograd.record():
        y = function(x)
    y.backward()
    assert x.grad is not None
    assert np.allclose(x.grad.asnumpy(), slope(x.asnumpy()), rtol=1e-5)


def test_gradients_of_two_variables() -> None:
    x, y = variable(1, 2), variable(3, 4)
    with autograd.record():
        z = x * y + x
    z.backward()
    assert x.grad.asnumpy().tolist() == [4, 5]
    assert y.grad.asnumpy().tolist() == [1, 2]


def test_backward_takes_a_head_gradient_for_each_output() -> None:
    x = nd.ones((3, 2))
    dx = nd.zeros((3, 2))
    autograd.mark_variables([x], [dx])
    with autograd.record():
        a, b, c = nd.split(x, axis=0, num_outputs=3, squeeze_axis=True)
        autograd.backward([a, b, c], [None, nd.array([1, 2]), nd.array([5, 4])])
    assert dx.asnumpy().tolist() == [[1, 1], [1, 2], [5, 4]]


def test_head_gradients_are_reshaped_cast_and_densified() -> None:
    x = variable(1, 2)
    for head_grad in (nd.array([[3], [4]]), nd.array([3, 4], dtype="float64")):
        with autograd.record():
            y = x * 2
        y.backward(head_grad)
        assert x.grad.asnumpy().tolist() == [6, 8]
    x = nd.zeros((2, 2))
    x.attach_grad()
    with autograd.record():
        y = x * 2
    y.backward(nd.ones((2, 2)).tostype("csr"))
    assert (x.grad.asnumpy() == 2).all()
    with autograd.record():
        y = x * 2
    with pytest.raises(ShapeError, match=r"\(3,\)"):
        y.backward(nd.ones(3))


def test_gradient_of_a_variable_with_respect_to_itself() -> None:
    x = variable(1, 2)
    x.backward()
    assert x.grad.asnumpy().tolist() == [1, 1]


def test_unused_outputs_contribute_no_gradient() -> None:
    x = variable(1, 2, 3, 4)
    with autograd.record():
        first, _ = nd.split(x, num_outputs=2, axis=0)
    first.backward()
    assert x.grad.asnumpy().tolist() == [1, 1, 0, 0]


@pytest.mark.parametrize("grad_req", ["write", "add", "null"])
def test_grad_req_write_add_and_null(grad_req: str) -> None:
    x = variable(1, 1, grad_req=grad_req)
    for _ in range(3):
        with autograd.record():
            y = x * 2
        y.backward()
    assert x.grad.asnumpy().tolist() == {"write": [2, 2], "add": [6, 6], "null": [0, 0]}[grad_req]


@pytest.mark.parametrize("stype", ["default", "row_sparse", "csr"])
@pytest.mark.parametrize("grad_stype", [None, "default", "row_sparse", "csr"])
def test_gradients_have_the_storage_type_asked_for(stype: str, grad_stype: str | None) -> None:
    x = nd.array([[0, 1], [0, 0]]).tostype(stype)
    x.attach_grad(stype=grad_stype)
    assert x.grad is not None
    assert x.grad.stype == (grad_stype or stype)
    assert x.detach().stype == stype
    with autograd.record():
        y = x * nd.array([[0, 0], [0, 5]])
    y.backward()
    assert x.grad.stype == (grad_stype or stype)
    assert x.grad.asnumpy().tolist() == [[0, 0], [0, 5]]


def test_an_unknown_grad_req_is_refused() -> None:
    with pytest.raises(ValueError, match="'sum'"):
        nd.ones(1).attach_grad("sum")
    with pytest.raises(ValueError, match="as many of each"):
        autograd.mark_variables([nd.ones(1)], [])


def test_operators_without_a_derivative_give_zero_gradients() -> None:
    # As in MXNet 1.9.1: a comparison's gradient is zero, and overwrites the old value.
    x = variable(1, -1)
    x.grad[:] = 7
    with autograd.record():
        y = (x > 0) * 2
    y.backward()
    assert x.grad.asnumpy().tolist() == [0, 0]


def test_gradients_pass_through_copies() -> None:
    x = variable(1, 2, 3)
    with autograd.record():
        y = x + 0
        z = y * y + y
    z.backward()
    assert x.grad.asnumpy().tolist() == [3, 5, 7]


def test_long_chains_have_gradients() -> None:
    x = variable(1)
    with autograd.record():
        y = x
        for _ in range(3000):
            y = y + x
    y.backward()
    assert x.grad.asscalar() == 3001


def test_gradients_of_other_dtypes_and_devices() -> None:
    x = nd.ones((2, 3))
    x.attach_grad()
    with autograd.record():
        y = (x.astype("float64") * 2).as_in_context(mx.cpu(1))
    y.backward()
    assert (y.context, y.dtype) == (mx.cpu(1), np.float64)
    assert (x.grad.context, x.grad.dtype) == (mx.cpu(0), np.float32)
    assert (x.grad.asnumpy() == 2).all()


# -- what is recorded ---------------------------------------------------------------------------


def test_nothing_is_recorded_outside_a_scope() -> None:
    x = variable(1)
    y = x * 2
    with pytest.raises(MXNetError, match="not in a recorded computation"):
        y.backward()


def test_paused_computations_are_constants() -> None:
    x = variable(1, 2)
    with autograd.record():
        y = x * 2
        with autograd.pause():
            z = x * 3
        w = y * z
    w.backward()
    assert x.grad.asnumpy().tolist() == [6, 12]


def test_detached_arrays_are_constants() -> None:
    x = variable(1, 2)
    with autograd.record():
        y = (x * 2).detach() * x
    y.backward()
    assert x.grad.asnumpy().tolist() == [2, 4]


def test_views_made_before_recording_are_not_recorded() -> None:
    x = variable(1, 2)
    row = x[0]
    with autograd.record():
        y = row * 2
    with pytest.raises(MXNetError, match="not in a recorded"):
        y.backward()


def test_attach_grad_cuts_the_graph() -> None:
    # As in MXNet 1.9.1: y becomes a variable itself.
    x = variable(1, 2)
    with autograd.record():
        y = x * 2
    y.attach_grad()
    with autograd.record():
        z = y * y
    z.backward()
    assert y.grad.asnumpy().tolist() == [4, 8]
    assert x.grad.asnumpy().tolist() == [0, 0]


def test_only_variables_have_gradients() -> None:
    x = nd.ones(2)
    assert x.grad is None
    x.attach_grad()
    with autograd.record():
        y = x * 2
    assert y.grad is None


def test_retain_graph_allows_a_second_backward_pass() -> None:
    x = variable(1, 2)
    with autograd.record():
        y = x * x
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.asnumpy().tolist() == [2, 4]
    with pytest.raises(MXNetError, match="retain_graph=True"):
        y.backward()


def test_a_result_may_be_overwritten_once_its_graph_is_freed() -> None:
    x = variable(1, 2)
    with autograd.record():
        y = x * 2
    y.backward()
    with autograd.record():
        y[:] = 5
        z = y * x
    z.backward()
    assert x.grad.asnumpy().tolist() == [5, 5]


def test_backward_marks_gradients_as_fresh() -> None:
    x = variable(1)
    assert not x._fresh_grad
    with autograd.record():
        y = x * 2
    y.backward()
    assert x._fresh_grad
    x._fresh_grad = False
    assert not x._fresh_grad
    assert not nd.ones(1)._fresh_grad


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.__setitem__(slice(None), 2),
        lambda x: x.__setitem__(0, 2),
        lambda x: x.__iadd__(1),
        lambda x: nd.relu(x, out=x),
        lambda x: nd.ones(2).copyto(x),
    ],
)
@pytest.mark.parametrize("of", [lambda x: x, lambda x: x * 2], ids=["variable", "result"])
def test_recorded_arrays_cannot_be_overwritten(
    change: Callable[[NDArray], None], of: Callable[[NDArray], NDArray]
) -> None:
    x = variable(1, 2)
    with autograd.record():
        y = of(x)
        before = y.asnumpy()
        with pytest.raises(MXNetError, match="already in a computational graph"):
            change(y)
    assert np.array_equal(y.asnumpy(), before)


def test_variables_may_be_updated_outside_recording() -> None:
    x = variable(1, 2)
    with autograd.record():
        y = x * x
    y.backward()
    x -= 0.5 * x.grad
    assert x.asnumpy().tolist() == [0, 0]
    assert x.grad is not None


@pytest.mark.parametrize("key", [slice(None), None, ..., slice(0, 2)])
def test_whole_assignments_are_recorded(key: object) -> None:
    x = variable(1, 2)
    with autograd.record():
        y = nd.zeros(2)
        y[key] = x * 3
        z = y * y
    z.backward()
    assert x.grad.asnumpy().tolist() == [18, 36]


def test_partial_assignments_are_refused() -> None:
    x = variable(1, 2)
    with autograd.record():
        y = nd.zeros(5)
        y[:2] = 7
        with pytest.raises(MXNetError, match=r"Inplace operations.*not supported when recording"):
            y[1:3] = x * 3


@pytest.mark.parametrize(
    "key", [0, -1, slice(1, 3), (slice(None), 1), (0, 1, 2), None, [0, 0, 1], ([0, 0], [1, 1])]
)
def test_gradients_through_indexing(key: object) -> None:
    raw = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    x = nd.array(raw)
    x.attach_grad()
    with autograd.record():
        y = x[key]
        z = y * y
    z.backward()
    expected = np.zeros_like(raw)
    np.add.at(expected, key, 2 * raw[key])
    assert np.array_equal(x.grad.asnumpy(), expected)


def test_gradients_through_reshaping() -> None:
    x = variable(1, 2, 3, 4, 5, 6)
    with autograd.record():
        y = x.reshape((2, 3)).expand_dims(0, inplace=True).flatten(inplace=True)
        z = y * y
    z.backward()
    assert x.grad.asnumpy().tolist() == [2, 4, 6, 8, 10, 12]


def test_batch_norm_updates_its_statistics_in_backward() -> None:
    # MXNet 1.9.1 updates the moving statistics when the gradient is computed.
    x = nd.array([[1, 2], [3, 6]])
    x.attach_grad()
    mean, var = nd.zeros(2), nd.ones(2)
    with autograd.record():
        y = nd.BatchNorm(x, nd.ones(2), nd.zeros(2), mean, var, momentum=0.5)
    y.backward()
    assert mean.asnumpy().tolist() == [1, 2]


def test_operators_without_a_gradient() -> None:
    class Opaque(autograd.Function):
        def forward(self, x: NDArray) -> NDArray:
            return x * 2

    x = variable(1)
    with autograd.record():
        y = Opaque()(x)
    with pytest.raises(NotImplementedError, match="Opaque must define backward"):
        y.backward()


# -- grad ---------------------------------------------------------------------------------------


def test_grad_leaves_buffers_alone() -> None:
    x, y = variable(1, 2), variable(3, 4)
    with autograd.record():
        z = x * y
    dx, dy = autograd.grad(z, [x, y], retain_graph=True)
    assert dx.asnumpy().tolist() == [3, 4]
    assert dy.asnumpy().tolist() == [1, 2]
    assert x.grad.asnumpy().tolist() == [0, 0]


def test_grad_returns_a_list_for_one_array_too() -> None:
    x, y = variable(1, 2), variable(3, 4)
    with autograd.record():
        z = x * y
    gradients = autograd.grad(z, x, nd.array([10, 1]))
    assert isinstance(gradients, list)
    assert [one.asnumpy().tolist() for one in gradients] == [[30, 4]]


def test_invalid_variables_and_heads_are_refused() -> None:
    x, other, plain = variable(1), variable(1), nd.ones(1)
    with autograd.record():
        y = x * 2
    with pytest.raises(MXNetError, match=r"1-th variable because it does not require"):
        autograd.grad(y, [plain], retain_graph=True)
    with pytest.raises(MXNetError, match=r"2-th variable because it is unreachable"):
        autograd.grad(y, [x, other], retain_graph=True)
    with pytest.raises(ValueError, match="empty"):
        autograd.grad(y, [])
    with pytest.raises(ValueError, match="same length"):
        autograd.backward([y, y], [None])


# -- modes --------------------------------------------------------------------------------------


def test_recording_and_training_modes() -> None:
    assert not autograd.is_recording()
    assert not autograd.is_training()
    with autograd.record():
        assert autograd.is_recording()
        assert autograd.is_training()
        with autograd.predict_mode():
            assert autograd.is_recording()
            assert not autograd.is_training()
        with autograd.pause():
            assert not autograd.is_recording()
            assert not autograd.is_training()
            with autograd.train_mode():
                assert autograd.is_training()
    with autograd.record(train_mode=False):
        assert autograd.is_recording()
        assert not autograd.is_training()
    assert autograd.set_recording(True) is False
    assert autograd.set_recording(False) is True
    assert autograd.set_training(True) is False
    assert autograd.set_training(False) is True


def test_modes_are_restored_after_errors_and_nested_scopes() -> None:
    scope = autograd.record()
    with pytest.raises(RuntimeError, match="inside"), scope, scope:
        raise RuntimeError("inside")
    assert not autograd.is_recording()
    x = variable(1)
    with autograd.record():
        y = x * 2
        with pytest.raises(ShapeError):
            y.backward(nd.ones(3))
        assert autograd.is_recording()


def test_modes_are_per_thread() -> None:
    seen: list[bool] = []
    with autograd.record():
        thread = threading.Thread(target=lambda: seen.append(autograd.is_recording()))
        thread.start()
        thread.join()
    assert seen == [False]


def test_operators_see_the_training_mode() -> None:
    x = nd.array([[1.0, 2.0], [3.0, 6.0]])
    arguments = [nd.ones(2), nd.zeros(2), nd.zeros(2), nd.ones(2)]
    with autograd.train_mode():
        batch = nd.BatchNorm(x, *arguments)
    assert np.allclose(batch.asnumpy().mean(axis=0), 0, atol=1e-6)
    # Batch norm adds epsilon, 1e-3, to the variance.
    assert np.allclose(nd.BatchNorm(x, *arguments).asnumpy(), x.asnumpy(), rtol=1e-2)


@pytest.mark.parametrize("stype", ["default", "row_sparse", "csr"])
def test_a_sparse_head_takes_a_dense_or_sparse_gradient(stype: str) -> None:
    for given in ("default", stype):
        x = nd.array([[1.0, 0.0], [0.0, 3.0]]).tostype(stype)
        x.attach_grad()
        with autograd.record():
            y = x * 2
        y.backward(nd.array([[1.0, 2.0], [3.0, 4.0]]).tostype(given))
        assert x.grad.asnumpy().tolist() == [[2, 4], [6, 8]]
        with pytest.raises(ShapeError, match=r"expected \(2, 2\)"), autograd.record():
            (x * 2).backward(nd.ones((3, 2)))
