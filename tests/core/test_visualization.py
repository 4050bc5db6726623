"""Tables and drawings of graphs."""

from __future__ import annotations

import sys
import types

import pytest

import core as mx
from oracle import golden_file, networks
from oracle.topics.summaries import CASES, summary


@pytest.mark.parametrize("case_id", CASES)
@pytest.mark.parametrize("with_shapes", [True, False])
def test_summaries_match_mxnets(case_id: str, with_shapes: bool) -> None:
    expected = str(golden_file.topic("summaries")[f"{case_id}/{with_shapes}"])
    assert summary(mx, case_id, with_shapes) == expected


@pytest.mark.filterwarnings("ignore:Cannot decide shape")
def test_summaries_need_symbols_and_complete_shapes() -> None:
    with pytest.raises(TypeError, match="symbol must be Symbol, got int"):
        mx.viz.print_summary(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Input shape is incomplete"):
        mx.viz.print_summary(networks.lenet(mx), {"softmax_label": (2,)})


class _Digraph:
    """Records what is drawn."""

    def __init__(self, **options: str) -> None:
        self.options = options
        self.nodes: dict[str, dict[str, str]] = {}
        self.edges: dict[tuple[str, str], str] = {}

    def node(self, name: str, **look: str) -> None:
        self.nodes[name] = look

    def edge(self, tail: str, head: str, label: str, **look: str) -> None:
        self.edges[tail, head] = label


@pytest.fixture
def graphviz(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for the graphviz package."""
    module = types.ModuleType("graphviz")
    module.Digraph = _Digraph  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "graphviz", module)


@pytest.mark.usefixtures("graphviz")
def test_nodes_and_edges_are_drawn() -> None:
    x = mx.sym.Convolution(
        mx.sym.Variable("data"), kernel=(3, 3), stride=(2, 1), num_filter=4, name="conv"
    )
    x = mx.sym.Activation(x, act_type="relu", name="relu")
    x = mx.sym.Pooling(x, kernel=(2, 2), pool_type="max", name="pool")
    first, second = mx.sym.SliceChannel(x, num_outputs=2, name="slice")
    x = mx.sym.FullyConnected(mx.sym.Concat(first, second, name="joined"), num_hidden=3, name="fc")
    dot = mx.viz.plot_network(
        x, "net", "png", {"data": (2, 1, 9, 9)}, {"data": "float16"}, {"width": "2"}
    )
    assert dot.options == {"name": "net", "format": "png"}
    assert list(dot.nodes) == ["data", "conv", "relu", "pool", "slice", "joined", "fc"]
    assert dot.nodes["conv"]["label"] == "Convolution\n3x3/2x1, 4"
    assert dot.nodes["pool"]["label"] == "Pooling\nmax, 2x2/1"
    assert dot.nodes["relu"]["label"] == "Activation\nrelu"
    assert dot.nodes["fc"]["label"] == "FullyConnected\n3"
    assert dot.nodes["data"]["shape"] == "oval"
    assert dot.nodes["fc"]["width"] == "2"
    assert dot.edges["conv", "data"] == "1x9x9(float16)"
    assert dot.edges["joined", "slice"] == "2x3x6(float16)"
    assert ("conv", "conv_weight") not in dot.edges
    shown = mx.viz.plot_network(x, hide_weights=False)
    assert shown.edges["conv", "conv_weight"] == ""


@pytest.mark.usefixtures("graphviz")
def test_repeated_names_cause_a_warning() -> None:
    x = mx.sym.Variable("x")
    net = mx.sym.FullyConnected(x, name="fc", num_hidden=128)
    net = mx.sym.Activation(net, name="fc", act_type="relu")
    with pytest.warns(RuntimeWarning, match="multiple variables with the same name.*: fc"):
        mx.viz.plot_network(net)


def test_drawing_needs_graphviz(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "graphviz", None)
    with pytest.raises(ImportError, match="requires graphviz"):
        mx.viz.plot_network(mx.sym.Variable("x"))
