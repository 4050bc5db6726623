"""``mx.sym.contrib.foreach``, ``while_loop`` and ``cond``: composition, JSON, inference, errors."""

from __future__ import annotations

import copy
import json
import pickle
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import core as mx
from core.errors import FormatError, GraphError, MXNetError, ShapeError, UsageError
from core.ops.registry import make_operator
from core.symbol import Symbol
from oracle import golden_file
from oracle.topics.loops import BRANCHES, CASES, build, describe

every_case = pytest.mark.parametrize("case_id", [*CASES, *BRANCHES])


def _mxnets_json(case_id: str) -> str:
    return (golden_file.GOLDEN / "loops" / f"{case_id}.json").read_text()


# -- JSON -------------------------------------------------------------------------------


@every_case
def test_composed_graphs_match_mxnets(case_id: str) -> None:
    assert build(mx, case_id)[0].tojson() == _mxnets_json(case_id)


@every_case
def test_mxnets_json_is_rewritten_unchanged(case_id: str) -> None:
    text = _mxnets_json(case_id)
    symbol = mx.sym.load_json(text)
    assert symbol.tojson() == text
    assert describe(symbol) == describe(build(mx, case_id)[0])
    for other in (copy.copy(symbol), copy.deepcopy(symbol), pickle.loads(pickle.dumps(symbol))):
        assert other.tojson() == text


def test_attributes_of_a_loop_can_be_set() -> None:
    symbol, _ = build(mx, "rnn")
    loop = symbol.get_internals()["_foreach0_output0"]
    loop._set_attr(ctx_group="stage")
    assert loop.attr("ctx_group") == "stage"
    assert loop.attr("num_out_data") == "1"
    assert loop.attr("_value_index") == "0"
    assert symbol.infer_shape(data=(4, 2, 3), state=(2, 5))[1] == [(4, 2, 5), (2, 5)]


# -- inference --------------------------------------------------------------------------


@pytest.mark.parametrize("case_id", CASES)
def test_infers_shapes_and_dtypes(case_id: str) -> None:
    symbol, given = build(mx, case_id)
    golden = golden_file.topic("loops")
    arguments, outputs, _ = symbol.infer_shape(**given)
    for index, shape in enumerate(outputs):
        assert shape == golden[f"{case_id}/out{index}"].shape
    for name, shape in zip(symbol.list_arguments(), arguments, strict=True):
        assert shape == golden[f"{case_id}/grad_{name}"].shape
    first = symbol.list_arguments()[0]
    dtypes = symbol.infer_type_partial(**{first: "float64"})[0]
    apart = {"f"} if case_id == "passed_through" else set()
    for name, dtype in zip(symbol.list_arguments(), dtypes, strict=True):
        assert dtype is (None if name in apart else np.float64)


def test_known_shapes_pass_backwards_through_a_loop() -> None:
    symbol, _ = build(mx, "rnn")
    shapes = symbol.infer_shape_partial(data=(4, 2, 3))
    assert dict(zip(symbol.list_arguments(), shapes[0], strict=True))["i2h_weight"] == (5, 3)
    out, _ = mx.sym.contrib.foreach(lambda x, s: (x + s, s * 2), mx.sym.var("x"), mx.sym.var("s"))
    assert out.infer_shape(x=(4, 2, 3))[0] == [(4, 2, 3), (2, 3)]
    total = mx.sym.elemwise_add(out, mx.sym.var("y"))
    assert total.infer_shape_partial(y=(4, 2, 3))[0] == [(), (2, 3), (4, 2, 3)]
    assert total.infer_shape_partial(y=(4, 2, 3), x=(0, 0, 0))[0][0] == (4, 2, 3)
    unknown = mx.sym.contrib.foreach(
        lambda x, s: (x + s, s), mx.sym.var("x", shape=(0, 3)), mx.sym.var("s")
    )[0]
    assert unknown.infer_shape_partial() == ([(0, 3), (3,)], [(0, 3)], [])


def test_contradictions_name_the_node_inside_the_loop() -> None:
    symbol, _ = build(mx, "nested")
    with pytest.raises(ShapeError, match=r"_foreach '_foreach1': .*_foreach '_foreach0': .*'_mul"):
        symbol.infer_shape(a=(3, 4, 2), w=(5,))
    out, _ = mx.sym.contrib.foreach(
        lambda x, s: (x[0] + x[1] + s, s), [mx.sym.var("a"), mx.sym.var("b")], mx.sym.var("s")
    )
    with pytest.raises(ShapeError, match="the length of axis 0 has shape"):
        out.infer_shape(a=(3, 2), b=(4, 2))
    grown, _ = mx.sym.contrib.foreach(
        lambda x, s: (x, mx.sym.concat(s, x, dim=0)), mx.sym.var("a"), mx.sym.var("s")
    )
    with pytest.raises(ShapeError, match=r"_foreach '.*': Concat '.*': output has shape"):
        grown.infer_shape(a=(3, 2), s=(2,))


