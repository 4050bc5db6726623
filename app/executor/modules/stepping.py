"""The step level: forward, backward and update as separate calls, for clients with their own
loop."""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any

import numpy as np

from app.domain.module import InputDesc
from app.errors.tree import Conflict, HostError, Invalid, PreconditionFailed
from app.executor.faults import client_fault
from app.executor.modules.class_ranges import ClassRange, class_ranges
from app.executor.modules.engine_optimizer import optimizer_of, update_parameters
from app.executor.modules.hosted_module import HostedModule, parse_key
from app.executor.modules.statistics import Row, parameter_statistics, watched
from app.executor.predict.inference import pick_bucket
from app.executor.predict.inputs import check_castable, check_names, common_rows
from app.link.calls import Backward, Forward, PassCall, SetStates, StepCall, Update
from app.link.protocols import Arrays
from core.errors import StageError
from core.io import DataBatch, DataDesc
from core.kernels.kernel import Version
from core.ndarray import NDArray, array
from core.types import to_dtype

__all__ = ["Stepper"]

_MOST_TIMES = 16
"""A pass may be this many times as large as the batch that its module is bound with,"""
_MANY_ELEMENTS = 1 << 20
"""or have this many elements, whichever is more."""

Answer = tuple[dict[str, Any], Arrays]
Recall = Callable[["Stepper"], Answer]
"""Repeats a stepper's last answer. The stepper is an argument because a bound method would be a
cycle, which keeps the memory of deleted modules alive."""


