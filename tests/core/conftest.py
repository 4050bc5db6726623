"""Small graphs built node by node, and helpers that bind and run them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from core.compiler.compile import Compiled, CompileOptions, compile_graph
from core.compiler.trace import Graph, SpecOf, specs_of
from core.device import cpu
from core.executor import simple_bind
from core.executor.arena import Arena
from core.executor.bound import Bound
from core.executor.executor import Executor
from core.graph.infer import infer_graph
from core.graph.nodes import Entry, Node
from core.ndarray import NDArray
from core.ops import Operator, make_operator
from core.types import to_dtype


class Heads:
    """The part of a symbol that binding needs."""

    def __init__(self, *heads: Entry) -> None:
        self.heads = heads


class Net:
    """Builds, compiles, binds and fills graphs."""

    def var(self, name: str) -> Entry:
        return Entry(Node(None, name), 0)

    def op(self, op: str | Operator, name: str, *inputs: Entry, **attributes: Any) -> Entry:
        parsed = make_operator(op, name, attributes) if isinstance(op, str) else op
        return Entry(Node(parsed, name, {}, list(inputs)), 0)

    def symbol(self, *heads: Entry) -> Heads:
        return Heads(*heads)

    def graph(self, heads: Entry | Sequence[Entry]) -> Graph:
        return Graph.of((heads,) if isinstance(heads, Entry) else tuple(heads))

    def specs(self, graph: Graph, shapes: Mapping[str, Any], dtype: str = "float32") -> SpecOf:
        dtypes = {node.name: to_dtype(dtype) for node in (*graph.arguments, *graph.auxiliaries)}
        return specs_of(infer_graph(graph.heads, shapes, dtypes))

    def compile(
        self,
        heads: Entry | Sequence[Entry],
        requests: Mapping[int, str] | None = None,
        *,
        is_train: bool = True,
        options: CompileOptions | None = None,
        **shapes: Any,
    ) -> Compiled:
        graph = self.graph(heads)
        return compile_graph(
            graph,
            self.specs(graph, shapes),
            requests or {},
            is_train=is_train,
            backend="numpy",
            options=options,
        )

    def bind(
        self,
        heads: Entry | Sequence[Entry],
        grad_req: Any = "write",
        shared_exec: Executor | None = None,
        **shapes: Any,
    ) -> Executor:
        heads = (heads,) if isinstance(heads, Entry) else tuple(heads)
        symbol = Heads(*heads)
        return simple_bind(symbol, cpu(), grad_req, shared_exec=shared_exec, shapes=shapes)

    def bind_with(
        self,
        heads: Entry | Sequence[Entry],
        options: CompileOptions,
        grad_req: str = "write",
        dtype: str = "float32",
        **shapes: Any,
    ) -> Executor:
        """Bind with compiler options, which the public calls do not have."""
        graph = self.graph(heads)
        spec_of = self.specs(graph, shapes, dtype)

        def zeros(nodes: Sequence[Node]) -> list[NDArray]:
            specs = [spec_of(Entry(node, 0)) for node in nodes]
            return [NDArray(np.zeros(shape, kind), cpu()) for shape, kind in specs]

        bound = Bound(
            arguments=zeros(graph.arguments),
            gradients=list(zeros(graph.arguments)),
            requests=[grad_req] * len(graph.arguments),
            auxiliaries=zeros(graph.auxiliaries),
        )
        symbol = Heads(*graph.heads)
        return Executor(symbol, graph, spec_of, cpu(), bound, Arena(cpu()), options=options)

    def fill(self, executor: Executor, seed: int = 0) -> None:
        """Give every argument random values."""
        random = np.random.default_rng(seed)
        for array in executor.arg_arrays:
            array.dense_for_write()[...] = random.normal(size=array.shape)

    def array(self, values: Any, dtype: str = "float32") -> NDArray:
        return NDArray(np.array(values, dtype), cpu())


@pytest.fixture(scope="session")
def net() -> Net:
    return Net()
