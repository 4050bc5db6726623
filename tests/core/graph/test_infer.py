"""Inference over graphs; expected values are MXNet 1.9.1's where it gives any."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import core as mx
from core.errors import AttributeValueError, GraphError, ShapeError, TypeInferenceError
from core.graph.infer import infer_graph
from core.types import to_dtype
from oracle import networks


def dense(data: Any, name: str = "fc", **inputs: Any) -> Any:
    return mx.sym.FullyConnected(data, num_hidden=10, name=name, **inputs)


def data() -> Any:
    return mx.sym.var("data")


# -- shapes ---------------------------------------------------------------------------------


def test_shapes_by_name_and_by_position() -> None:
    expected = ([(2, 3), (10, 3), (10,)], [(2, 10)], [])
    assert dense(data()).infer_shape(data=(2, 3)) == expected
    assert dense(data()).infer_shape((2, 3)) == expected
    assert dense(data()).infer_shape((2, 3), None) == expected


def test_a_recurrent_cell_infers_its_state_from_the_output() -> None:
    """As in MXNet's test_symbol_infer_shape."""
    x2h = mx.sym.FullyConnected(data(), num_hidden=128, name="x2h")
    h2h = mx.sym.FullyConnected(mx.sym.var("prevstate"), num_hidden=128, name="h2h")
    out = mx.sym.Activation(mx.sym.elemwise_add(x2h, h2h), act_type="relu", name="out")
    names = out.list_arguments()

    with pytest.warns(
        UserWarning, match=r"Cannot decide shape .*\n\tprevstate: \(\)\n\th2h_weight"
    ):
        assert out.infer_shape(data=(10, 64)) == (None, None, None)

    arguments, outputs, auxiliary = out.infer_shape_partial(data=(10, 64))
    known = dict(zip(names, arguments, strict=True))
    assert known["data"] == (10, 64)
    assert known["x2h_weight"] == (128, 64)
    assert known["h2h_weight"] == ()
    assert (outputs, auxiliary) == ([(10, 128)], [])

    arguments, outputs, auxiliary = out.infer_shape(data=(10, 64), prevstate=outputs[0])
    known = dict(zip(names, arguments, strict=True))
    assert known["h2h_weight"] == (128, 128)
    assert (outputs, auxiliary) == ([(10, 128)], [])


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ({"b": (2, 3)}, (2, 3)),
        ({"a": (2, 0), "b": (0, 3)}, (2, 3)),
        ({"a": (), "b": (2, 3)}, (2, 3)),
    ],
)
def test_shapes_are_inferred_in_both_directions(known: dict[str, Any], expected: Any) -> None:
    added = mx.sym.var("a") + mx.sym.var("b")
    assert added.infer_shape(**known) == ([expected, expected], [expected], [])


def test_infer_shape_partial_leaves_unknown_lengths() -> None:
    conv = mx.sym.Convolution(data(), num_filter=4, kernel=(3, 3), name="conv")
    assert conv.infer_shape_partial(data=(0, 3, 5, 5)) == (
        [(0, 3, 5, 5), (4, 3, 3, 3), (4,)],
        [(0, 4, 3, 3)],
        [],
    )
    assert dense(data()).infer_shape_partial() == ([(), (), ()], [()], [])
    with pytest.warns(UserWarning, match=r"a: \(0, 3\)"):
        assert mx.sym.var("a").infer_shape(a=(-1, 3)) == (None, None, None)


def test_only_ten_unknowns_are_listed() -> None:
    many = mx.sym.Group([mx.sym.var(f"v{i}") for i in range(12)])
    with pytest.warns(UserWarning, match=r"v9: \(\)\n\t\.\.\.$"):
        many.infer_shape()


def test_declared_shapes_yield_to_given_ones() -> None:
    v = mx.sym.var("v", shape=(2, 3))
    assert v.infer_shape() == ([(2, 3)], [(2, 3)], [])
    assert v.infer_shape(v=(3, 4)) == ([(3, 4)], [(3, 4)], [])
    assert v.infer_shape(v=(0, 3)) == ([(2, 3)], [(2, 3)], [])
    with pytest.raises(ShapeError, match=r"variable 'v' has shape \(0, 4\), expected \(2, 3\)"):
        v.infer_shape(v=(0, 4))


@pytest.mark.parametrize("text", ["(8, 3)", "[8,3]", "(8L, 3L)", "8, 3", "( 8 ,3, )"])
def test_spellings_of_declared_shapes(text: str) -> None:
    assert mx.sym.var("v", __shape__=text).infer_shape()[0] == [(8, 3)]


