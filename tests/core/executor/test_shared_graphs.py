"""Graphs from public repositories compile, in both modes, to plans that the verifier accepts."""

import pytest

import core as mx
from core.compiler.compile import CompileOptions, compile_graph
from core.compiler.trace import Graph, specs_of
from core.errors import GraphError, MXNetError
from core.graph.infer import infer_graph
from core.symbol import load
from oracle import golden_file
from oracle.compare import assert_close
from oracle.topics import quantized_graphs

SHAPES = [
    (1, 3, 112, 112),
    (1, 3, 224, 224),
    (1, 3, 48, 48),
    (1, 3, 300, 300),
    (1, 1, 28, 28),
    (1, 3, 12, 12),
    (1, 784),
    (8, 10),
    (4, 20),
]


def infer(graph):
    """Return the specs for the first workable shape of ``data``, or None."""
    for shape in SHAPES:
        try:
            return specs_of(infer_graph(graph.heads, {"data": shape}, {}))
        except MXNetError:
            continue
    return None


def is_quantized(graph):
    return any(node.op is not None and "quantize" in node.op.names[0] for node in graph.nodes)


@pytest.mark.slow
def test_real_graphs_compile_to_sound_plans(shared_dir):
    compiled = []
    for file in sorted((shared_dir / "symbols").glob("*.json")):
        if file.name == "oracle.json":
            continue
        graph = Graph.of(load(str(file)).heads)
        spec_of = infer(graph)
        if spec_of is None:
            continue
        everything = {index: "write" for index in range(len(graph.arguments))}
        modes = ((False, {}), (True, everything))
        if is_quantized(graph):
            with pytest.raises(GraphError, match="has no gradient"):
                compile_graph(graph, spec_of, everything, is_train=True, backend="numpy")
            modes = modes[:1]
        for is_train, requests in modes:
            plan = compile_graph(
                graph,
                spec_of,
                requests,
                is_train=is_train,
                backend="numpy",
                options=CompileOptions(check_kernels=True),
            )
            assert plan.memory.nbytes <= 1.5 * plan.memory.peak_live, file.name
        compiled.append(file.name)
    assert len(compiled) >= 75


@pytest.mark.parametrize("name", sorted(quantized_graphs.SHAPES))
def test_quantized_graphs_give_mxnets_outputs(shared_dir, name):
    for index, output in enumerate(quantized_graphs.run_graph(mx, name)):
        expected = golden_file.topic("quantized_graphs")[f"{name}/{index}"]
        # Another machine may sum in another order, and so round a tie to the neighbouring byte.
        assert_close(f"{name} {index}", output, expected, 2e-2)
