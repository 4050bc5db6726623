"""``Executor``: a symbol bound to arrays, with MXNet's public face."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from ..compiler.compile import CompileOptions, compile_graph
from ..compiler.fixed_scales import fixed_scales
from ..compiler.rematerialization import Rematerialization
from ..compiler.trace import Graph, SpecOf
from ..config import config
from ..device import Context
from ..errors import MXNetError, ShapeError, did_you_mean
from ..garbage import collector_paused
from ..graph.nodes import Entry
from ..ndarray import NDArray
from ..random import device_random
from ..types import Array
from .arena import Arena
from .body import CompiledBodies
from .bound import Bound, bindings_of
from .describe import describe_plan
from .modes import Mode, draws_numbers, has_modal_backward
from .observe import MonitorCallback, OperatorHook, hook_of, observer_of
from .outputs import Outputs, output_contexts
from .plan import Plan, PlanMemory
from .reshape import reshape_bound
from .timing import StepTime, timed_steps

__all__ = ["Executor", "MemoryReport"]

HEAD_GRADIENT_MISSING = (
    "output {name!r} is not a loss function, so backward needs its head gradient: pass out_grads, "
    "one for each output; or, if the output is an objective to be minimized, wrap it in make_loss"
)


@dataclasses.dataclass(frozen=True)
class MemoryReport:
    """Bytes that an executor holds.

    Attributes:
        arguments, gradients, auxiliaries: of the bound arrays.
        outputs: of the outputs, shared among all executors of one arena.
        plans: what each plan compiled so far needs, by name (``"inference"``, ``"training"``).
        arena: bytes of the arena at present, the largest of all plans that share it.
        kept: reordered and folded copies of weights, shared by all plans of the arena.
    """

    arguments: int
    gradients: int
    auxiliaries: int
    outputs: int
    plans: Mapping[str, PlanMemory]
    arena: int
    kept: int

    @property
    def total(self) -> int:
        """Bytes of arrays, outputs, arena and kept copies together."""
        bound = self.arguments + self.gradients + self.auxiliaries
        return bound + self.outputs + self.arena + self.kept


class Executor:
    """Runs a symbol forwards and backwards. Made by ``Symbol.bind`` and ``Symbol.simple_bind``.

    Inference and training have separate plans, compiled when first needed (the training plan
    immediately if a gradient is requested, so that its errors show up when binding).
    The executor owns its outputs: the next forward pass, of this executor or of one that shares
    its memory, overwrites them.

    Attributes:
        arg_arrays, grad_arrays, aux_arrays: the bound arrays, in the symbol's order.
        graph: the symbol's graph.
        bound: the arrays and gradient requests.
        arena: the memory of its plans.
    """

    def __init__(
        self,
        symbol: Any,
        graph: Graph,
        spec_of: SpecOf,
        context: Context,
        bound: Bound,
        arena: Arena,
        *,
        group2ctx: Mapping[str, Context] | None = None,
        options: CompileOptions | None = None,
    ) -> None:
        self._symbol = symbol
        self.graph = graph
        self._spec_of = spec_of
        self._ctx = context
        self.bound = bound
        self._group2ctx = group2ctx
        self._options = options or CompileOptions(
            check_kernels=config.check_kernels,
            rematerialization=Rematerialization(config.mirror, config.mirror_step),
            in_bfloat16=config.in_bfloat16,
        )
        self.arena = arena
        self.arg_arrays = bound.arguments
        self.grad_arrays = bound.gradients
        self.aux_arrays = bound.auxiliaries
        self._fixed_scales = [bound.arguments[index] for index in fixed_scales(graph)]
        self._requests = {
            index: request for index, request in enumerate(bound.requests) if request != "null"
        }
        self._argument_names = [node.name for node in graph.arguments]
        self._auxiliary_names = [node.name for node in graph.auxiliaries]
        self._output_names = [node.output_name(index) for node, index in graph.heads]
        self._argument_set = frozenset(self._argument_names)
        self._monitor: OperatorHook | None = None
        self._monitor_all = False
        self._plans: dict[Mode, Plan] = {}
        # The plans that ``forward`` runs, by its argument: to create and hash a Mode for each pass
        # would take microseconds.
        self._fast: dict[bool, Plan] = {}
        self._last: Plan | None = None
        self._has_modal_backward = has_modal_backward(graph)
        self._draws = draws_numbers(graph)
        self._random_state: dict[str, Any] | None = None
        entries = [Entry(node, 0) for node in (*graph.arguments, *graph.auxiliaries)]
        variables = dict(zip(entries, [*bound.arguments, *bound.auxiliaries], strict=True))
        contexts = output_contexts(graph, context, group2ctx or {})
        self._outputs = Outputs(graph, spec_of, arena, contexts, variables)
        self._plan(Mode(bool(self._requests), bool(self._requests)))

    # -- running ----------------------------------------------------------------------------

    def forward(self, is_train: bool = False, **kwargs: Any) -> list[NDArray]:
        """Compute the outputs.

        Args:
            is_train: whether this is a training pass, which ``backward`` may follow.
            **kwargs: new values of arguments (NDArray or numpy.ndarray), copied in first.

        Returns:
            the outputs; the same memory at every call.

        Raises:
            TypeError: an argument the symbol does not have.
            ValueError: a value of another type or shape.
        """
        for name, value in kwargs.items():
            self._set_argument(name, value)
        is_train = bool(is_train)
        if is_train:
            for scale in self._fixed_scales:
                scale.dense_for_write().fill(1)
        plan = self._fast.get(is_train)
        if plan is None:
            mode = Mode(is_train, is_train and bool(self._requests), self._monitor is not None)
            plan = self._fast[is_train] = self._plan(mode)
        self._last = plan
        if self._draws:
            self._random_state = device_random(self._ctx).get_state()
        plan.forward()
        return self.outputs

    def backward(
        self,
        out_grads: NDArray | Sequence[NDArray | None] | Mapping[str, NDArray] | None = None,
        is_train: bool = True,
    ) -> None:
        """Compute the gradients of the arguments whose ``grad_req`` is not ``"null"``.

        Where no forward pass has run yet, ``forward(is_train=True)`` runs first.

        Args:
            out_grads: gradient of each output, by position or by output name; not needed for
                outputs of loss layers. Surplus ones are ignored.
            is_train: mode of the operators' backward, which matters for operators whose gradient
                differs between training and inference (BatchNorm). The forward pass is recomputed
                if its mode was the other one, after ``forward(is_train=False)``, and for a second
                backward pass.

        Raises:
            StageError: another executor that shares the memory has run since the forward pass.
            MXNetError: a head gradient is missing; ShapeError: one has another shape.
        """
        gradients = self._head_gradients(out_grads)
        if not self._requests:
            return
        if self._last is None and is_train:
            self.forward(is_train=True)
        plan, is_train = self._last, bool(is_train)
        was_train = is_train if plan is None else plan.compiled.program.is_train
        # Where no operator minds, one plan serves both modes of the backward pass.
        other = is_train if self._has_modal_backward and is_train is not was_train else None
        wanted = self._plan(Mode(was_train, True, self._monitor is not None, other))
        self._check_head_gradients(wanted, gradients)
        if wanted is not plan or wanted.is_spent:
            self._last = wanted
            self.repeat_forward()
        wanted.backward(gradients)

    def repeat_forward(self) -> None:
        """Run the last forward pass again, with the random numbers that it drew."""
        assert self._last is not None
        random = device_random(self._ctx)
        present = random.get_state()
        if self._random_state is not None:
            random.set_state(self._random_state)
        try:
            self._last.forward()
        finally:
            # The script goes on with the numbers that it would have drawn without the repetition.
            if self._random_state is not None:
                random.set_state(present)

    def forward_backward(self, out_grads: Any = None, **kwargs: Any) -> list[NDArray]:
        """Run ``forward(is_train=True, **kwargs)`` and ``backward(out_grads)``."""
        outputs = self.forward(is_train=True, **kwargs)
        self.backward(out_grads)
        return outputs

    # -- arrays -----------------------------------------------------------------------------

    @property
    def outputs(self) -> list[NDArray]:
        """The outputs, as the last forward pass left them."""
        return self._outputs.views()

    @cached_property
    def arg_dict(self) -> dict[str, NDArray]:
        """Arguments by name; ValueError where two have the same name."""
        return _by_name(self._argument_names, self.arg_arrays)

    @cached_property
    def grad_dict(self) -> dict[str, NDArray | None]:
        """Gradients by name of the argument, None if there is none."""
        return _by_name(self._argument_names, self.grad_arrays)

    @cached_property
    def aux_dict(self) -> dict[str, NDArray]:
        """Auxiliary states by name."""
        return _by_name(self._auxiliary_names, self.aux_arrays)

    @property
    def output_dict(self) -> dict[str, NDArray]:
        """Outputs by name."""
        return _by_name(self._output_names, self.outputs)

    def copy_params_from(
        self,
        arg_params: Mapping[str, NDArray] | None,
        aux_params: Mapping[str, NDArray] | None = None,
        allow_extra_params: bool = False,
    ) -> None:
        """Copy arguments and auxiliary states in, converting dtypes.

        Raises:
            ValueError: a name the symbol does not have (unless ``allow_extra_params``).
            ShapeError: another shape than bound.
        """
        for what, given, own in (
            ("arguments", arg_params, self.arg_dict),
            ("auxiliary states", aux_params, self.aux_dict),
        ):
            for name, array in (given or {}).items():
                if name in own:
                    _check_shape(name, tuple(array.shape), own[name])
                    _write(own[name], array)
                elif not allow_extra_params:
                    raise ValueError(
                        f"{name!r} is not among the {what} of the symbol{did_you_mean(name, own)}; "
                        "pass allow_extra_params=True to ignore such names"
                    )

    # -- rebinding and looking inside -------------------------------------------------------

    def reshape(
        self, partial_shaping: bool = False, allow_up_sizing: bool = False, **kwargs: Any
    ) -> Executor:
        """Return an executor of other input shapes that shares all memory with this one.

        The two cannot be used in parallel.

        Args:
            partial_shaping: allow arguments that are not named to change their shapes, too.
            allow_up_sizing: allow arrays that are larger than the current ones; these get new
                memory.
            **kwargs: new shapes by name of the argument.

        Raises:
            ShapeError: a change that is not allowed, or contradictory shapes.
        """
        spec_of, bound = reshape_bound(
            self.graph, self.bound, kwargs, partial_shaping, allow_up_sizing
        )
        executor = Executor(
            self._symbol,
            self.graph,
            spec_of,
            self._ctx,
            bound,
            self.arena,
            group2ctx=self._group2ctx,
            options=self._options,
        )
        executor.adopt_monitor(self)
        return executor

    def adopt_monitor(self, other: Executor) -> None:
        """Take over the monitor callback of another executor."""
        if other._monitor is not None:
            self.watch(other._monitor, other._monitor_all)

    def set_monitor_callback(
        self, callback: MonitorCallback | None, monitor_all: bool = False
    ) -> None:
        """Call a function with every intermediate array.

        As long as there is a callback, the plans run without fusion and memory sharing, so that
        every value of the graph exists.

        Args:
            callback: called with name and NDArray after each operator; None to remove it.
            monitor_all: also pass the inputs of operators, before they run.
        """
        self.watch(hook_of(callback), monitor_all)

    def watch(self, hook: OperatorHook | None, monitor_all: bool = False) -> None:
        """As ``set_monitor_callback``, for a function that also receives the operator's name."""
        self._monitor = hook
        self._monitor_all = bool(monitor_all)
        # Watched plans call the hook that they were compiled with.
        self._plans = {mode: plan for mode, plan in self._plans.items() if not mode.is_watched}
        self._fast.clear()

    def timed_forward(self) -> list[StepTime]:
        """Run an inference pass; return for each step its duration and the nodes it computed."""
        plan = self._plan(Mode(False, False))
        taken = plan.timed_forward()
        return timed_steps(self.graph, plan.compiled.program, taken)

    def debug_str(self) -> str:
        """Return the plan as text: its steps, what they read and write, and the memory."""
        has_backward = bool(self._requests)
        return describe_plan(self._plan(Mode(has_backward, has_backward)).compiled)

    def memory_report(self) -> MemoryReport:
        """Return how many bytes arrays and plans hold."""
        return MemoryReport(
            arguments=_nbytes(self.arg_arrays),
            gradients=_nbytes(self.grad_arrays),
            auxiliaries=_nbytes(self.aux_arrays),
            outputs=self._outputs.nbytes,
            plans={mode.name: plan.memory for mode, plan in self._plans.items()},
            arena=self.arena.nbytes,
            kept=self.arena.cached_nbytes,
        )

    def get_optimized_symbol(self) -> Any:
        """Return the graph that is computed, as a symbol: without duplicate nodes."""
        return type(self._symbol)(self.graph.heads, self._symbol._versions)

    # -- inside -----------------------------------------------------------------------------

    def _plan(self, mode: Mode) -> Plan:
        found = self._plans.get(mode)
        if found is None:
            with collector_paused():
                found = self._plans[mode] = self._compile(mode)
        return found

    def _compile(self, mode: Mode) -> Plan:
        options, observer = self._options, None
        # Monitors see each node by itself, and its inputs as the graph has them, which kernels may
        # read in another form. Kernels and rewritten steps know a single mode, that of the program,
        # whereas references take theirs from the Run that a pass gives them.
        if mode.is_watched or mode.backward_is_train is not None:
            sees_inputs = mode.is_watched and self._monitor_all
            table = None if sees_inputs or mode.backward_is_train is not None else options.table
            options = dataclasses.replace(options, rewrite=False, plan=False, table=table)
        if mode.is_watched:
            assert self._monitor is not None
            observer = observer_of(self._monitor, self._monitor_all, self._ctx)
        compiled = compile_graph(
            self.graph,
            self._spec_of,
            self._requests if mode.has_backward else {},
            is_train=mode.is_train,
            backend=self.arena.backend.name,
            strided=_strided(self.bound.arguments),
            constants={
                index
                for index, array in enumerate([*self.bound.arguments, *self.bound.auxiliaries])
                if array.version is not None and array.stype == "default"
            },
            storage=self.bound.storage,
            options=options,
        )
        return Plan(
            compiled,
            partial(bindings_of, self.bound, self._outputs),
            self.arena,
            self._ctx,
            check_kernels=options.check_kernels,
            observer=observer,
            bodies=CompiledBodies(
                self.arena,
                self._ctx,
                options,
                is_train=mode.is_train,
                has_backward=mode.has_backward,
                backward_is_train=mode.backward_is_train,
            ),
            backward_is_train=mode.backward_is_train,
        )

    def _set_argument(self, name: str, value: Any) -> None:
        if name not in self._argument_set:
            raise TypeError(
                f"the symbol has no argument {name!r}{did_you_mean(name, self._argument_names)}"
            )
        if not isinstance(value, (NDArray, np.ndarray)):
            raise ValueError(
                f"argument {name!r} is {type(value).__name__}; expected an NDArray or numpy.ndarray"
            )
        target = self.arg_dict[name]
        _check_shape(name, value.shape, target)
        _write(target, value)

    def _head_gradients(self, given: Any) -> list[Array | None]:
        if given is None:
            given = []
        elif isinstance(given, NDArray):
            given = [given]
        elif isinstance(given, Mapping):
            unknown = [name for name in given if name not in self._output_names]
            if unknown:
                raise ValueError(
                    f"out_grads names {unknown[0]!r}, which is not an output"
                    f"{did_you_mean(unknown[0], self._output_names)}"
                )
            given = [given.get(name) for name in self._output_names]
        given = given[: len(self._output_names)]  # as MXNet, which ignores surplus ones
        for array in given:
            if array is not None and not isinstance(array, NDArray):
                raise TypeError(f"out_grads must be NDArrays, got {type(array).__name__}")
        missing = len(self._output_names) - len(given)
        return [*(None if array is None else array.dense() for array in given), *[None] * missing]

    def _check_head_gradients(self, plan: Plan, given: Sequence[Array | None]) -> None:
        program = plan.compiled.program
        for name, needed, array in zip(
            self._output_names, program.head_gradients, given, strict=True
        ):
            if needed is None:
                continue
            if array is None:
                raise MXNetError(HEAD_GRADIENT_MISSING.format(name=name))
            if array.shape != program.values[needed].shape:
                raise ShapeError(
                    f"head gradient of output {name!r} has shape {array.shape}, expected "
                    f"{program.values[needed].shape}"
                )


def _write(target: NDArray, value: NDArray | Array) -> None:
    if isinstance(value, NDArray) and value.stype == target.stype != "default":
        value.copyto(target)
    else:
        target.assign_dense(value.dense() if isinstance(value, NDArray) else value)


def _by_name(names: Sequence[str], arrays: Sequence[Any]) -> dict[str, Any]:
    if len(set(names)) != len(names):
        raise ValueError(f"Duplicate names detected, {list(names)}; use the list of arrays")
    return dict(zip(names, arrays, strict=True))


def _check_shape(name: str, shape: tuple[int, ...], target: NDArray) -> None:
    if shape != target.shape:
        raise ShapeError(f"{name!r} is bound with shape {target.shape}, got {shape}")


def _strided(arrays: Sequence[NDArray]) -> set[int]:
    return {
        index
        for index, array in enumerate(arrays)
        if array.stype == "default" and not array.dense().flags.c_contiguous
    }


def _nbytes(arrays: Sequence[NDArray | None]) -> int:
    return sum(array.nbytes for array in arrays if array is not None)
