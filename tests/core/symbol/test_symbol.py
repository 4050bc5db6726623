"""Symbols as scripts use them; expected values are MXNet 1.9.1's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core as mx
from core.errors import AttributeValueError, GraphError, MXNetError, NotImplementedForSymbol


@pytest.fixture(autouse=True)
def _names_from_zero() -> Any:
    with mx.name.NameManager():
        yield


def dense(data: Any = None, name: str = "fc", **attrs: Any) -> Any:
    return mx.sym.FullyConnected(data, num_hidden=10, name=name, **attrs)


def parts(name: str = "sc") -> Any:
    return mx.sym.SliceChannel(mx.sym.var("x"), num_outputs=3, name=name)


# -- outputs --------------------------------------------------------------------------------


def test_selecting_one_of_several_outputs() -> None:
    symbol = parts()
    assert (symbol.name, len(symbol), symbol.num_outputs, repr(symbol)) == (
        "sc",
        3,
        3,
        "<Symbol sc>",
    )
    assert symbol.list_outputs() == ["sc_output0", "sc_output1", "sc_output2"]
    assert symbol[1].list_outputs() == symbol["sc_output1"].list_outputs() == ["sc_output1"]
    assert symbol[1:].list_outputs() == ["sc_output1", "sc_output2"]
    assert symbol[:-1].list_outputs() == ["sc_output0", "sc_output1"]
    assert [part.list_outputs()[0] for part in symbol] == symbol.list_outputs()


@pytest.mark.parametrize(
    ("index", "error", "message"),
    [
        (3, IndexError, "output 3 of a symbol that has 3"),
        (-1, MXNetError, "nonnegative"),
        ("sc_output9", ValueError, "Cannot find output"),
        (1.0, TypeError, "integer index"),
        (slice(3, None), TypeError, "list of symbols"),
    ],
)
def test_invalid_indices_are_refused(index: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        parts()[index]


def test_an_ambiguous_name_is_refused() -> None:
    with pytest.raises(ValueError, match="multiple outputs"):
        mx.sym.Group([parts(), parts()])["sc_output0"]


def test_a_group_lists_the_outputs_of_its_symbols() -> None:
    group = mx.sym.Group([dense(), mx.sym.var("d"), parts()])
    assert group.list_outputs() == ["fc_output", "d", "sc_output0", "sc_output1", "sc_output2"]
    assert group.name is None
    assert repr(group) == "<Symbol group [fc, d, sc, sc, sc]>"
    assert group.attr("num_hidden") is None
    assert group.list_attr() == {"num_hidden": "10"}


@pytest.mark.parametrize("symbols", [[], [1], [None]])
def test_an_empty_group_is_refused(symbols: list[Any]) -> None:
    with pytest.raises(TypeError, match="list of symbols"):
        mx.sym.Group(symbols)


def test_internals_and_children_are_listed() -> None:
    a = mx.sym.var("a")
    net = dense(dense(a, "fc1"), "fc2")
    assert net.get_internals().list_outputs() == [
        "a",
        "fc1_weight",
        "fc1_bias",
        "fc1_output",
        "fc2_weight",
        "fc2_bias",
        "fc2_output",
    ]
    assert net.get_internals()["fc1_output"].list_arguments() == ["a", "fc1_weight", "fc1_bias"]
    assert net.get_children().list_outputs() == ["fc1_output", "fc2_weight", "fc2_bias"]
    assert (a + a).get_children().list_outputs() == ["a", "a"]
    assert parts().get_children().list_outputs() == ["x"]
    assert a.get_children() is None


def test_a_symbol_of_several_outputs_cannot_be_an_input() -> None:
    with pytest.raises(GraphError, match=r"<Symbol sc> has 3 outputs .* index the symbol"):
        mx.sym.Activation(parts(), act_type="relu")


# -- operators ------------------------------------------------------------------------------


def test_names_and_operators_of_arithmetic() -> None:
    v = mx.sym.var("v")
    made = [
        v + 1,
        1 + v,
        v + v,
        1 - v,
        v / 2,
        2 / v,
        v**2,
        2**v,
        -v,
        abs(v),
        v > 1,
        v == v,
        v % 2,
        2 % v,
        v != 1,
        v < v,
        v <= 1,
        mx.sym.maximum(v, 1),
        mx.sym.minimum(1, v),
        mx.sym.hypot(v, v),
        mx.sym.pow(2, v),
        mx.sym.power(v, v),
    ]
    assert [(symbol.name, symbol.attr("op_name")) for symbol in made] == [
        ("_plusscalar0", "_plus_scalar"),
        ("_plusscalar1", "_plus_scalar"),
        ("_plus0", "elemwise_add"),
        ("_rminusscalar0", "_rminus_scalar"),
        ("_divscalar0", "_div_scalar"),
        ("_rdivscalar0", "_rdiv_scalar"),
        ("_powerscalar0", "_power_scalar"),
        ("_rpower_scalar0", "_rpower_scalar"),
        ("_mulscalar0", "_mul_scalar"),
        ("abs0", "abs"),
        ("_greater_scalar0", "_greater_scalar"),
        ("_equal0", "_equal"),
        ("_modscalar0", "_mod_scalar"),
        ("_rmodscalar0", "_rmod_scalar"),
        ("_not_equal_scalar0", "_not_equal_scalar"),
        ("_lesser0", "_lesser"),
        ("_lesser_equal_scalar0", "_lesser_equal_scalar"),
        ("_maximumscalar0", "_maximum_scalar"),
        ("_minimumscalar0", "_minimum_scalar"),
        ("_hypot0", "_hypot"),
        ("_rpowerscalar0", "_rpower_scalar"),
        ("_power0", "_power"),
    ]


@pytest.mark.parametrize(
    ("scalar", "text"), [(2, "2"), (1e-5, "1e-05"), (np.float32(2), "2.0"), (np.int64(3), "3")]
)
def test_scalars_are_written_as_python_prints_them(scalar: Any, text: str) -> None:
    v = mx.sym.var("v")
    assert (v * scalar).list_attr() == {"scalar": text}
    assert (scalar * v).list_attr() == {"scalar": text}


def test_functions_of_two_operands() -> None:
    assert mx.sym.pow(2, 3) == 8
    assert mx.sym.maximum(2, 3) == 3
    assert mx.sym.minimum(2, 3) == 2
    assert mx.sym.hypot(3, 4) == 5


def test_invalid_operands_are_refused() -> None:
    v = mx.sym.var("v")
    with pytest.raises(TypeError, match="not supported"):
        v + "1"
    with pytest.raises(TypeError, match=r"types \(.*str.*Symbol"):
        mx.sym.maximum("1", v)
    with pytest.raises(TypeError, match="unhashable"):
        hash(v)


@pytest.mark.parametrize("operator", ["__iadd__", "__isub__", "__imul__", "__itruediv__"])
def test_in_place_operators_are_refused(operator: str) -> None:
    v = mx.sym.var("v")
    with pytest.raises(NotImplementedForSymbol, match="not implemented for Symbol"):
        getattr(v, operator)(v)


@pytest.mark.parametrize("method", ["asnumpy", "asscalar", "copy", "detach", "backward"])
def test_methods_that_need_values_are_refused(method: str) -> None:
    with pytest.raises(NotImplementedForSymbol, match=method):
        getattr(mx.sym.var("v"), method)()
    with pytest.raises(NotImplementedForSymbol, match="bool"):
        bool(mx.sym.var("v"))
    with pytest.raises(MXNetError, match="grad_dict"):
        mx.sym.var("v").gradient(["v"])


def test_methods_match_the_functions() -> None:
    v = mx.sym.var("v")
    assert (
        v.reshape((1, 2)).list_attr() == v.reshape(shape=(1, 2)).list_attr() == {"shape": "(1, 2)"}
    )
    assert v.reshape((1, 2)).name == "reshape2"
    assert v.transpose(axes=[1, 0]).list_attr() == {"axes": "[1, 0]"}
    assert v.slice_axis(axis=1, begin=0, end=None).list_attr() == {
        "axis": "1",
        "begin": "0",
        "end": "None",
    }
    assert v.astype("float16").list_attr() == {"dtype": "float16"}
    assert v.expand_dims(1, inplace=True).list_attr() == {"axis": "1"}
    assert v.flatten().attr("op_name") == "Flatten"
    assert mx.sym.Symbol.sqrt(v).name == "sqrt0"


# -- creation -------------------------------------------------------------------------------


def test_variable_with_every_option() -> None:
    variable = mx.sym.var(
        "x",
        shape=(1, 2),
        lr_mult=1,
        wd_mult=2.0,
        dtype="float16",
        init=mx.init.Xavier(),
        stype="row_sparse",
        profiler_scope="block",
        __foo__=3,
    )
    assert variable.list_attr() == {
        "__storage_type__": "1",
        "__init__": '["xavier", {"rnd_type": "uniform", "factor_type": "avg", "magnitude": 3}]',
        "__foo__": "3",
        "__dtype__": "2",
        "__wd_mult__": "2.0",
        "wd_mult": "2.0",
        "__lr_mult__": "1",
        "lr_mult": "1",
        "__shape__": "(1, 2)",
        "__profiler_scope__": "block",
    }
    assert mx.sym.Variable is mx.sym.var


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"name": 1}, TypeError, "Expect a string"),
        ({"name": "x", "foo": 1}, ValueError, "Attribute name=foo is not supported"),
        ({"name": "x", "stype": "dense"}, ValueError, "expected one of undefined, default"),
        ({"name": "x", "dtype": "complex64"}, TypeError, "complex64"),
    ],
)
def test_invalid_variables_are_refused(
    arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        mx.sym.var(**arguments)


def test_missing_inputs_become_variables() -> None:
    v = mx.sym.var("v")
    assert dense(name="a").list_arguments() == ["a_data", "a_weight", "a_bias"]
    assert mx.sym.FullyConnected(v, None, None, 10, name="z").list_arguments() == [
        "v",
        "z_weight",
        "z_bias",
    ]
    assert mx.sym.Concat(v, num_args=3, name="c").list_arguments() == ["v", "c_arg1", "c_arg2"]
    named = mx.sym.Concat(arg0=v, arg1=mx.sym.var("w"), dim=1, name="c")
    assert named.list_arguments() == ["v", "w"]


def test_new_variables_inherit_the_operators_attributes() -> None:
    with mx.AttrScope(ctx_group="dev1", __data__="great"):
        net = dense(mx.sym.var("x"), "f2", attr={"__mood__": "calm"})
    own = {"num_hidden": "10", "__mood__": "calm"}
    scope = {"__data__": "great", "__ctx_group__": "dev1", "ctx_group": "dev1"}
    assert net.attr_dict() == {
        "x": scope,
        "f2_weight": {**own, **scope},
        "f2_bias": {**own, **scope},
        "f2": {**own, **scope},
    }


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda v: mx.sym.Activation(v, act_type="relux", name="a"),
            AttributeValueError,
            "Activation 'a': attribute 'act_type' is 'relux'; expected one of relu",
        ),
        (
            lambda v: mx.sym.Activation(v, act_type="relu", foo=1, name="a"),
            AttributeValueError,
            "Activation 'a': attribute 'foo' is unknown",
        ),
        (
            lambda v: mx.sym.Activation(v, name="a"),
            AttributeValueError,
            "'act_type' is required and missing",
        ),
        (
            lambda v: mx.sym.Activation(act_type="relu", dat=v, name="a"),
            GraphError,
            "Activation 'a': has no input 'dat'; did you mean 'data'",
        ),
        (
            lambda v: mx.sym.Concat(v, v, v, num_args=2, name="c"),
            GraphError,
            "Concat 'c': takes 2 inputs, got 3",
        ),
        (
            lambda v: dense(v, weight_lr_mult=3),
            GraphError,
            "setting variable attributes with weight_lr_mult is deprecated",
        ),
        (lambda v: mx.sym.Activation(3, act_type="relu"), TypeError, "input 'data' is int 3"),
        (lambda v: mx.sym.no_such_operator(v), AttributeError, "no attribute 'no_such_operator'"),
    ],
)
def test_invalid_calls_are_refused(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make(mx.sym.var("v"))


@pytest.mark.parametrize("out", [None, mx.nd.zeros((2,)), mx.sym.var("target")])
def test_out_is_ignored(out: Any) -> None:
    """Scripts for both arrays and symbols pass ``out`` to either."""
    clipped = mx.sym.clip(mx.sym.var("v"), 0, 1, out=out, name="c")
    assert clipped.list_arguments() == ["v"]
    assert clipped.attr_dict() == {"c": {"a_min": "0", "a_max": "1"}}
