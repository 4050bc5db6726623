"""Symbol JSON of every version, and malformed text."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import core as mx
from core.errors import (
    AttributeValueError,
    FormatError,
    GraphError,
    MXNetError,
    UnknownOperator,
)


def variable(name: str, **attrs: str) -> dict[str, Any]:
    return {"op": "null", "name": name, "attrs": attrs, "inputs": []}


def dense(**attrs: str) -> dict[str, Any]:
    """Return a graph of one FullyConnected without bias."""
    attrs = {"num_hidden": "3", "no_bias": "True", **attrs}
    return {
        "nodes": [
            variable("x"),
            variable("w"),
            {
                "op": "FullyConnected",
                "name": "fc",
                "attrs": attrs,
                "inputs": [[0, 0, 0], [1, 0, 0]],
            },
        ],
        "arg_nodes": [0, 1],
        "heads": [[2, 0, 0]],
    }


def load(graph: Any, version: int | None = None) -> Any:
    if version is not None:
        graph = {**graph, "attrs": {"mxnet_version": ["int", version]}}
    return mx.sym.load_json(json.dumps(graph))


def with_node(index: int, **fields: Any) -> dict[str, Any]:
    """Return the graph with fields of one node changed; None removes a field."""
    graph = dense()
    node = {**graph["nodes"][index], **fields}
    graph["nodes"][index] = {key: value for key, value in node.items() if value is not None}
    return graph


# -- what MXNet reads -----------------------------------------------------------------------


def test_attributes_under_every_name() -> None:
    attrs = {"num_hidden": "3", "no_bias": "True"}
    for field in ("attrs", "attr", "param"):
        assert load(with_node(2, **{"attrs": None, field: attrs})).list_attr() == attrs
    both = with_node(2, param={"num_hidden": "7"})
    assert load(both).list_attr() == attrs


def test_entries_of_two_and_three_elements() -> None:
    graph = with_node(2, inputs=[[0, 0], [1, 0, 4]], backward_source_id=-1, control_deps=[])
    graph["heads"] = [[2, 0]]
    text = load(graph).tojson()
    assert '"inputs": [[0, 0, 0], [1, 0, 4]]' in text
    assert '"heads": [[2, 0, 0]]' in text


def test_control_characters_in_names_are_kept() -> None:
    name = 'a"b\\c\nd\t\x01\r'
    text = mx.sym.var(name).tojson()
    assert '"name": "a\\"b\\\\c\\nd\\t\x01\\r"' in text
    assert mx.sym.load_json(text).name == name


def test_aliases_become_canonical_names() -> None:
    graph = with_node(2, op="_Plus", attrs={})
    assert load(graph).attr("op_name") == "elemwise_add"


@pytest.mark.parametrize("version", [None, 800, 904, 10100, 10901, 20000])
def test_hidden_attributes_in_old_form(version: int | None) -> None:
    symbol = load(dense(lr_mult="2", weight_wd_mult="3"), version)
    assert symbol.attr_dict() == {
        "w": {"__wd_mult__": "3", "wd_mult": "3"},
        "fc": {"__lr_mult__": "2", "lr_mult": "2", "no_bias": "True", "num_hidden": "3"},
    }


@pytest.mark.parametrize("attribute", ["foo_wd_mult", "bias_lr_mult"])
def test_hidden_attributes_of_missing_variables(attribute: str) -> None:
    with pytest.raises(AttributeValueError, match=f"FullyConnected 'fc': attribute '{attribute}'"):
        load(dense(**{attribute: "3"}))


def test_missing_inputs_are_created_in_files_before_0_9_0() -> None:
    symbol = load(dense(no_bias="False", ctx_group="dev1"), 800)
    assert symbol.list_arguments() == ["x", "w", "fc_bias"]
    assert symbol.attr_dict()["fc_bias"] == {
        "num_hidden": "3",
        "no_bias": "False",
        "__ctx_group__": "dev1",
        "ctx_group": "dev1",
    }


def test_missing_inputs_are_refused_in_later_files() -> None:
    with pytest.raises(
        GraphError, match=r"FullyConnected 'fc' has 2 inputs; expected 3 \(data, weight, bias\)"
    ):
        load(dense(no_bias="False"), 900)


def norm(version: int, count: int) -> Any:
    names = ["x", "gamma", "beta", "mean", "var"][:count]
    bn = {"op": "BatchNorm", "name": "bn", "inputs": [[i, 0] for i in range(count)]}
    graph = {
        "nodes": [*map(variable, names), bn],
        "arg_nodes": list(range(count)),
        "heads": [[count, 0]],
    }
    return load(graph, version)


def test_auxiliary_states_of_old_files() -> None:
    states = {"__init__": '["zero", {}]'}, {"__init__": '["one", {}]'}
    made = norm(800, 3)
    assert made.list_auxiliary_states() == ["bn_moving_mean", "bn_moving_var"]
    assert made.attr_dict() == dict(zip(made.list_auxiliary_states(), states, strict=True))
    assert norm(903, 5).attr_dict() == dict(zip(("mean", "var"), states, strict=True))
    assert norm(904, 5).attr_dict() == {}


@pytest.mark.parametrize(("version", "attrs"), [(904, {}), (905, {"axis": "-1"})])
def test_axis_of_argmax_in_old_files(version: int, attrs: dict[str, str]) -> None:
    graph = {
        "nodes": [
            variable("x"),
            {"op": "argmax", "name": "a", "attrs": {"axis": "-1"}, "inputs": [[0, 0]]},
        ],
        "arg_nodes": [0],
        "heads": [[1, 0]],
    }
    assert load(graph, version).list_attr() == attrs


def test_mkldnn_off_is_dropped_though_mxnet_refuses_it() -> None:
    assert load(dense(mkldnn_off="1")).attr("mkldnn_off") is None


def test_newer_files_are_read_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        load(dense(), 20000)
    assert "newer than 10901" in caplog.text
    caplog.clear()
    load(dense(), 10901)
    assert not caplog.text


# -- malformed files ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "malformed"),
        ("{", "malformed"),
        ("null", "the graph is null; expected an object"),
        ("[]", "the graph is a list"),
        ("NaN", "NaN is not a JSON number"),
        ("[" * 100_000, "nested too deeply"),
        ("9" * 5000, "malformed"),
        ("{}", "has no field 'nodes'"),
    ],
)
def test_text_that_is_not_a_graph_is_refused(text: str, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        mx.sym.load_json(text)


@pytest.mark.parametrize(
    ("field", "value", "error", "message"),
    [
        ("nodes", {}, FormatError, "nodes is an object; expected a list"),
        ("nodes", [3], FormatError, r"nodes\[0\] is 3; expected an object"),
        ("nodess", [], FormatError, "field 'nodess'; did you mean 'nodes'"),
        ("arg_nodes", None, FormatError, "arg_nodes is null; expected a list"),
        ("arg_nodes", ["0"], FormatError, r"arg_nodes\[0\] is the string '0'; expected a number"),
        ("arg_nodes", [7], GraphError, r"arg_nodes\[0\] is 7; there are 3 nodes"),
        ("arg_nodes", [2], GraphError, r"arg_nodes\[0\] is node 2 'fc', which is not a variable"),
        ("heads", [], GraphError, "heads is empty"),
        ("heads", [[3, 0, 0]], GraphError, r"heads\[0\] refers to node 3; there are 3 nodes"),
        ("heads", [[2, 1, 0]], GraphError, r"heads\[0\] is output 1 of 'fc', which has 1"),
        ("heads", [[2, -1, 0]], FormatError, r"heads\[0\]\[1\] is -1; expected a number from 0"),
        ("heads", [[2, 2**40, 0]], FormatError, r"heads\[0\]\[1\] is 1099511627776"),
        ("heads", [[2.0, 0]], FormatError, r"heads\[0\]\[0\] is 2.0"),
        ("heads", [[True, 0]], FormatError, r"heads\[0\]\[0\] is True"),
        ("heads", [[2]], FormatError, r"heads\[0\] has 1 elements; expected \[node, output"),
        ("attrs", [], FormatError, "attrs of the graph is a list"),
        ("attrs", {"mxnet_version": 905}, FormatError, "attrs.mxnet_version is 905"),
        ("attrs", {"mxnet_version": ["int", "905"]}, FormatError, "is the string '905'"),
    ],
)
def test_malformed_fields_of_the_graph_are_named(
    field: str, value: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        load({**dense(), field: value})


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"op": 3}, FormatError, r"nodes\[2\] 'fc'.op is 3; expected a string"),
        ({"op": None}, FormatError, r"nodes\[2\] has no field 'op'"),
        ({"name": ["fc"]}, FormatError, r"nodes\[2\].name is a list; expected a string"),
        ({"name": "\ud800"}, FormatError, "not valid Unicode"),
        ({"nam": "x"}, FormatError, "has a field 'nam'; did you mean 'name'"),
        ({"attrs": "x"}, FormatError, r"nodes\[2\] 'fc'.attrs is the string 'x'"),
        ({"attrs": {"num_hidden": 3}}, FormatError, r"attrs\['num_hidden'\] is 3"),
        ({"attrs": {"num_hidden": "3"}}, GraphError, "has 2 inputs; expected 3"),
        ({"attrs": {}}, AttributeValueError, "'num_hidden' is required and missing"),
        ({"inputs": [[2, 0, 0]]}, GraphError, r"inputs\[0\] refers to node 2; expected a node"),
        ({"inputs": [[9, 0, 0]]}, GraphError, r"inputs\[0\] refers to node 9; expected a node"),
        ({"inputs": [[0, 5, 0]]}, GraphError, r"inputs\[0\] is output 5 of 'x', which has 1"),
        ({"inputs": []}, GraphError, r"has 0 inputs; expected 2 \(data, weight\)"),
        ({"inputs": 3}, FormatError, r"nodes\[2\] 'fc'.inputs is 3"),
        ({"subgraphs": [{}]}, GraphError, "node 'fc' has subgraphs"),
        ({"control_deps": [0]}, GraphError, "node 'fc' has control_deps"),
        ({"op": "null"}, GraphError, "variable 'fc' has 2 inputs; expected 0"),
    ],
)
def test_malformed_fields_of_a_node_are_named(
    fields: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        load(with_node(2, **fields), 10901)


def test_all_unknown_operators_are_named_at_once() -> None:
    graph = with_node(2, op="FulyConnected")
    graph["nodes"].append({"op": "Zyxw", "name": "w2", "inputs": []})
    with pytest.raises(UnknownOperator) as caught:
        load(graph)
    assert str(caught.value) == (
        "2 operators of the graph are not known: 'FulyConnected' (node 'fc'; did you mean "
        "'FullyConnected'?), 'Zyxw' (node 'w2')"
    )


def test_only_the_first_unknown_operators_are_listed() -> None:
    graph = dense()
    graph["nodes"] += [{"op": f"Warp{i}", "name": "w", "inputs": []} for i in range(3000)]
    with pytest.raises(UnknownOperator, match=r"^3000 operators .*'Warp19' .*\), \.\.\.$"):
        load(graph)


def test_an_auxiliary_state_must_be_a_variable() -> None:
    names = ["x", "gamma", "beta", "var"]
    nodes = [
        *map(variable, names),
        {"op": "relu", "name": "act", "inputs": [[0, 0]]},
        {"op": "BatchNorm", "name": "bn", "inputs": [[i, 0] for i in (0, 1, 2, 4, 3)]},
    ]
    with pytest.raises(GraphError, match="BatchNorm 'bn': moving_mean is the output of 'act'"):
        load({"nodes": nodes, "arg_nodes": [], "heads": [[5, 0]]})


@pytest.mark.parametrize("count", ["1000000000", "3"])
def test_a_wrong_count_of_inputs_is_refused(count: str) -> None:
    graph = with_node(2, op="Concat", attrs={"num_args": count})
    with pytest.raises(GraphError, match=f"has 2 inputs; its num_args is {count}"):
        load(graph, 800)


def test_long_values_are_shortened_in_messages() -> None:
    with pytest.raises(FormatError) as caught:
        load(with_node(2, op=[["x" * 10_000]], name="n" * 10_000))
    assert len(str(caught.value)) < 300


# -- fuzzing --------------------------------------------------------------------------------

_scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
_json = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)
_entry = st.lists(st.integers(-1, 5) | _scalars, max_size=4)
_attrs = st.dictionaries(
    st.sampled_from(
        ["num_hidden", "no_bias", "lr_mult", "weight_lr_mult", "act_type", "__shape__"]
    ),
    st.text(max_size=6) | st.sampled_from(["3", "True", "relu", "(1,2)", "None"]) | _json,
)
_node = st.fixed_dictionaries(
    {
        "op": st.sampled_from(["null", "FullyConnected", "Activation", "Concat", "_Plus", "x"])
        | _json,
        "name": st.text(max_size=5) | _json,
        "inputs": st.lists(_entry, max_size=4) | _json,
    },
    optional={"attrs": _attrs, "attr": _attrs, "param": _attrs, "subgraphs": _json},
)
_graph = st.fixed_dictionaries(
    {
        "nodes": st.lists(_node, max_size=6) | _json,
        "arg_nodes": st.lists(st.integers(-1, 6), max_size=4) | _json,
        "heads": st.lists(_entry, max_size=3) | _json,
    },
    optional={"attrs": _json, "node_row_ptr": _json},
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_graph | _json)
def test_any_json_is_a_graph_or_an_mxnet_error(value: Any) -> None:
    _read(json.dumps(value))


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2000), st.text(max_size=3), st.integers(0, 3))
def test_a_damaged_file_is_a_graph_or_an_mxnet_error(at: int, put: str, cut: int) -> None:
    text = json.dumps(dense())
    _read(text[: at % len(text)] + put + text[at % len(text) + cut :])


@settings(max_examples=100, deadline=None)
@given(st.text())
def test_any_text_is_a_graph_or_an_mxnet_error(text: str) -> None:
    _read(text)


def _read(text: str) -> None:
    try:
        symbol = mx.sym.load_json(text)
    except MXNetError:
        return
    written = symbol.tojson()
    assert mx.sym.load_json(written).tojson() == written
