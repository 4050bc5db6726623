"""A bound graph as one recorded function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .. import autograd
from ..compiler.storage_types import gradient_storages
from ..compiler.trace import Graph
from ..device import Context
from ..executor import Executor
from ..ndarray import NDArray
from ..ndarray.sparse import zeros
from ..symbol import Symbol

__all__ = ["ExecutorPool"]


class ExecutorPool:
    """Executors of one symbol over the same parameters, for one set of input shapes.

    A recorded pass keeps its executor as long as the recording exists, because it holds the
    intermediate values for the backward pass. Other passes get other executors meanwhile.

    Attributes:
        in_backward: True during a backward pass, in which the hook is not called.

    Args:
        symbol: the graph.
        context: the device.
        inputs: names of the inputs.
        arguments: parameters by name, whose memory is used directly.
        auxiliary: auxiliary states by name, likewise.
        hook: a function to call with the arrays of all operators, and whether to include their
            inputs.
    """

    def __init__(
        self,
        symbol: Symbol,
        context: Context,
        inputs: Sequence[str],
        arguments: Mapping[str, NDArray],
        auxiliary: Mapping[str, NDArray],
        hook: tuple[Any, bool] | None = None,
    ) -> None:
        self._hook = hook
        self._variables = frozenset(symbol.list_inputs())
        self.in_backward = False
        self.context = context
        self.inputs = list(inputs)
        self.names = symbol.list_arguments()
        self.symbol = symbol
        self._arguments = arguments
        self._auxiliary = auxiliary
        storages = gradient_storages(Graph.of(symbol.heads))
        self._storages = [storages[name] for name in self.names]
        self._idle: dict[bool, list[Executor]] = {True: [], False: []}

    def run(self, values: Sequence[NDArray]) -> list[NDArray]:
        """Compute the outputs for inputs, and record the pass if autograd is recording."""
        known = set(self.names)
        given = {
            name: value for name, value in zip(self.inputs, values, strict=True) if name in known
        }
        arguments = [given[name] if name in given else self._arguments[name] for name in self.names]
        if autograd.is_recording():
            outputs = _Recorded(self)(*arguments)
            return [outputs] if isinstance(outputs, NDArray) else list(outputs)
        executor = self.take(with_gradients=False, values=given)
        executor.forward(is_train=autograd.is_training(), **given)
        outputs = [one.copy() for one in executor.outputs]  # the next pass overwrites them
        self.give_back(executor, with_gradients=False)
        return outputs

    def take(self, with_gradients: bool, values: Mapping[str, NDArray]) -> Executor:
        """Return an idle executor, or a new one."""
        idle = self._idle[with_gradients]
        if idle:
            return idle.pop()
        arguments = {
            # Every pass writes its inputs into these arrays; the caller's must stay as they are.
            name: values[name].copy() if name in values else self._arguments[name]
            for name in self.names
        }
        gradients = {
            name: zeros(stype, one.shape, self.context, one.dtype)
            for (name, one), stype in zip(arguments.items(), self._storages, strict=True)
            if with_gradients
        }
        executor: Executor = self.symbol.bind(
            self.context,
            arguments,
            args_grad=gradients,
            grad_req="write" if with_gradients else "null",
            aux_states=dict(self._auxiliary),
        )
        if self._hook is not None:
            executor.watch(self._show, self._hook[1])
        return executor

    def _show(self, name: str, operator: str, array: NDArray) -> None:
        """Call the hook with an array of a forward pass, under the operator's name for it."""
        if self._hook is not None and not self.in_backward and name not in self._variables:
            self._hook[0](name, operator, array)

    def give_back(self, executor: Executor, with_gradients: bool) -> None:
        """Return an executor to the pool."""
        self._idle[with_gradients].append(executor)


class _Recorded(autograd.Function):
    """A recorded pass, with the executor that holds its intermediate values."""

    def __init__(self, pool: ExecutorPool) -> None:
        super().__init__()
        self._pool = pool
        self._executor: Executor | None = None
        self._is_train = autograd.is_training()
        self._has_run_backward = False

    def __del__(self) -> None:
        if self._executor is not None:
            self._pool.give_back(self._executor, with_gradients=True)

    def recorded_graph(self) -> Symbol:
        """Return the graph."""
        return self._pool.symbol

    def forward(self, *arguments: NDArray) -> Any:
        """Run the graph."""
        given = dict(zip(self._pool.names, arguments, strict=True))
        inputs = {name: given[name] for name in self._pool.inputs if name in given}
        self._executor = self._pool.take(with_gradients=True, values=inputs)
        self._executor.forward(is_train=self._is_train, **inputs)
        outputs = [one.copy() for one in self._executor.outputs]
        return outputs[0] if len(outputs) == 1 else outputs

    def backward(self, *out_grads: NDArray) -> Any:
        """Return the gradient of every argument."""
        assert self._executor is not None
        if self._has_run_backward:
            # The first backward pass has reused the memory of intermediate values.
            self._executor.repeat_forward()
        self._has_run_backward = True
        self._pool.in_backward = True
        try:
            self._executor.backward(list(out_grads), is_train=autograd.is_training())
        finally:
            self._pool.in_backward = False
        gradients = [one.copy() for one in self._executor.grad_arrays if one is not None]
        return gradients[0] if len(gradients) == 1 else gradients