class Stepper:
    """The step calls of one module.

    Calls with a sequence number are executed exactly once, in order: the number must be one more
    than the last. A repetition of the last call gets the same answer again, for clients that did
    not receive the first one.
    """

    def __init__(self, module: HostedModule) -> None:
        self._module = module
        self._last_sequence = 0
        self._last_answer: Recall | None = None
        self._forwarded: Any = None
        self._observed: list[Row] = []
        self._ranges: tuple[Any, list[ClassRange]] | None = None

    @property
    def sequence(self) -> int:
        """Number of the last step call; 0 before the first."""
        return self._last_sequence

    def forward(self, call: Forward, tensors: Arrays) -> Answer:
        """Compute outputs, and with ``backward`` the gradients."""
        return self._once(call, "forward", lambda: self._forward(call, tensors))

    def backward(self, call: Backward, tensors: Arrays) -> Answer:
        """Compute gradients."""
        return self._once(call, "backward", lambda: self._backward(call, tensors))

    def update(self, call: Update) -> Answer:
        """Update the parameters."""
        return self._once(call, "update", self._update)

    def outputs(self) -> Arrays:
        """Return the outputs of the last forward pass."""
        module = self._module
        module.require("get_outputs")
        if self._forwarded is not module.record.bind:
            raise Conflict(f"module {module.name!r} has no outputs yet; call forward first")
        names = module.engine.output_names
        return _named(names, module.engine.get_outputs())

    def input_grads(self) -> Arrays:
        """Return the gradients of the data inputs."""
        module = self._module
        module.require("get_input_grads")
        assert module.record.bind is not None
        if not module.record.bind.inputs_need_grad:
            raise StageError(
                f"module {module.name!r} is bound without inputs_need_grad; bind it again with "
                "inputs_need_grad true, then call forward_backward"
            )
        if not module.engine.has_gradients:
            raise StageError(
                f"module {module.name!r} has no gradients of its last pass; call forward_backward "
                "first"
            )
        names = [desc.name for desc in module.engine.data_shapes]
        return _named(names, module.engine.get_input_grads())

    def statistics(self, pattern: str) -> list[Row]:
        """Return statistics of the last monitored pass's outputs, parameters and gradients."""
        module = self._module
        module.require("monitor")
        observed = [row for row in self._observed if fnmatch.fnmatchcase(row["name"], pattern)]
        return [*observed, *parameter_statistics(module, pattern)]

    def states(self) -> Arrays:
        """Return the states by name, concatenated over devices along their first axis."""
        module = self._module
        module.require("states")
        return {
            name: np.concatenate([own.asnumpy() for own in copies])
            if len(copies) > 1
            else copies[0].asnumpy()
            for name, copies in self._states_by_name().items()
        }

    def set_states(self, call: SetStates, tensors: Arrays) -> None:
        """Set the states from tensors in the form that ``states`` returns, or all to one value."""
        module = self._module
        module.require("states")
        module.require_idle("setting states")
        names = module.record.state_names
        if (call.value is None) == (not tensors):
            got = "neither" if call.value is None else "both"
            raise Invalid("inputs", got, "either inputs, tensors by name, or one value for all")
        if call.value is not None:
            module.has_unsaved = True
            module.engine.set_states(value=call.value)
            return
        check_names(tensors, names, may_miss=False)
        parts = [
            _parts(name, tensors[name], copies) for name, copies in self._states_by_name().items()
        ]
        module.has_unsaved = True
        with client_fault("states"):
            module.engine.set_states(states=parts)

    def _states_by_name(self) -> dict[str, list[NDArray]]:
        """Return each state's arrays on all devices."""
        copies = self._module.engine.get_states(merge_multi_context=False)
        return dict(zip(self._module.record.state_names, copies, strict=True))

    def forget(self) -> None:
        """Forget the last pass, because a job now works on the module."""
        self._forwarded = None
        self._last_answer = None
        self._observed = []

    # -- inside -----------------------------------------------------------------------------

    def _once(self, call: StepCall, name: str, act: Callable[[], Recall]) -> Answer:
        module = self._module
        present = module.record.generation
        if call.generation is not None and call.generation != present:
            raise PreconditionFailed(
                f"the generation of module {module.name!r}",
                got=call.generation,
                present=present,
                hint="what was only in memory is lost; go on from its newest checkpoint",
            )
        if call.sequence is not None:
            if call.sequence == self._last_sequence and self._last_answer is not None:
                return self._number(self._last_answer(self))
            if call.sequence != self._last_sequence + 1:
                raise Conflict(
                    f"{name} of module {module.name!r} has sequence {call.sequence}, expected "
                    f"{self._last_sequence + 1}; a call is missing or was made by somebody else"
                )
        module.require_idle(name)
        self._last_answer = act()  # may raise: a refused call does not use up its number
        self._last_sequence += 1
        return self._number(self._last_answer(self))

    def _number(self, answer: Answer) -> Answer:
        result, tensors = answer
        position = {
            "generation": self._module.record.generation,
            "sequence": self._last_sequence,
        }
        return result | position, tensors

    def _forward(self, call: Forward, tensors: Arrays) -> Recall:
        module = self._module
        module.require("forward_backward" if call.backward else "forward")
        training = call.backward or call.is_train
        assert module.record.bind is not None
        if training is None:
            training = module.record.bind.for_training
        moves_states = training and self._moves_states(call)
        batch = make_batch(module, tensors, call.bucket, needs_labels=training)
        if call.backward:
            self._check_labels(tensors)
        self._observed = []
        noting = self._moving_states() if moves_states else nullcontext()
        with noting, client_fault("data"), ExitStack() as stack:
            if call.monitor is not None:
                self._observed = stack.enter_context(watched(module.engine, call.monitor))
            module.engine.forward(batch, is_train=training)
            self._forwarded = module.record.bind
            if call.backward:
                module.engine.backward()
        if not call.with_outputs:
            return lambda _: ({}, {})
        return lambda stepper: ({}, stepper.outputs())

    def _check_labels(self, tensors: Arrays) -> None:
        """Raise Invalid for a label of a batch to train with that is not the number of a class."""
        module = self._module
        bind = module.record.bind
        if self._ranges is None or self._ranges[0] is not bind:
            shapes = module.buckets()[module.record.default_bucket_key]
            self._ranges = bind, class_ranges(module.default_symbol, shapes)
        for one in self._ranges[1]:
            if one.label in tensors:
                values = tensors[one.label]
                one.check(values, one.label, "the batch", range(len(values)))

    def _moves_states(self, call: PassCall) -> bool:
        """Return whether a training pass updates auxiliary states; refuse one if that was not
        announced."""
        if not self._module.param_names()[1]:
            return False
        if not call.is_marked:
            raise HostError("would_change", "this pass moves auxiliary states")
        return True

    @contextmanager
    def _moving_states(self) -> Iterator[None]:
        """Record that a pass updates auxiliary states, unless it is refused, which changes none."""
        module, clock = self._module, Version.clock
        had_unsaved, module.has_unsaved = module.has_unsaved, True
        try:
            yield
        except Exception as error:
            if Version.clock == clock:
                module.has_unsaved = had_unsaved
            elif isinstance(error, HostError):  # would say that nothing was changed
                raise HostError("internal", f"the pass failed half done: {error}") from error
            raise

    def _backward(self, call: Backward, tensors: Arrays) -> Recall:
        module = self._module
        module.require("backward")
        assert module.record.bind is not None
        is_due = self._forwarded is module.record.bind and module.engine.awaits_backward
        if module.record.bind.for_training and not is_due:
            # Python scripts may call backward twice, as in MXNet; over HTTP it is likely a mistake.
            raise StageError(
                "backward needs a training pass before it; call forward with is_train true first"
            )
        names = module.engine.output_names
        grads = None
        if tensors:
            check_names(tensors, names, may_miss=False)
            grads = [_as_array(tensors[name]) for name in names]
        noting = self._moving_states() if self._moves_states(call) else nullcontext()
        with noting, client_fault("out_grads"):
            module.engine.backward(grads)
        return lambda _: ({}, {})

    def _update(self) -> Recall:
        module = self._module
        module.require("update")
        if not module.engine.has_gradients:
            # The engine itself would let the first update use the initial zeros of the gradients.
            raise StageError("update needs gradients; call forward and backward first")
        module.has_unsaved = True
        update_parameters(module.engine)
        optimizer = optimizer_of(module.engine)
        assert optimizer is not None
        count = optimizer.num_update
        return lambda _: ({"num_update": count}, {})