def test_nodes_of_the_same_name_are_inferred_separately() -> None:
    both = mx.sym.var("d") + mx.sym.var("d")
    assert both.infer_shape(d=(2, 3)) == ([(2, 3), (2, 3)], [(2, 3)], [])


def test_hidden_outputs_and_auxiliary_states() -> None:
    conv = mx.sym.Convolution(data(), num_filter=4, kernel=(3, 3), name="cv")
    bn = mx.sym.BatchNorm(conv, name="bn")
    assert bn.infer_shape(data=(1, 3, 5, 5)) == (
        [(1, 3, 5, 5), (4, 3, 3, 3), (4,), (4,), (4,)],
        [(1, 4, 3, 3)],
        [(4,), (4,)],
    )
    with pytest.raises(ShapeError, match=r"BatchNorm 'bn': moving_mean has shape \(5,\)"):
        bn.infer_shape(data=(1, 3, 5, 5), bn_moving_mean=(5,))


@pytest.mark.parametrize(
    ("infer", "error", "message"),
    [
        (
            lambda: dense(data()).infer_shape(data=(2, 3), fc_weight=(10, 4)),
            ShapeError,
            r"FullyConnected 'fc': weight has shape \(10, 4\), expected .*\(10, 3\)",
        ),
        (
            lambda: dense(data()).infer_shape_partial(data=(2, 3), fc_weight=(10, 4)),
            ShapeError,
            "FullyConnected 'fc': weight",
        ),
        (
            lambda: mx.sym.elemwise_add(data(), mx.sym.var("b"), name="add").infer_shape(
                data=(2, 4), b=(2, 3)
            ),
            ShapeError,
            r"elemwise_add 'add': rhs has shape \(2, 3\), expected \(2, 4\)",
        ),
        (
            lambda: dense(data()).infer_shape(dta=(2, 3)),
            GraphError,
            "no argument 'dta'; did you mean 'data'.*; it has data, fc_weight, fc_bias",
        ),
        (lambda: dense(data()).infer_shape(*[(1,)] * 4), GraphError, "4 shapes for 3 arguments"),
        (lambda: dense(data()).infer_shape((1,), data=(1,)), ValueError, "either by positional"),
        (lambda: dense(data()).infer_shape(data=[2, 3]), TypeError, "'data' is <class 'list'>"),
        (lambda: dense(data()).infer_shape(data=(2, 3.0)), TypeError, "float"),
        (lambda: dense(data()).infer_shape(data=(1,) * 33), ShapeError, "'data' has 33 dimensions"),
        (lambda: dense(data()).infer_shape(data=(2**63,)), ShapeError, "each below 2"),
        (
            lambda: mx.sym.var("q", __shape__="hello").infer_shape(),
            AttributeValueError,
            "variable 'q': __shape__ is 'hello'",
        ),
    ],
)
def test_contradicting_shapes_are_refused(infer: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        infer()


# -- dtypes ---------------------------------------------------------------------------------


def test_dtypes_are_inferred_from_any_argument() -> None:
    half = np.float16
    assert dense(data()).infer_type(data="float16") == ([half] * 3, [half], [])
    assert dense(data()).infer_type(half) == ([half] * 3, [half], [])
    assert dense(data()).infer_type(fc_bias=np.dtype("float16"))[1] == [half]
    assert dense(data()).infer_type_partial() == ([None] * 3, [None], [])
    with pytest.warns(UserWarning, match=r"Cannot decide type .*\n\tdata: None\n\tfc_weight: None"):
        assert dense(data()).infer_type() == (None, None, None)


def test_declared_dtypes_yield_to_given_ones() -> None:
    v = mx.sym.var("v", dtype="float16")
    assert v.infer_type() == ([np.float16], [np.float16], [])
    assert v.infer_type(v="float64") == ([np.float64], [np.float64], [])
    product = mx.sym.var("p", dtype="float64") * mx.sym.var("a")
    assert product.infer_type() == ([np.float64] * 2, [np.float64], [])


def test_moving_averages_are_float32_in_float16_graphs() -> None:
    bn = mx.sym.BatchNorm(data(), name="bn")
    assert bn.infer_type(data="float16") == (
        [np.float16, np.float32, np.float32],
        [np.float16],
        [np.float32, np.float32],
    )


@pytest.mark.parametrize(
    ("infer", "error", "message"),
    [
        (
            lambda: dense(data()).infer_type(data="float16", fc_weight="float32"),
            TypeInferenceError,
            "FullyConnected 'fc': .*float16.*float32",
        ),
        (lambda: dense(data()).infer_type(dta="float16"), GraphError, "no argument 'dta'"),
        (lambda: dense(data()).infer_type(data="complex64"), TypeError, "complex64"),
        (lambda: dense(data()).infer_type("float32", data="float32"), ValueError, "either by"),
        (
            lambda: mx.sym.var("q", __dtype__="99").infer_type(),
            AttributeValueError,
            "variable 'q': __dtype__ is '99'; expected one of MXNet's dtype codes, 0 to 12",
        ),
        (
            lambda: mx.sym.var("q", __dtype__="9" * 5000).infer_type(),
            AttributeValueError,
            "variable 'q': __dtype__",
        ),
    ],
)
def test_contradicting_dtypes_are_refused(infer: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        infer()


# -- graphs ---------------------------------------------------------------------------------


def test_specs_of_every_node() -> None:
    net = mx.sym.Activation(dense(data()), act_type="relu", name="relu")
    specs = infer_graph(net.heads, {"data": (2, 3)}, {"data": to_dtype("float16")})
    shapes = {node.name: list(specs.shapes[node]) for node in specs.nodes}
    assert shapes == {
        "data": [(2, 3)],
        "fc_weight": [(10, 3)],
        "fc_bias": [(10,)],
        "fc": [(2, 10)],
        "relu": [(2, 10)],
    }
    assert specs.shape(net.heads[0]) == (2, 10)
    assert specs.dtype(net.heads[0]) == np.float16


def test_dtypes_default_to_float32() -> None:
    left = dense(data(), "left", weight=mx.sym.var("w", dtype="float64"))
    right = dense(mx.sym.var("other"), "right")
    heads = mx.sym.Group([left, right]).heads
    specs = infer_graph(heads, {"data": (2, 3), "other": (4, 5)}, {})
    assert [specs.dtype(head) for head in heads] == [np.float64, np.float32]
    specs = infer_graph(heads, {}, {}, partial=True)
    assert [specs.dtype(head) is None for head in heads] == [False, True]
    assert [specs.shape(head) for head in heads] == [None, None]


def test_unknown_shapes_are_named() -> None:
    with pytest.raises(ShapeError, match=r"cannot infer the shape of data: \(\), fc_weight: \(\)"):
        infer_graph(dense(data()).heads, {}, {})
    with pytest.raises(ShapeError, match=r"data: \(0, 3\) \(0 stands for"):
        infer_graph(dense(data()).heads, {"data": (0, 3)}, {})


def test_unknown_names_are_ignored() -> None:
    specs = infer_graph(data().heads, {"data": (1,), "label": (1,)}, {"label": to_dtype("int32")})
    assert [node.name for node in specs.nodes] == ["data"]


@settings(max_examples=50, deadline=None)
@given(st.permutations(range(8)), st.integers(0, 8), st.data())
def test_inference_is_complete_in_any_order_of_nodes(
    order: list[int], source: int, draw: st.DataObject
) -> None:
    """In a chain of sums v0+v1, v1+v2, ... one shape determines all, in any order of nodes."""
    variables = [mx.sym.var(f"v{i}") for i in range(9)]
    links = [variables[i] + variables[i + 1] for i in range(8)]
    graph = mx.sym.Group([links[i] for i in order])
    shape = tuple(draw.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3)))
    arguments, outputs, _ = graph.infer_shape(**{f"v{source}": shape})
    assert set(arguments) == set(outputs) == {shape}


