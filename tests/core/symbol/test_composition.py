"""Attributes of nodes and composition of graphs; expected values are from MXNet 1.9.1."""

from __future__ import annotations

from typing import Any

import pytest

import core as mx
from core.errors import AttributeValueError, GraphError


@pytest.fixture(autouse=True)
def _names_from_zero() -> Any:
    with mx.name.NameManager():
        yield


def dense(data: Any = None, name: str = "fc", **attrs: Any) -> Any:
    return mx.sym.FullyConnected(data, num_hidden=10, name=name, **attrs)


def parts(name: str = "sc") -> Any:
    return mx.sym.SliceChannel(mx.sym.var("x"), num_outputs=3, name=name)


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


def test_set_attributes_take_effect() -> None:
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
def test_invalid_attributes_change_nothing(attrs: dict[str, Any], error: type[Exception]) -> None:
    net = dense()
    before = net.tojson()
    with pytest.raises(error):
        net._set_attr(**attrs)
    assert net.tojson() == before


def test_setting_attributes_of_a_group_is_refused() -> None:
    with pytest.raises(GraphError, match="group"):
        mx.sym.Group([mx.sym.var("a"), mx.sym.var("b")])._set_attr(x="1")


# -- composition ----------------------------------------------------------------------------


def test_composition_does_not_change_its_operands() -> None:
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
def test_invalid_compositions_are_refused(
    compose: Any, error: type[Exception], message: str
) -> None:
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


def test_json_counts_the_updates_of_an_auxiliary_state() -> None:
    """It is the third number of an entry, as MXNet 1.9.1 writes it."""
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


def test_gen_atomic_symbol_has_the_same_outputs_and_its_own_variables() -> None:
    names = [mx.sym.var(name) for name in ("data", "packed", "state", "cell")]
    net = mx.sym.RNN(*names, state_size=4, num_layers=1, state_outputs=True, mode="lstm", name="r")
    alone = net._gen_atomic_symbol()
    assert len(alone) == len(net) == 3
    assert alone.list_inputs() == ["r_data", "r_parameters", "r_state", "r_state_cell"]
    for other in (names[0], mx.sym.Group([names[0], net])):
        with pytest.raises(GraphError, match="not the result of one operator"):
            other._gen_atomic_symbol()
