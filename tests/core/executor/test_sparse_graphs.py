"""What plans compute directly on sparse arguments, against MXNet 1.9.1."""

from __future__ import annotations

import numpy as np
import pytest

import core as mx
from core.compiler.sparse_step import SparseStep
from core.executor.modes import Mode
from oracle import golden_file
from oracle.compare import assert_close
from oracle.topics.sparse_graphs import CASES, bound, run_case

DENSE_IN_PLANS = {"sum of both"}

MANY = 10**9
"""As many columns as no dense array here could have."""


@pytest.mark.parametrize("case_id", CASES)
def test_results_match_mxnets(case_id: str) -> None:
    golden = golden_file.topic("sparse_graphs")
    expected = {key.partition("/")[2] for key in golden if key.startswith(f"{case_id}/")}
    found = run_case(mx, case_id)
    assert found.keys() == expected
    for key, got in found.items():
        assert_close(f"{case_id} {key}", got, golden[f"{case_id}/{key}"])


@pytest.mark.parametrize("case_id", CASES)
def test_plans_use_sparse_steps(case_id: str) -> None:
    steps = next(iter(bound(mx, case_id)._plans.values())).compiled.program.steps
    is_sparse = any(isinstance(step.op, SparseStep) for step in steps)
    assert is_sparse is (case_id not in DENSE_IN_PLANS)


def _machine() -> mx.sym.Symbol:
    """Return a factorization machine with too many features for any dense array of them."""
    x = mx.sym.var("x", stype="csr")
    v = mx.sym.var("v", stype="row_sparse", shape=(MANY, 2))
    weight = mx.sym.var("w", stype="row_sparse", shape=(MANY, 1))
    crossed = mx.sym.sum(mx.sym.square(mx.sym.dot(x, v)), axis=1, keepdims=True)
    own = mx.sym.dot(
        mx.sym.square(x), mx.sym._internal._square_sum(v, axis=1, keepdims=True), name="own"
    )
    return mx.sym.dot(x, weight) + 0.5 * (crossed - own)


def test_memory_depends_on_stored_values_only() -> None:
    executor = _machine().simple_bind(
        mx.cpu(), grad_req={"x": "null", "v": "write", "w": "add"}, x=(2, MANY)
    )
    rows = np.array([3, 10**6, MANY - 1])
    x = np.array([[1.0, 2.0, 0.0], [0.0, 0.5, -1.0]], np.float32)
    v = np.arange(6, dtype=np.float32).reshape(3, 2)
    weight = np.array([[1.0], [-1.0], [2.0]], np.float32)
    parts = x[x != 0], rows[x.nonzero()[1]], [0, 2, 4]
    mx.nd.sparse.csr_matrix(parts, shape=(2, MANY)).copyto(executor.arg_dict["x"])
    for name, values in (("v", v), ("w", weight)):
        given = mx.nd.sparse.row_sparse_array((values, rows), shape=(MANY, values.shape[1]))
        given.copyto(executor.arg_dict[name])
    product = x @ v
    own = (x**2) @ (v**2).sum(axis=1, keepdims=True)
    expected = x @ weight + 0.5 * ((product**2).sum(axis=1, keepdims=True) - own)
    for count in (1, 2):
        executor.forward(is_train=True)
        np.testing.assert_allclose(executor.outputs[0].asnumpy(), expected, rtol=1e-5)
        executor.backward(mx.nd.ones((2, 1)))
        gradients = executor.grad_dict
        for name, values in (
            ("w", count * x.sum(axis=0, keepdims=True).T),
            ("v", x.T @ product - (x**2).sum(axis=0)[:, None] * v),
        ):
            assert gradients[name].indices.asnumpy().tolist() == rows.tolist()
            np.testing.assert_allclose(gradients[name].data.asnumpy(), values, rtol=1e-5)


def test_a_dense_copy_too_large_for_memory_is_refused_naming_the_node() -> None:
    x = mx.sym.var("x", stype="csr")
    graph = mx.sym.broadcast_add(x, mx.sym.var("b"), name="shifted")
    with pytest.raises(mx.MXNetError, match=r"broadcast_add 'shifted' .* csr input 'x'") as error:
        graph.simple_bind(mx.cpu(), grad_req="null", x=(10**6, MANY), b=(1, 1))
    assert "4,000,000.0 GB" in str(error.value)


def test_a_dense_copy_of_a_result_is_refused_likewise() -> None:
    x = mx.sym.var("x", stype="csr")
    graph = mx.sym.broadcast_add(mx.sym.square(x, name="squares"), mx.sym.var("b"), name="shifted")
    with pytest.raises(mx.MXNetError, match=r"'shifted' .* csr input 'squares'"):
        graph.simple_bind(mx.cpu(), grad_req="null", x=(10**6, MANY), b=(1, 1))