# -- invalid calls ----------------------------------------------------------------------


def _x() -> Symbol:
    return mx.sym.var("x")


def _s() -> Symbol:
    return mx.sym.var("s")


_REFUSED: dict[str, tuple[type[Exception], str, Callable[[], Any]]] = {
    "data": (
        UsageError,
        r"foreach input must be \(nested\) list of Symbol, but got 3",
        lambda: mx.sym.contrib.foreach(lambda x, s: (x, s), 3, _s()),
    ),
    "states": (
        UsageError,
        "foreach states must be",
        lambda: mx.sym.contrib.foreach(lambda x, s: (x, s), _x(), [3]),
    ),
    "outputs": (
        UsageError,
        "foreach output must be",
        lambda: mx.sym.contrib.foreach(lambda x, s: (3, s), _x(), _s()),
    ),
    "form": (
        UsageError,
        "loop_vars have different format",
        lambda: mx.sym.contrib.foreach(lambda x, s: (x, [s]), _x(), _s()),
    ),
    "unused data": (
        UsageError,
        "the data arrays have to be used in the loop body; 'x-0' is not",
        lambda: mx.sym.contrib.foreach(lambda x, s: (s, s), _x(), _s()),
    ),
    "unused state": (
        UsageError,
        "the state arrays have to be used in the loop body; 's-0' is not",
        lambda: mx.sym.contrib.foreach(lambda x, s: (x, x), _x(), _s()),
    ),
    "nothing returned": (
        TypeError,
        "Expected a list of symbols",
        lambda: mx.sym.contrib.foreach(lambda x, s: ([], []), _x(), []),
    ),
    "no data": (
        GraphError,
        "in_data_locs is empty",
        lambda: mx.sym.contrib.foreach(lambda x, s: ([], s * 2), [], _s()),
    ),
    "max_iterations missing": (
        ValueError,
        "max_iterations should be specified",
        lambda: mx.sym.contrib.while_loop(lambda x: x, lambda x: ([], x), _x()),
    ),
    "max_iterations": (
        ValueError,
        "Cannot convert max_iteration to python int",
        lambda: mx.sym.contrib.while_loop(lambda x: x, lambda x: ([], x), _x(), "many"),
    ),
    "max_iterations too few": (
        GraphError,
        "'max_iterations' is 0; its minimum is 1",
        lambda: mx.sym.contrib.while_loop(lambda x: x, lambda x: ([], x), _x(), 0),
    ),
    "no loop_vars": (
        ValueError,
        "loop_vars should contain at least one element",
        lambda: mx.sym.contrib.while_loop(lambda: 1, lambda: ([], []), [], 3),
    ),
    "cond's result": (
        ValueError,
        "Return of cond must be a Symbol",
        lambda: mx.sym.contrib.while_loop(lambda x: 1, lambda x: ([], x), _x(), 3),
    ),
    "another number": (
        ValueError,
        "number of loop_vars should be consistent",
        lambda: mx.sym.contrib.while_loop(lambda x: x, lambda x: ([], [x, x]), _x(), 3),
    ),
    "unused loop_var": (
        ValueError,
        "The 2-th loop_var doesn't involve",
        lambda: mx.sym.contrib.while_loop(
            lambda x, s: x, lambda x, s: ([], [x + 1, x]), [_x(), _s()], 3
        ),
    ),
    "pred": (
        ValueError,
        "pred should always be a single output",
        lambda: mx.sym.contrib.cond([_x(), _s()], _x, _s),
    ),
    "branches": (
        ValueError,
        "Number of outputs differs",
        lambda: mx.sym.contrib.cond(_x(), _x, lambda: [_x(), _s()]),
    ),
    "without subgraphs": (
        GraphError,
        r"_cond 'c': has 0 subgraphs, expected 3 \(cond, then_branch, else_branch\)",
        lambda: make_operator("_cond", "c", {"num_args": 3, "num_outputs": 1} | _NOWHERE),
    ),
}

_NOWHERE = dict.fromkeys(("cond_input_locs", "then_input_locs", "else_input_locs"), "[]")


