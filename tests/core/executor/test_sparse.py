"""Symbols bound to sparse arrays, against the same symbols on dense ones."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import core as mx
from core import nd, sym
from core.errors import MXNetError
from core.executor.sparse import SparseExecutor

VALUES = np.float32([[0, 0], [1, -2], [0, 0]])


def sparse(stype: str = "row_sparse", values: np.ndarray = VALUES) -> nd.NDArray:
    return nd.array(values).tostype(stype)


@pytest.mark.parametrize("stype", ["row_sparse", "csr"])
def test_outputs_and_gradients_have_the_bound_storage_types(stype: str) -> None:
    gradient = nd.zeros(VALUES.shape, stype=stype)
    exe = sym.square(sym.Variable("x")).bind(mx.cpu(), [sparse(stype)], args_grad=[gradient])
    assert isinstance(exe, SparseExecutor)
    (out,) = exe.forward(is_train=True)
    assert out.stype == exe.outputs[0].stype == stype
    np.testing.assert_array_equal(out.asnumpy(), VALUES**2)
    exe.backward(out)
    assert exe.grad_dict["x"] is gradient
    np.testing.assert_array_equal(gradient.asnumpy(), 2 * VALUES**3)


def test_each_pass_reads_the_current_values() -> None:
    x = sparse()
    exe = (sym.Variable("x") * 3).bind(mx.cpu(), {"x": x})
    exe.forward()
    x[:] = nd.array(VALUES[::-1] + 1)
    np.testing.assert_array_equal(exe.forward()[0].asnumpy(), 3 * (VALUES[::-1] + 1))
    exe.forward(x=2 * VALUES)
    np.testing.assert_array_equal(exe.outputs[0].asnumpy(), 6 * VALUES)
    np.testing.assert_array_equal(x.asnumpy(), 2 * VALUES)
    exe.copy_params_from({"x": nd.array(VALUES)})
    assert exe.arg_dict["x"] is x
    np.testing.assert_array_equal(x.asnumpy(), VALUES)


def test_sparse_data_with_dense_weights() -> None:
    """A linear model on csr data, as in MXNet's examples."""
    x, w = sparse("csr"), nd.array([[1, 2, 3], [4, 5, 6]])
    gradient = nd.zeros((2, 3))
    out = sym.sparse.dot(sym.Variable("x", stype="csr"), sym.Variable("w"))
    exe = out.bind(mx.cpu(), [x, w], args_grad={"w": gradient})
    exe.forward(is_train=True)
    np.testing.assert_array_equal(exe.outputs[0].asnumpy(), VALUES @ w.asnumpy())
    exe.backward(nd.ones((3, 3)))
    np.testing.assert_array_equal(gradient.asnumpy(), VALUES.T @ np.ones((3, 3)))


def test_sparse_gradients_are_added_to() -> None:
    gradient = sparse(values=VALUES * 10)
    exe = (sym.Variable("x") * 3).bind(mx.cpu(), [sparse()], args_grad=[gradient], grad_req="add")
    for _ in range(2):
        exe.forward(is_train=True)
        exe.backward(sparse(values=np.ones_like(VALUES)))
    np.testing.assert_array_equal(gradient.asnumpy(), VALUES * 10 + 6)


def test_sparse_auxiliary_states_are_updated() -> None:
    shape = (2, 3)
    states = [nd.array([1, 0, 1]).tostype("row_sparse"), nd.ones((3,))]
    x = np.arange(6, dtype=np.float32).reshape(shape)
    args = [nd.array(x), nd.ones((3,)), nd.zeros((3,))]
    out = sym.BatchNorm(sym.Variable("x"), momentum=0.5, fix_gamma=False)
    exe = out.bind(mx.cpu(), args, args_grad=[nd.zeros(shape), None, None], aux_states=states)
    exe.forward(is_train=True)
    exe.backward(nd.ones(shape))
    np.testing.assert_allclose(states[0].asnumpy(), 0.5 * np.float32([1, 0, 1]) + 0.5 * x.mean(0))


def test_mixed_storage_gives_a_dense_result() -> None:
    out = sym.elemwise_add(sym.Variable("a"), sym.Variable("b"))
    exe = out.bind(mx.cpu(), [sparse(), nd.ones((3, 2))])
    assert exe.forward()[0].stype == "default"
    both = out.bind(mx.cpu(), [sparse(), sparse()])
    assert both.forward()[0].stype == "row_sparse"


def test_simple_bind_creates_the_declared_storage() -> None:
    x, w = sym.Variable("x", stype="csr"), sym.Variable("w", stype="row_sparse")
    exe = sym.sparse.dot(x, w).simple_bind(
        mx.cpu(), grad_req={"x": "null", "w": "write"}, x=(3, 2), w=(2, 4)
    )
    assert [array.stype for array in exe.arg_arrays] == ["csr", "row_sparse"]
    assert exe.grad_dict["w"].stype == "row_sparse"
    exe.copy_params_from({"w": nd.ones((2, 4))})
    exe.forward(is_train=True, x=sparse("csr"))
    np.testing.assert_array_equal(exe.outputs[0].asnumpy(), VALUES @ np.ones((2, 4)))
    exe.backward(nd.ones((3, 4)))
    np.testing.assert_array_equal(exe.grad_dict["w"].asnumpy(), VALUES.T @ np.ones((3, 4)))


