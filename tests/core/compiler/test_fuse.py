"""Which steps are fused, and which are not."""

from __future__ import annotations

import numpy as np
import pytest

import core as mx
from core.capabilities import fused
from core.compiler.fuse import fuse
from core.compiler.rewrite import fold_views
from core.compiler.trace import Graph, specs_of, trace
from core.compiler.verify import verify_program
from core.graph.infer import infer_graph

KERNELS = frozenset(
    {fused.BATCH_NORM, fused.CONVOLUTION, fused.FULLY_CONNECTED, fused.LOCAL_RESPONSE}
)
X = mx.sym.Variable("data")


def convolution(x, name="c", **attributes):
    return mx.sym.Convolution(x, kernel=(1, 1), num_filter=4, name=name, **attributes)


def relu(x, name="r"):
    return mx.sym.Activation(x, act_type="relu", name=name)


def steps(symbol, *, is_train=False, kernels=KERNELS, constants=None):
    """Return the operators and nodes of the fused program."""
    graph = Graph.of(symbol.heads)
    float32 = np.dtype("float32")
    specs = infer_graph(graph.heads, {"data": (2, 4, 3, 3)}, {"data": float32})
    program = trace(graph, specs_of(specs), is_train=is_train)
    fold_views(program)
    count = len(graph.arguments) + len(graph.auxiliaries)
    fuse(program, kernels, set(range(count)) if constants is None else constants)
    verify_program(program, {}, after="fuse")
    return [(step.op.names[0].removeprefix("_plan_"), step.node) for step in program.steps]


def test_a_whole_chain_becomes_one_step_in_place_of_its_last():
    norm = mx.sym.BatchNorm(convolution(X), name="b")
    other = mx.sym.exp(X, name="e")
    assert steps(relu(norm + other)) == [("exp", "e"), ("convolution", "r")]


def test_an_activation_ends_a_chain():
    assert steps(relu(relu(convolution(X)), "r2")) == [("convolution", "r"), ("Activation", "r2")]


def test_a_dense_layer_fuses_only_an_activation():
    dense = mx.sym.FullyConnected(X, num_hidden=3, name="f")
    assert steps(relu(dense)) == [("fully_connected", "r")]
    assert [kind for kind, _ in steps(dense + dense * 2)] == [
        "FullyConnected",
        "_mul_scalar",
        "elemwise_add",
    ]


def test_a_dense_layer_fuses_any_function_with_a_kernel():
    dense = mx.sym.FullyConnected(X, num_hidden=3, name="f")
    assert steps(mx.sym.sqrt(dense, name="s")) == [("fully_connected", "s")]
    assert [kind for kind, _ in steps(relu(dense * 2))] == ["fully_connected", "Activation"]
    assert [kind for kind, _ in steps(mx.sym.exp(dense))] == ["FullyConnected", "exp"]


def test_special_functions_are_not_fused():
    assert [kind for kind, _ in steps(mx.sym.gammaln(convolution(X)))] == ["Convolution", "gammaln"]


def test_a_value_read_twice_is_not_fused():
    layer = convolution(X)
    assert [kind for kind, _ in steps(relu(layer) * layer)][:2] == ["Convolution", "Activation"]


def test_an_output_of_the_graph_is_not_fused():
    layer = convolution(X)
    assert steps(mx.sym.Group([layer, relu(layer)])) == [("Convolution", "c"), ("Activation", "r")]


def test_a_layer_added_to_itself_is_not_fused():
    layer = convolution(X)
    assert steps(layer + layer)[0] == ("Convolution", "c")


def test_only_one_of_two_layers_fuses_their_sum():
    both = relu(convolution(X, "c1") + convolution(X, "c2"))
    assert steps(both) == [("Convolution", "c2"), ("convolution", "r")]


def test_batch_norm_with_batch_statistics_is_not_folded():
    norm = mx.sym.BatchNorm(convolution(X), name="b")
    assert [kind for kind, _ in steps(norm, is_train=True)] == ["Convolution", "BatchNorm"]
    frozen = mx.sym.BatchNorm(convolution(X), name="b", use_global_stats=True)
    assert [kind for kind, _ in steps(frozen, is_train=True)] == ["convolution"]


def test_statistics_that_are_used_prevent_folding():
    norm = mx.sym.BatchNorm(convolution(X), name="b", output_mean_var=True)
    assert [kind for kind, _ in steps(norm)] == ["Convolution", "BatchNorm"]


def test_batch_norm_over_another_axis_is_not_folded():
    norm = mx.sym.BatchNorm(convolution(X), name="b", axis=2)
    assert [kind for kind, _ in steps(norm)] == ["Convolution", "BatchNorm"]


def test_the_hidden_output_of_an_lrn_is_dropped():
    lrn = mx.sym.LRN(X, nsize=3, name="l")
    assert steps(relu(lrn)) == [("local_response", "l"), ("Activation", "r")]


def test_an_unfolded_batch_norm_fuses_only_a_relu():
    norm = mx.sym.BatchNorm(X, name="b")
    assert steps(relu(norm)) == [("batch_norm", "r")]
    assert steps(mx.sym.relu(norm, name="r")) == [("batch_norm", "r")]
    assert [kind for kind, _ in steps(mx.sym.tanh(norm))] == ["batch_norm", "tanh"]
    assert [kind for kind, _ in steps(relu(norm), is_train=True)] == ["BatchNorm", "Activation"]
    shown = mx.sym.BatchNorm(X, name="b", output_mean_var=True)
    assert [kind for kind, _ in steps(shown)] == ["BatchNorm"]


@pytest.mark.parametrize("missing", range(1, 7))
def test_folding_needs_a_version_on_every_array(missing):
    norm = mx.sym.BatchNorm(convolution(X), name="b")
    assert [kind for kind, _ in steps(norm, constants=set(range(7)))] == ["convolution"]
    constants = set(range(7)) - {missing}
    assert [kind for kind, _ in steps(norm, constants=constants)] == ["Convolution", "batch_norm"]


def test_without_kernels_nothing_is_fused():
    assert steps(relu(convolution(X)), kernels=frozenset()) == [
        ("Convolution", "c"),
        ("Activation", "r"),
    ]