def chain(length: int) -> Any:
    v = mx.sym.var("a")
    for _ in range(length):
        v = mx.sym.Activation(v, act_type="relu")
    return v + mx.sym.var("b")


@pytest.mark.parametrize(
    ("make", "shapes"),
    [
        (lambda: networks.resnet20(mx), {"data": (1, 3, 32, 32)}),
        (lambda: chain(3000), {"b": (2, 3)}),
    ],
    ids=["resnet20", "backwards_through_a_chain"],
)
def test_each_operator_is_asked_twice_at_most(
    monkeypatch: pytest.MonkeyPatch, make: Callable[[], Any], shapes: dict[str, tuple[int, ...]]
) -> None:
    """A pass over all nodes for each of them would take minutes on a long chain."""
    net = make()
    nodes = infer_graph(net.heads, shapes, {}).nodes
    operators = [node.op for node in nodes if not node.is_variable]
    calls: list[Any] = []

    def counted(infer_shape: Callable[..., Any]) -> Callable[..., Any]:
        def call(op: Any, *known: Any) -> Any:
            calls.append(op)
            return infer_shape(op, *known)

        return call

    for kind in {type(op) for op in operators}:
        monkeypatch.setattr(kind, "infer_shape", counted(kind.infer_shape))
    arguments, _, _ = net.infer_shape(**shapes)
    assert None not in arguments
    assert len(operators) <= len(calls) <= 2 * len(operators)