def test_stype_dict_overrides_declared_storage() -> None:
    out = sym.elemwise_add(sym.Variable("a", stype="csr"), sym.Variable("b"))
    stype_dict = {"a": "row_sparse", "b": "row_sparse"}
    exe = out.simple_bind(mx.cpu(), stype_dict=stype_dict, a=(3, 2), b=(3, 2))
    assert {name: array.stype for name, array in exe.arg_dict.items()} == stype_dict
    assert exe.forward()[0].stype == "row_sparse"


@pytest.mark.parametrize("readers", [1, 2])
def test_the_gradient_of_an_embedding_holds_only_its_rows(readers: int) -> None:
    weight = sym.Variable("w")
    embedded = sym.Embedding(sym.Variable("x"), weight, input_dim=4, output_dim=2, sparse_grad=True)
    out = [embedded, weight * 2][:readers]
    exe = sym.Group(out).simple_bind(mx.cpu(), grad_req={"w": "write"}, x=(2,))
    gradient = exe.grad_dict["w"]
    assert gradient.stype == ("row_sparse" if readers == 1 else "default")
    exe.forward(is_train=True, x=nd.ones((2,)))
    exe.backward([nd.ones((2, 2)), nd.zeros((4, 2))][:readers])
    np.testing.assert_array_equal(gradient.asnumpy(), [[0, 0], [2, 2], [0, 0], [0, 0]])


WORDS = [1, 1, 3], [3, 0, 3]
COUNTS = np.float32([[1], [2], [0], [3], [0]]) * np.ones((1, 2), np.float32)
"""How often the words come, of five, in both columns of the embedding's gradient."""


def _two_embeddings() -> mx.sym.Symbol:
    weight = sym.Variable("w")
    options = {"input_dim": 5, "output_dim": 2, "sparse_grad": True}
    return sym.Group([sym.Embedding(sym.Variable(name), weight, **options) for name in "ab"])


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
@pytest.mark.parametrize("request_", ["write", "add"])
def test_embeddings_that_share_a_weight_sum_their_row_gradients(request_: str, dtype: str) -> None:
    """MXNet also gives a row_sparse sum, but refuses or forgets to add to one."""
    exe = _two_embeddings().simple_bind(
        mx.cpu(), grad_req={"w": request_}, type_dict={"w": dtype}, a=(3,), b=(3,)
    )
    assert exe.grad_dict["w"].stype == "row_sparse"
    for step in range(2):
        exe.forward(is_train=True, a=np.float32(WORDS[0]), b=np.float32(WORDS[1]))
        exe.backward([nd.ones((3, 2), dtype=dtype)] * 2)
        factor = step + 1 if request_ == "add" else 1
        np.testing.assert_array_equal(exe.grad_dict["w"].asnumpy(), factor * COUNTS)
    np.testing.assert_array_equal(exe.grad_dict["w"].indices.asnumpy(), [0, 1, 3])


def test_a_monitor_sees_the_row_sparse_gradient() -> None:
    exe = _two_embeddings().simple_bind(mx.cpu(), grad_req={"w": "write"}, a=(3,), b=(3,))
    seen = {}
    exe.set_monitor_callback(lambda name, array: seen.update({name: array.asnumpy()}))
    exe.forward(is_train=True, a=np.float32(WORDS[0]), b=np.float32(WORDS[1]))
    exe.backward([nd.ones((3, 2))] * 2)
    shown = [value for name, value in seen.items() if name.endswith("_backward_output1")]
    assert len(shown) == 2
    np.testing.assert_array_equal(exe.grad_dict["w"].asnumpy(), COUNTS)


def test_no_embedding_gradient_is_as_large_as_its_weight() -> None:
    out = sym.Embedding(
        sym.Variable("a"), sym.Variable("w"), input_dim=10**5, output_dim=8, sparse_grad=True
    )
    exe = out.simple_bind(mx.cpu(), grad_req={"w": "write"}, a=(3,))
    whole = exe.arg_dict["w"].nbytes
    exe.forward(is_train=True)
    tracemalloc.start()
    exe.backward([nd.ones((3, 8))])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < whole / 20
    report = exe.memory_report()
    assert report.gradients + report.arena < whole / 20


def test_reshaping_is_refused() -> None:
    exe = sym.square(sym.Variable("x")).bind(mx.cpu(), [sparse()])
    with pytest.raises(MXNetError, match="bind the symbol again"):
        exe.reshape(x=(4, 2))