def make_batch(
    module: HostedModule, tensors: Arrays, bucket: str | None, needs_labels: bool
) -> DataBatch:
    """Return tensors by name as a batch.

    Raises:
        Invalid: a tensor is missing, unknown, or of a dtype or rank that does not fit.
        Conflict: the pass needs labels and the module is bound without them.
    """
    buckets = module.buckets()
    key = pick_bucket(buckets, tensors, bucket, ragged={})
    shapes = buckets[key]
    check_names(
        tensors,
        [one.name for one in (*shapes.data_shapes, *shapes.label_shapes)],
        may_miss=True,
    )
    if needs_labels and module.label_names and not shapes.label_shapes:
        raise Conflict(
            f"training module {module.name!r} needs labels, it is bound without; bind it again "
            f"with label_shapes of {', '.join(module.label_names)}"
        )
    labels = shapes.label_shapes
    if not needs_labels and not any(one.name in tensors for one in labels):
        labels = ()
    data = [_describe(one, tensors) for one in shapes.data_shapes]
    label = [_describe(one, tensors) for one in labels]
    batch_axes = [(one.name, DataDesc.get_batch_axis(one.layout)) for one in (*data, *label)]
    common_rows({name: tensors[name] for name, axis in batch_axes}, batch_axes)
    return DataBatch(
        [_as_array(tensors[desc.name]) for desc in data],
        [_as_array(tensors[desc.name]) for desc in label] or None,
        bucket_key=parse_key(key, "bucket"),
        provide_data=data,
        provide_label=label or None,
    )


def _describe(bound: InputDesc, tensors: Arrays) -> DataDesc:
    tensor = tensors.get(bound.name)
    if tensor is None:
        raise Invalid(bound.name, "no tensor", "a tensor of this name")
    if tensor.ndim != len(bound.shape):
        raise Invalid(bound.name, f"shape {tensor.shape}", f"{len(bound.shape)} dimensions")
    if 0 in tensor.shape:
        raise Invalid(bound.name, f"shape {tensor.shape}", "at least one example")
    most = max(_MOST_TIMES * math.prod(bound.shape), _MANY_ELEMENTS)
    if tensor.size > most:
        raise Invalid(
            bound.name,
            f"shape {tensor.shape}",
            f"at most {most:,} elements, because a pass is one piece that all others wait for",
            "send smaller batches, or bind the module with one as large; predict takes any number",
        )
    dtype = to_dtype(bound.dtype)
    check_castable(bound.name, tensor.dtype, dtype)
    return DataDesc(bound.name, tensor.shape, dtype, bound.layout)


def _as_array(tensor: Any) -> NDArray:
    return array(tensor, dtype=tensor.dtype)


def _parts(name: str, tensor: np.ndarray, copies: Sequence[NDArray]) -> list[NDArray]:
    """Return the part of a state for each device; raise Invalid for a wrong shape or dtype."""
    shape = copies[0].shape
    if len(copies) > 1:
        shape = (sum(own.shape[0] for own in copies), *shape[1:])
    if tensor.shape != shape:
        raise Invalid(name, f"shape {tensor.shape}", f"shape {shape}")
    check_castable(name, tensor.dtype, np.dtype(copies[0].dtype))
    if len(copies) == 1:
        return [_as_array(tensor)]
    ends = np.cumsum([own.shape[0] for own in copies])[:-1]
    return [_as_array(part) for part in np.split(tensor, ends)]


def _named(names: Sequence[str], arrays: Sequence[NDArray]) -> Arrays:
    return {name: value.asnumpy() for name, value in zip(names, arrays, strict=True)}
