"""Executors of graphs whose shapes depend on values, such as those with ``boolean_mask``.

The memory of such a graph cannot be planned, so that its operators run one by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..compiler.fixed_scales import fixed_scales
from ..compiler.trace import Graph
from ..device import Context
from ..errors import MXNetError, ShapeError
from ..graph.nodes import Node
from ..ndarray import NDArray
from ..ndarray.cached_op import run_operator
from ..ndarray.imperative import differentiate
from ..ndarray.tape import Variable, mode
from ..random import device_random
from .bound import Bound
from .executor import HEAD_GRADIENT_MISSING, Executor, MemoryReport
from .modes import draws_numbers
from .observe import OperatorHook
from .timing import StepTime

__all__ = ["OperatorwiseExecutor", "is_shaped_by_values", "refuse_shaped_by_values"]


def is_shaped_by_values(graph: Graph) -> bool:
    """Return whether the shapes of a graph depend on values."""
    return bool(_shaped_by_values(graph))


def refuse_shaped_by_values(graph: Graph, call: str) -> None:
    """Raise ShapeError for a graph whose shapes depend on values.

    Args:
        graph: the graph.
        call: what needs the shapes.
    """
    for node in _shaped_by_values(graph):
        raise ShapeError(
            f"{call} cannot infer the shape of {node.name}: how many rows it has depends on "
            "values. Give arrays: call bind(ctx, args) or eval(**args), or use the symbol in a "
            "gluon block"
        )


def _shaped_by_values(graph: Graph) -> list[Node]:
    return [node for node in graph.nodes if node.op and node.op.shaped_by_values is not None]


class OperatorwiseExecutor(Executor):
    """Runs a graph operator by operator, with the interface of ``Executor``.

    Args:
        symbol: the symbol.
        graph: its graph.
        context: where it runs.
        bound: the arrays.
    """

    def __init__(self, symbol: Any, graph: Graph, context: Context, bound: Bound) -> None:
        self._symbol = symbol
        self.graph = graph
        self._ctx = context
        self.bound = bound
        self.arg_arrays = bound.arguments
        self.grad_arrays = bound.gradients
        self.aux_arrays = bound.auxiliaries
        self._fixed_scales = [bound.arguments[index] for index in fixed_scales(graph)]
        self._argument_names = [node.name for node in graph.arguments]
        self._auxiliary_names = [node.name for node in graph.auxiliaries]
        self._output_names = [node.output_name(index) for node, index in graph.heads]
        self._argument_set = frozenset(self._argument_names)
        self._monitor: OperatorHook | None = None
        self._monitor_all = False
        self._draws = draws_numbers(graph)
        self._random_state: dict[str, Any] | None = None
        self._computed: list[NDArray] | None = None
        self._was_training = False
        # By position of the argument; they are what the recording calls the arguments.
        self._variables = {
            index: Variable(gradient, request)
            for index, (gradient, request) in enumerate(
                zip(bound.gradients, bound.requests, strict=True)
            )
            if gradient is not None and request != "null"
        }

    def forward(self, is_train: bool = False, **kwargs: Any) -> list[NDArray]:
        """Compute the outputs; see ``Executor.forward``. They are new arrays at every call."""
        for name, value in kwargs.items():
            self._set_argument(name, value)
        self._was_training = bool(is_train)
        if is_train:
            for scale in self._fixed_scales:
                scale.dense_for_write().fill(1)
        if self._draws:
            self._random_state = device_random(self._ctx).get_state()
        self._run()
        return self.outputs

    def backward(
        self,
        out_grads: NDArray | Sequence[NDArray | None] | Mapping[str, NDArray] | None = None,
        is_train: bool = True,
    ) -> None:
        """Compute the gradients; see ``Executor.backward``."""
        given = self._head_gradients(out_grads)
        if not self._variables:
            return
        if self._computed is None:
            self.forward(is_train=True)
        assert self._computed is not None
        heads, gradients = [], []
        for position, (head, output) in enumerate(
            zip(self.graph.heads, self._computed, strict=True)
        ):
            if output._origin is None:
                continue  # it depends on nothing that has a gradient
            gradient, op = given[position], head.node.op
            if gradient is None and (op is None or op.backward_reads().out_grads):
                raise MXNetError(HEAD_GRADIENT_MISSING.format(name=self._output_names[position]))
            heads.append(output)
            gradients.append(None if gradient is None else NDArray(gradient, output.context))
        found = differentiate(heads, gradients, retain_graph=True, train_mode=bool(is_train))
        for index, variable in self._variables.items():
            if variable in found:
                variable.receive(found[variable])
            elif variable.grad_req == "write":
                array = self.grad_arrays[index]
                assert array is not None
                array[:] = 0

    def repeat_forward(self) -> None:
        """Do nothing: a recording can be run backwards repeatedly."""

    @property
    def outputs(self) -> list[NDArray]:
        """The outputs of the last forward pass; ShapeError before the first one."""
        if self._computed is None:
            refuse_shaped_by_values(self.graph, "the executor, before its first forward pass,")
        return [output.detach() for output in self._computed or ()]

    def watch(self, hook: OperatorHook | None, monitor_all: bool = False) -> None:
        """Call a function with the name, the operator and the array of every output."""
        self._monitor, self._monitor_all = hook, bool(monitor_all)

    def reshape(self, *args: Any, **kwargs: Any) -> Executor:
        """Raise: bind the symbol again, with arrays of other shapes."""
        raise MXNetError(
            "an executor whose shapes depend on values cannot be reshaped; bind the symbol again"
        )

    def timed_forward(self) -> list[StepTime]:
        """Raise: there is no plan whose steps could be timed."""
        raise MXNetError(_NO_PLAN)

    def debug_str(self) -> str:
        """Return the operators in the order in which they run."""
        steps = [f"{node.op.names[0]} {node.name}" for node in self.graph.nodes if node.op]
        return "\n".join([_NO_PLAN, *steps])

    def memory_report(self) -> MemoryReport:
        """Return the bytes of the bound arrays and of the last outputs."""
        arguments, gradients, auxiliaries, outputs = (
            sum(array.nbytes for array in arrays if array is not None)
            for arrays in (
                self.arg_arrays,
                self.grad_arrays,
                self.aux_arrays,
                self._computed or (),
            )
        )
        return MemoryReport(arguments, gradients, auxiliaries, outputs, {}, 0, 0)

    def _run(self) -> None:
        values: dict[Node, list[NDArray]] = {}
        for index, node in enumerate(self.graph.arguments):
            values[node] = [self.arg_arrays[index].detach()]
            values[node][0]._origin = self._variables.get(index)
        for node, state in zip(self.graph.auxiliaries, self.aux_arrays, strict=True):
            values[node] = [state]
        before = mode.recording, mode.training
        mode.recording, mode.training = bool(self._variables), self._was_training
        try:
            for node in self.graph.nodes:
                if node.op is not None:
                    inputs = [values[source][output] for source, output in node.inputs]
                    values[node] = run_operator(node.op, inputs, self._ctx)
                    self._show(node, inputs, values[node])
        finally:
            mode.recording, mode.training = before
        self._computed = [values[node][output] for node, output in self.graph.heads]

    def _show(self, node: Node, inputs: Sequence[NDArray], outputs: Sequence[NDArray]) -> None:
        if self._monitor is None or node.op is None:
            return
        name = node.op.names[0]
        if self._monitor_all:
            for (source, output), array in zip(node.inputs, inputs, strict=True):
                self._monitor(source.output_name(output), name, array)
        for output, array in enumerate(outputs):
            self._monitor(node.output_name(output), name, array)


_NO_PLAN = "shapes depend on values, so that the operators run one by one, without a plan"