@pytest.mark.parametrize("rewritten", [True, False])
def test_a_sparse_value_is_densified_for_the_nodes_that_need_it(rewritten: bool) -> None:
    """Their gradients are added to those of the nodes that take it sparse."""
    v = mx.sym.var("v", stype="row_sparse")
    squares = mx.sym.square(v, name="squares")
    graph = mx.sym.broadcast_add(
        mx.sym.sum(squares),
        mx.sym.sin(squares) + 0 * mx.sym.dot(mx.sym.var("x", stype="csr"), squares),
    )
    executor = graph.simple_bind(mx.cpu(), grad_req={"v": "write"}, v=(3, 3), x=(3, 3))
    seen: list[str] = []
    if not rewritten:
        executor.set_monitor_callback(lambda name, array: seen.append(name))
    value = np.array([[1.0, 2.0, 3.0], [0.0, 0.0, 0.0], [0.5, -1.0, 2.0]], np.float32)
    mx.nd.array(value).tostype("row_sparse").copyto(executor.arg_dict["v"])
    executor.forward(is_train=True)
    executor.backward(mx.nd.ones((3, 3)))
    expected = (value**2).sum() + np.sin(value**2)
    np.testing.assert_allclose(executor.outputs[0].asnumpy(), expected, rtol=1e-5)
    gradient = (9 + np.cos(value**2)) * 2 * value
    np.testing.assert_allclose(executor.grad_dict["v"].asnumpy(), gradient, rtol=1e-4)
    assert ("squares_output" in seen) is not rewritten


def test_a_modules_csr_inputs_are_not_densified() -> None:
    x = mx.sym.var("data", stype="csr")
    out = mx.sym.LinearRegressionOutput(mx.sym.dot(x, mx.sym.var("w", shape=(4, 1))), name="out")
    module = mx.mod.Module(out, ["data"], ["out_label"], context=[mx.cpu(0), mx.cpu(1)])
    module.bind([("data", (4, 4))], [("out_label", (4, 1))])
    module.init_params(arg_params={"w": mx.nd.array([[1], [2], [3], [4]])})
    dense = np.diag(np.arange(4, dtype=np.float32))
    batch = mx.io.DataBatch([mx.nd.array(dense).tostype("csr")], [mx.nd.zeros((4, 1))])
    module.forward(batch, is_train=True)
    expected = [[0], [2], [6], [12]]
    assert module.get_outputs()[0].asnumpy().tolist() == expected
    assert [one.arg_dict["data"].stype for one in module._exec_group.execs] == ["csr", "csr"]
    module.forward(mx.io.DataBatch([mx.nd.array(dense)], [mx.nd.zeros((4, 1))]), is_train=False)
    assert module.get_outputs()[0].asnumpy().tolist() == expected


def test_a_dense_layer_on_csr_takes_biases_as_a_column() -> None:
    dense = np.random.default_rng(0).random((3, 4)).astype("f")
    out = mx.sym.FullyConnected(mx.sym.var("x", stype="csr"), num_hidden=2, name="fc")
    results = []
    for shape in ((2,), (2, 1)):
        arrays = {
            "x": mx.nd.array(dense).tostype("csr"),
            "fc_weight": mx.nd.arange(8).reshape((2, 4)),
            "fc_bias": mx.nd.array([1.0, 2.0]).reshape(shape),
        }
        gradients = {"fc_bias": mx.nd.zeros(shape)}
        executor = out.bind(mx.cpu(), arrays, gradients)
        (got,) = executor.forward(is_train=True)
        executor.backward(mx.nd.ones((3, 2)))
        results.append((got.asnumpy(), gradients["fc_bias"].asnumpy().ravel()))
    np.testing.assert_array_equal(results[0][0], results[1][0])
    np.testing.assert_array_equal(results[0][1], [3.0, 3.0])
    np.testing.assert_array_equal(results[1][1], [3.0, 3.0])


@pytest.mark.parametrize("is_read_sparsely", [True, False])
def test_dense_readers_use_the_dense_memory_of_a_row_sparse_parameter(
    is_read_sparsely: bool,
) -> None:
    """A module's row_sparse parameters are backed by dense memory; a penalty on them reads that."""
    weight = mx.sym.var("w", stype="row_sparse", shape=(4, 1))
    squares = mx.sym.square(weight)
    loss = mx.sym.sum(squares)
    if is_read_sparsely:
        loss = loss + mx.sym.sum(mx.sym.dot(mx.sym.var("data", stype="csr"), squares))
    else:
        loss = loss + mx.sym.sum(mx.sym.var("data"))
    module = mx.mod.Module(mx.sym.make_loss(loss), ["data"], None)
    module.bind([("data", (2, 4))])
    value = np.array([[1], [2], [3], [4]], np.float32)
    module.init_params(arg_params={"w": mx.nd.array(value)})
    module.forward(mx.io.DataBatch([mx.nd.ones((2, 4))]), is_train=True)
    expected = (value**2).sum() + ((value**2).sum() * 2 if is_read_sparsely else 8)
    assert module.get_outputs()[0].asnumpy().item() == expected
    module.backward()
    (executor,) = module._exec_group.execs
    factor = 6 if is_read_sparsely else 2
    np.testing.assert_allclose(executor.grad_dict["w"].asnumpy(), factor * value)
    program = executor._plan(Mode(True, True)).compiled.program
    assert any(isinstance(step.op, SparseStep) for step in program.steps) is is_read_sparsely