@pytest.mark.parametrize("what", _REFUSED)
def test_invalid_calls_are_refused(what: str) -> None:
    kind, message, call = _REFUSED[what]
    with pytest.raises(kind, match=message):
        call()


# -- malformed files --------------------------------------------------------------------


def _changed(case_id: str, change: Callable[[Any, Any], Any]) -> str:
    """Return MXNet's JSON after a change to the graph and its last loop or branch."""
    graph = json.loads(_mxnets_json(case_id))
    last = [node for node in graph["nodes"] if "subgraphs" in node][-1]
    change(graph, last)
    return json.dumps(graph)


def _set(key: str, value: str) -> Callable[[Any, Any], None]:
    return lambda graph, node: node["attrs"].__setitem__(key, value)


_BAD_FILES: dict[str, tuple[str, str, Callable[[Any, Any], Any]]] = {
    "none": ("rnn", "has 0 subgraphs, expected 1", lambda g, n: n.pop("subgraphs")),
    "too many": (
        "rnn",
        "has 2 subgraphs, expected 1",
        lambda g, n: n["subgraphs"].append(n["subgraphs"][0]),
    ),
    "no list": ("rnn", "subgraphs is an object", lambda g, n: n.update(subgraphs={})),
    "no graph": ("rnn", r"subgraphs\[0\]: the graph is 3", lambda g, n: n.update(subgraphs=[3])),
    "no nodes": (
        "rnn",
        r"subgraphs\[0\]: the graph has no field 'nodes'",
        lambda g, n: n["subgraphs"][0].pop("nodes"),
    ),
    "attributes": (
        "rnn",
        "has a field 'attrs'",
        lambda g, n: n["subgraphs"][0].update(attrs={}),
    ),
    "no heads": (
        "rnn",
        r"subgraphs\[0\]: heads is empty",
        lambda g, n: n["subgraphs"][0].update(heads=[]),
    ),
    "cycle": (
        "rnn",
        "expected a node that comes before it",
        lambda g, n: n["subgraphs"][0]["nodes"][-1].update(inputs=[[99, 0, 0], [0, 0, 0]]),
    ),
    "unknown operator": (
        "rnn",
        "'Foolish'",
        lambda g, n: n["subgraphs"][0]["nodes"][-1].update(op="Foolish"),
    ),
    "repeated names": (
        "rnn",
        "don't have unique names: 'i2h_bias'",
        lambda g, n: n["subgraphs"][0]["nodes"][1].update(name="i2h_bias"),
    ),
    "where none belongs": (
        "rnn",
        "'_mulscalar0' has subgraphs, but its operator takes none",
        lambda g, n: g["nodes"][-1].update(subgraphs=n["subgraphs"]),
    ),
    "of a variable": (
        "rnn",
        "'data' has subgraphs, but its operator takes none",
        lambda g, n: g["nodes"][0].update(subgraphs=n["subgraphs"]),
    ),
    "outputs": ("rnn", "has 2 outputs, expected 7", _set("num_outputs", "7")),
    "stacked": ("rnn", "expected num_out_data", _set("num_out_data", "2")),
    "states": ("rnn", "repeats a number", _set("in_state_locs", "[0]")),
    "range": ("rnn", "expected numbers from 0 to 4", _set("in_state_locs", "[2000000000]")),
    "negative": ("rnn", "expected numbers from 0 to 4", _set("in_data_locs", "[-1]")),
    "missing places": ("rnn", "expected as many", _set("remain_locs", "[1]")),
    "count": ("rnn", "expected as many", _set("num_args", "100000000")),
    "inputs": ("rnn", "has 4 inputs", lambda g, n: n["inputs"].pop()),
    "condition": (
        "while_states",
        "'cond' has 2 outputs, expected 1",
        lambda g, n: n["subgraphs"][0]["heads"].append([0, 0, 0]),
    ),
    "condition's inputs": (
        "while_states",
        "cond_input_locs has 2 entries for the 1 inputs",
        _set("cond_input_locs", "[0, 1]"),
    ),
    "variables": ("while_states", "expected num_out_data", _set("func_var_locs", "[0]")),
    "variables' range": (
        "while_states",
        "expected numbers from 0 to 3",
        _set("func_var_locs", "[0, 1, 9]"),
    ),
    "iterations": ("while_states", "its maximum is 2147483647", _set("max_iterations", "1" * 12)),
    "no iterations": ("while_states", "its minimum is 1", _set("max_iterations", "0")),
    "iterations missing": (
        "while_states",
        "'max_iterations' is required",
        lambda g, n: n["attrs"].pop("max_iterations"),
    ),
    "branches": (
        "cond_else",
        "'then_branch' has 2 outputs, expected 1",
        lambda g, n: n["subgraphs"][1]["heads"].append([0, 0, 0]),
    ),
    "branch's inputs": (
        "cond_else",
        "expected numbers from 0 to 2",
        _set("else_input_locs", "[1, 3]"),
    ),
}


