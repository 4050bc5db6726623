"""Symbols as scripts use them; expected values are those of MXNet 1.9.1."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import core as mx
from core.errors import (
    AttributeValueError,
    FormatError,
    GraphError,
    MXNetError,
    NotImplementedForSymbol,
    StageError,
)
from core.symbol import symbol as symbol_module


@pytest.fixture(autouse=True)
def _names_from_zero() -> Any:
    with mx.name.NameManager():
        yield


def dense(data: Any = None, name: str = "fc", **attrs: Any) -> Any:
    return mx.sym.FullyConnected(data, num_hidden=10, name=name, **attrs)


def parts(name: str = "sc") -> Any:
    return mx.sym.SliceChannel(mx.sym.var("x"), num_outputs=3, name=name)


# -- outputs --------------------------------------------------------------------------------


def test_one_of_several_outputs() -> None:
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
def test_wrong_index(index: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        parts()[index]


def test_ambiguous_name() -> None:
    with pytest.raises(ValueError, match="multiple outputs"):
        mx.sym.Group([parts(), parts()])["sc_output0"]


def test_group() -> None:
    group = mx.sym.Group([dense(), mx.sym.var("d"), parts()])
    assert group.list_outputs() == ["fc_output", "d", "sc_output0", "sc_output1", "sc_output2"]
    assert group.name is None
    assert repr(group) == "<Symbol group [fc, d, sc, sc, sc]>"
    assert group.attr("num_hidden") is None
    assert group.list_attr() == {"num_hidden": "10"}


@pytest.mark.parametrize("symbols", [[], [1], [None]])
def test_group_of_no_symbols(symbols: list[Any]) -> None:
    with pytest.raises(TypeError, match="list of symbols"):
        mx.sym.Group(symbols)


def test_internals_and_children() -> None:
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


def test_several_outputs_are_no_input() -> None:
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


def test_functions_of_two_numbers() -> None:
    assert mx.sym.pow(2, 3) == 8
    assert mx.sym.maximum(2, 3) == 3
    assert mx.sym.minimum(2, 3) == 2
    assert mx.sym.hypot(3, 4) == 5


def test_wrong_operands() -> None:
    v = mx.sym.var("v")
    with pytest.raises(TypeError, match="not supported"):
        v + "1"
    with pytest.raises(TypeError, match=r"types \(.*str.*Symbol"):
        mx.sym.maximum("1", v)
    with pytest.raises(TypeError, match="unhashable"):
        hash(v)


@pytest.mark.parametrize("operator", ["__iadd__", "__isub__", "__imul__", "__itruediv__"])
def test_nothing_is_done_in_place(operator: str) -> None:
    v = mx.sym.var("v")
    with pytest.raises(NotImplementedForSymbol, match="not implemented for Symbol"):
        getattr(v, operator)(v)


@pytest.mark.parametrize("method", ["asnumpy", "asscalar", "copy", "detach", "backward"])
def test_values_are_the_executors_affair(method: str) -> None:
    with pytest.raises(NotImplementedForSymbol, match=method):
        getattr(mx.sym.var("v"), method)()
    with pytest.raises(NotImplementedForSymbol, match="bool"):
        bool(mx.sym.var("v"))
    with pytest.raises(MXNetError, match="grad_dict"):
        mx.sym.var("v").gradient(["v"])


def test_methods_are_the_functions() -> None:
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


def test_variable_with_everything() -> None:
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
def test_wrong_variables(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        mx.sym.var(**arguments)


def test_inputs_not_given_become_variables() -> None:
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
        (lambda v: mx.sym.Activation(v, act_type="relu", out=v), TypeError, "out must be None"),
        (lambda v: mx.sym.Activation(3, act_type="relu"), TypeError, "input 'data' is int 3"),
        (lambda v: mx.sym.no_such_operator(v), AttributeError, "no attribute 'no_such_operator'"),
    ],
)
def test_wrong_calls(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make(mx.sym.var("v"))


# -- attributes -----------------------------------------------------------------------------


def test_attributes_of_an_operator() -> None:
    net = mx.sym.FullyConnected(
        mx.sym.var("data", lr_mult=2),
        num_hidden=10,
        name="fc",
        attr={"__mood__": "x", "lr_mult": "3"},
    )
    assert [net.attr(key) for key in ("lr_mult", "__lr_mult__", "name", "num_hidden", "zzz")] == [
        "3",
        "3",
        "fc",
        "10",
        None,
    ]
    assert net.attr("op_name") == "FullyConnected"
    assert net.list_attr() == {
        "num_hidden": "10",
        "__lr_mult__": "3",
        "lr_mult": "3",
        "__mood__": "x",
    }
    assert net.attr_dict()["data"] == {"__lr_mult__": "2", "lr_mult": "2"}
    with pytest.raises(DeprecationWarning):
        net.list_attr(recursive=True)


def test_setting_attributes() -> None:
    net = dense(mx.sym.var("d"))
    net._set_attr(num_hidden="20", wd_mult="4", __note__="n", name="renamed")
    assert net.infer_shape(d=(2, 3))[1] == [(2, 20)]
    assert net.list_attr() == {
        "num_hidden": "20",
        "__wd_mult__": "4",
        "wd_mult": "4",
        "__note__": "n",
    }
    assert net.name == "renamed"
    assert net.get_children()[1].list_attr() == {"num_hidden": "10"}


@pytest.mark.parametrize(
    ("attrs", "error"),
    [
        ({"num_hidden": 4}, ValueError),
        ({"num_hidden": "hello"}, AttributeValueError),
        ({"num_hiddenz": "20", "name": "other"}, AttributeValueError),
        ({"data_lr_mult": "2"}, GraphError),
    ],
)
def test_attributes_that_cannot_be_set_change_nothing(
    attrs: dict[str, Any], error: type[Exception]
) -> None:
    net = dense()
    before = net.tojson()
    with pytest.raises(error):
        net._set_attr(**attrs)
    assert net.tojson() == before


def test_a_group_has_no_attributes_to_set() -> None:
    with pytest.raises(GraphError, match="group"):
        mx.sym.Group([mx.sym.var("a"), mx.sym.var("b")])._set_attr(x="1")


# -- composition ----------------------------------------------------------------------------


def test_composition_leaves_both_sides_alone() -> None:
    net1 = dense(mx.sym.var("a"), "n1")
    net2 = dense(mx.sym.var("b"), "n2")
    composed = net2(b=net1, name="joined")
    assert composed.list_arguments() == ["a", "n1_weight", "n1_bias", "n2_weight", "n2_bias"]
    assert composed.list_outputs() == ["joined_output"]
    assert net2.list_arguments() == ["b", "n2_weight", "n2_bias"]
    assert net2.list_outputs() == ["n2_output"]
    assert net2().list_arguments() == net2.list_arguments()


def test_composition_replaces_heads_too() -> None:
    a = mx.sym.var("a")
    group = mx.sym.Group([a, dense(a, "n")])
    assert group(a=dense(mx.sym.var("z"), "m")).list_outputs() == ["m_output", "n_output"]


@pytest.mark.parametrize(
    ("compose", "error", "message"),
    [
        (lambda net, other: net(other), GraphError, "by keyword"),
        (lambda net, other: net(other, b=other), TypeError, "not both"),
        (lambda net, other: net(b=3), TypeError, "Compose expect `Symbol`"),
        (lambda net, other: net(zz=other), GraphError, "no input 'zz'; it has b, n_weight, n_bias"),
        (lambda net, other: net(b=parts()), GraphError, "3 outputs"),
    ],
)
def test_wrong_compositions(compose: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        compose(dense(mx.sym.var("b"), "n"), mx.sym.var("o"))


def test_auxiliary_states_belong_to_their_operator() -> None:
    bn = mx.sym.BatchNorm(mx.sym.var("x"), name="bn")
    assert bn.list_arguments() == ["x", "bn_gamma", "bn_beta"]
    assert bn.list_auxiliary_states() == ["bn_moving_mean", "bn_moving_var"]
    assert bn.list_inputs() == ["x", "bn_gamma", "bn_beta", "bn_moving_mean", "bn_moving_var"]
    assert bn.list_outputs() == ["bn_output"]
    assert bn.attr_dict() == {
        "bn_moving_mean": {"__init__": '["zero", {}]'},
        "bn_moving_var": {"__init__": '["one", {}]'},
    }
    with pytest.raises(GraphError, match="moving_mean is the output of 'r'; an auxiliary state"):
        mx.sym.BatchNorm(bn, moving_mean=mx.sym.Activation(bn, act_type="relu", name="r"))


def test_updates_of_variables_are_counted_in_json() -> None:
    """The third number of an entry, as MXNet 1.9.1 writes it."""
    mean, var = mx.sym.var("mm"), mx.sym.var("mv")
    net = mx.sym.var("a")
    for name in ("b1", "b2"):
        net = mx.sym.BatchNorm(net, moving_mean=mean, moving_var=var, name=name)
    assert '"inputs": [[0, 0, 0], [1, 0, 0], [2, 0, 0], [3, 0, 1], [4, 0, 1]]' in net.tojson()
    assert '"inputs": [[5, 0, 0], [6, 0, 0], [7, 0, 0], [3, 0, 2], [4, 0, 2]]' in net.tojson()
    assert '"inputs": [[8, 0, 0], [3, 0, 2]]' in (net + mean).tojson()
    assert '"heads": [[5, 0, 0], [6, 0, 0], [7, 0, 0], [3, 0, 2], [4, 0, 2]]' in (
        net.get_children().tojson()
    )
    assert mx.sym.load_json(net.tojson()).tojson() == net.tojson()


# -- files and copies -----------------------------------------------------------------------


def test_copies_share_nothing() -> None:
    net = dense(mx.sym.var("a"))
    for other in (copy.copy(net), copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert other.tojson() == net.tojson()
        other._set_attr(__note__="1")
        other.get_children()[0]._set_attr(__note__="1")
        assert net.attr("__note__") is None
        assert net.get_children()[0].attr("__note__") is None


def test_files(tmp_path: Path) -> None:
    net = dense(mx.sym.var("gr\u00fc\u00dfe", __note__="\u65e5\u672c"))
    path = str(tmp_path / "net-symbol.json")
    net.save(path)
    assert Path(path).read_bytes() == net.tojson().encode()
    assert mx.sym.load(path).tojson() == net.tojson()


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="fname"):
        dense().save(3)
    with pytest.raises(TypeError, match="fname"):
        mx.sym.load(3)
    with pytest.raises(TypeError, match="fname"):
        mx.sym.load_json(b"{}")
    with pytest.raises(FileNotFoundError):
        mx.sym.load(str(tmp_path / "missing"))
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FormatError, match="no text in UTF-8"):
        mx.sym.load(str(tmp_path / "binary"))


def test_casts_of_mixed_precision_are_left_out_of_json() -> None:
    a, b = mx.sym.var("a"), mx.sym.var("b")
    inner = mx.sym.amp_cast(mx.sym.amp_cast(a, dtype="float32"), dtype="float16", name="cast")
    both = mx.sym.amp_multicast(inner, b, num_outputs=2, name="multi")
    net = both[0] + both[1]
    assert "amp" not in net.tojson()
    assert '"name": "_plus0", \n      "inputs": [[0, 0, 0], [1, 0, 0]]' in net.tojson()
    assert "amp_multicast" in net.tojson(remove_amp_cast=False)
    assert mx.sym.amp_cast(a, dtype="float16").tojson().count("amp_cast") == 2
    assert "amp_multicast" in pickle.loads(pickle.dumps(net)).tojson(remove_amp_cast=False)


def test_debug_str() -> None:
    sc = parts()
    net = mx.sym.FullyConnected(sc[1], num_hidden=3, no_bias=True, name="fc")
    assert mx.sym.Group([net, mx.sym.var("d")]).debug_str() == (
        "Symbol Outputs:\n"
        "\toutput[0]=fc(0)\n"
        "\toutput[1]=d(0)\n"
        "Variable:x\n"
        "--------------------\n"
        "Op:SliceChannel, Name=sc\n"
        "Inputs:\n"
        "\targ[0]=x(0) version=0\n"
        "Attrs:\n"
        "\tnum_outputs=3\n"
        "Variable:fc_weight\n"
        "--------------------\n"
        "Op:FullyConnected, Name=fc\n"
        "Inputs:\n"
        "\targ[0]=sc(1)\n"
        "\targ[1]=fc_weight(0) version=0\n"
        "Attrs:\n"
        "\tno_bias=True\n"
        "\tnum_hidden=3\n"
        "Variable:d\n"
    )
    assert mx.sym.var("a").debug_str() == "Variable:a\n"


# -- execution ------------------------------------------------------------------------------


class FakeBinder:
    """Returns what it is called with."""

    def bind(self, symbol: Any, ctx: Any, args: Any, **options: Any) -> Any:
        return "bind", symbol, ctx, args, options

    def simple_bind(self, symbol: Any, ctx: Any, *, shapes: Any, **options: Any) -> Any:
        return "simple_bind", symbol, ctx, shapes, options


def test_binding_is_handed_to_the_binder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(symbol_module, "_binders", [])
    symbol_module.set_binder(FakeBinder())
    net = dense()
    kind, symbol, ctx, args, options = net.bind(mx.cpu(), {"fc_data": 1}, grad_req="add")
    assert (kind, symbol is net, ctx, args) == ("bind", True, mx.cpu(), {"fc_data": 1})
    assert options == {
        "args_grad": None,
        "grad_req": "add",
        "aux_states": None,
        "group2ctx": None,
        "shared_exec": None,
    }
    kind, symbol, ctx, shapes, options = net.simple_bind(
        mx.cpu(1), grad_req="null", type_dict={"fc_data": "float16"}, fc_data=(2, 3)
    )
    assert (kind, symbol is net, ctx, shapes) == (
        "simple_bind",
        True,
        mx.cpu(1),
        {"fc_data": (2, 3)},
    )
    assert options == {
        "grad_req": "null",
        "type_dict": {"fc_data": "float16"},
        "stype_dict": None,
        "group2ctx": None,
        "shared_arg_names": None,
        "shared_exec": None,
        "shared_buffer": None,
    }


def test_binding_without_an_executor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(symbol_module, "_binders", [])
    with pytest.raises(StageError, match=r"import core\.executor"):
        dense().bind(mx.cpu(), {})
