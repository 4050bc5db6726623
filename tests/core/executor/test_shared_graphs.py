"""Graphs found in public repositories compile, in both modes, to plans the verifier accepts."""

import pytest

from core.errors import MXNetError, UnknownOperator
from core.executor.compile import CompileOptions, compile_graph
from core.executor.trace import Graph, specs_of
from core.symbol import load
from core.symbol.infer import infer_graph

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
    """Return the specs for the first shape of ``data`` that suits, None where none does."""
    for shape in SHAPES:
        try:
            return specs_of(infer_graph(graph.heads, {"data": shape}, {}))
        except MXNetError:
            continue
    return None


@pytest.mark.slow
def test_real_graphs_compile_to_sound_plans(shared_dir):
    compiled = []
    for file in sorted((shared_dir / "symbols").glob("*.json")):
        if file.name == "oracle.json":
            continue
        try:
            graph = Graph.of(load(str(file))._heads)
        except UnknownOperator:
            continue
        spec_of = infer(graph)
        if spec_of is None:
            continue
        everything = {index: "write" for index in range(len(graph.arguments))}
        for is_train, requests in ((False, {}), (True, everything)):
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