@pytest.mark.parametrize("what", _BAD_FILES)
def test_malformed_loops_in_files_are_refused(what: str) -> None:
    case_id, message, change = _BAD_FILES[what]
    with pytest.raises(MXNetError, match=message):
        mx.sym.load_json(_changed(case_id, change))


def _nested_files(depth: int) -> str:
    """Return the JSON of that many nested loops."""
    attrs = {
        "num_args": "2",
        "num_outputs": "1",
        "num_out_data": "1",
        "in_data_locs": "[0]",
        "in_state_locs": "[]",
        "remain_locs": "[]",
    }
    variable = {"op": "null", "name": "x", "inputs": []}
    inner: dict[str, Any] = {
        "nodes": [variable, {"op": "sin", "name": "y", "inputs": [[0, 0, 0]]}],
        "arg_nodes": [0],
        "heads": [[1, 0, 0]],
    }
    for _ in range(depth):
        loop = {"op": "_foreach", "name": "y", "attrs": attrs, "inputs": [[0, 0, 0]]}
        inner = {**inner, "nodes": [variable, {**loop, "subgraphs": [inner]}]}
    return json.dumps(inner)


def _nest(x: Any, depth: int) -> Any:
    if depth == 0:
        return mx.sym.sin(x)
    return mx.sym.contrib.foreach(lambda y, _: (_nest(y, depth - 1), []), x, [])[0]


def test_loops_nested_too_deeply_are_refused() -> None:
    symbol = mx.sym.load_json(_nested_files(10))
    shape = (1,) * 10 + (2,)
    assert symbol.infer_shape(x=shape)[1] == [shape]
    found = symbol.eval(mx.cpu(), x=mx.nd.ones(shape))[0].asnumpy()
    np.testing.assert_allclose(found, np.full(shape, np.sin(1)), rtol=1e-6)
    with pytest.raises(FormatError, match="nested more than 10 deep"):
        mx.sym.load_json(_nested_files(11))
    deep = mx.sym.var("x")
    with pytest.raises(GraphError, match="nested 11 deep; expected at most 10"):
        _nest(deep, 11)
    assert _nest(deep, 10).infer_shape(x=shape)[1] == [shape]
    with pytest.raises(FormatError, match="nested too deeply"):
        mx.sym.load_json('{"nodes": [{"subgraphs": [' * 100_000)


# -- arbitrary changes ------------------------------------------------------------------

_VALUES: tuple[Any, ...] = (0, 1, 3, -1, 10**9, "0", "[0]", "[1, 0]", "[]", "x", None, [], {}, True)


def _places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path to every value inside a value."""
    inside = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in inside:
        yield (*place, key)
        if isinstance(item, (dict, list)):
            yield from _places(item, (*place, key))


def _at(value: Any, place: tuple[Any, ...]) -> Any:
    for key in place:
        value = value[key]
    return value


def _spoil(draw: random.Random, graph: Any) -> None:
    """Remove something from a graph, or replace it with another part or value."""
    places = list(_places(graph))
    *outer, key = draw.choice(places)
    parent = _at(graph, tuple(outer))
    chosen = draw.random()
    if chosen < 0.2:
        del parent[key]
    elif chosen < 0.5:
        parent[key] = copy.deepcopy(_at(graph, draw.choice(places)))
    else:
        parent[key] = draw.choice(_VALUES)


@every_case
def test_a_damaged_file_gives_a_symbol_or_an_error(case_id: str) -> None:
    draw = random.Random(case_id)
    _, given = build(mx, case_id)
    for _ in range(40):
        graph = json.loads(_mxnets_json(case_id))
        _spoil(draw, graph)
        try:
            symbol = mx.sym.load_json(json.dumps(graph))
            known = set(symbol.list_arguments())
            symbol.infer_shape_partial(**{key: given[key] for key in given if key in known})
            assert mx.sym.load_json(symbol.tojson()).list_outputs() == symbol.list_outputs()
        except MXNetError:
            continue
