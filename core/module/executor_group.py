"""Data-parallel executors with the class name and signatures of MXNet."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from ..device import Context
from ..errors import UsageError
from ..io.inputs import describe
from ..ndarray import NDArray
from ..symbol import Symbol
from ..types import Shape
from .batch_input import BatchInput
from .checks import group_contexts
from .group import ExecutorGroup
from .group import join_parts as _merge_multi_context
from .group_spec import GroupSpec

__all__ = ["DataParallelExecutorGroup", "_load_general", "_merge_multi_context"]


class DataParallelExecutorGroup:
    """One executor a device, each with its share of the batch.

    An ``ExecutorGroup`` is bound to one set of shapes; this class replaces its group when it is
    reshaped. Attributes that are not defined here are looked up on the current group.

    Args:
        symbol: what is computed.
        contexts: the devices.
        workload: relative shares of the devices.
        data_shapes, label_shapes: descriptions or (name, shape) pairs, for whole batches.
        param_names: the arguments that are parameters.
        for_training: allocate gradients.
        inputs_need_grad: compute gradients of the data inputs too.
        shared_group: a group whose parameters and memory are reused.
        logger: kept for scripts that log through it.
        fixed_param_names: parameters without gradients.
        grad_req: ``"write"``, ``"add"`` or ``"null"``, for all, in order or by name.
        state_names: arguments that are neither data nor parameters.
        group2ctxs: device of each ``ctx_group``.

    Attributes:
        bound: the executors of the current shapes.
    """

    def __init__(
        self,
        symbol: Symbol,
        contexts: Sequence[Context],
        workload: Sequence[float] | None,
        data_shapes: Sequence[Any],
        label_shapes: Sequence[Any] | None,
        param_names: Sequence[str],
        for_training: bool,
        inputs_need_grad: bool,
        shared_group: DataParallelExecutorGroup | ExecutorGroup | None = None,
        logger: Any = logging,
        fixed_param_names: Sequence[str] | None = None,
        grad_req: Any = "write",
        state_names: Sequence[str] | None = None,
        group2ctxs: Any = None,
    ) -> None:
        spec = GroupSpec(
            symbol,
            contexts,
            workload or [1] * len(contexts),
            param_names,
            state_names or (),
            fixed_param_names or (),
            for_training,
            inputs_need_grad,
            grad_req,
            group_contexts(group2ctxs, len(contexts)),
        )
        if isinstance(shared_group, DataParallelExecutorGroup):
            shared_group = shared_group.bound
        self.logger = logger
        self.bound: ExecutorGroup = ExecutorGroup(
            spec, describe(data_shapes), describe(label_shapes), shared_group
        )

    def __getattr__(self, name: str) -> Any:
        # `bound` is missing while an instance is being copied or unpickled; looking it up on
        # itself would recurse without end.
        if name == "bound":
            raise AttributeError(name)
        return getattr(self.bound, name)

    def __setattr__(self, name: str, value: Any) -> None:
        # The arrays are the current group's, as for reading.
        bound = self.__dict__.get("bound")
        if bound is not None and isinstance(getattr(type(bound), name, None), property):
            setattr(bound, name, value)
        else:
            super().__setattr__(name, value)

    def reshape(self, data_shapes: Sequence[Any], label_shapes: Sequence[Any] | None) -> None:
        """Rebind to other shapes, keeping parameters and memory."""
        data, labels = describe(data_shapes), describe(label_shapes) or None
        before = self.bound
        if (data, labels) == (before.data_shapes, before.label_shapes):
            return
        self.bound = ExecutorGroup(before.spec, data, labels, before)
        for executor, watched in zip(self.bound.execs, before.execs, strict=True):
            executor.adopt_monitor(watched)

    def forward(self, data_batch: Any, is_train: bool | None = None) -> None:
        """Copy a batch (or a list of one batch per device) to the devices and run them."""
        training = self.bound.spec.for_training if is_train is None else is_train
        self.bound.forward(data_batch, training)

    def backward(self, out_grads: Sequence[NDArray] | None = None) -> None:
        """Run the backward pass on every device with its share of the head gradients."""
        if not self.bound.spec.for_training:
            raise UsageError("re-bind with for_training=True to run backward")
        self.bound.backward(out_grads or ())

    def get_outputs(
        self, merge_multi_context: bool = True, begin: int = 0, end: int | None = None
    ) -> Any:
        """Return outputs ``[begin:end]``, merged over the devices or as one list per output."""
        return self.bound.get_outputs(merge_multi_context)[begin:end]

    def get_output_shapes(self) -> list[tuple[str, Shape]]:
        """Return (name, shape) of the outputs of a whole batch."""
        return self.bound.output_shapes()

    def get_input_grads(self, merge_multi_context: bool = True) -> Any:
        """Return the gradients of the data inputs."""
        if not self.bound.spec.inputs_need_grad:
            raise UsageError("re-bind with inputs_need_grad=True to get gradients of the inputs")
        return self.bound.get_input_grads(merge_multi_context)

    def get_states(self, merge_multi_context: bool = True) -> list[list[NDArray]]:
        """Return, for each state, its arrays on all devices."""
        if merge_multi_context:
            raise UsageError("call get_states(merge_multi_context=False): states are not merged")
        return self.bound.state_arrays

    def set_states(self, states: Any = None, value: Any = None) -> None:
        """Set the states from arrays per device, or all to one value."""
        self.bound.set_states(states, value)


def _load_general(data: Sequence[Any], targets: Sequence[Any], major_axis: Sequence[int]) -> None:
    """Copy arrays into others, or into the rows of a batch that each device has.

    Args:
        data: arrays, or lists of arrays, one for each device.
        targets: for each an array, a list of arrays, or a list of pairs of rows and an array.
        major_axis: for each the axis of the rows; -1 to copy the whole array to every device.
    """
    for position, (source, target, axis) in enumerate(zip(data, targets, major_axis, strict=False)):
        if isinstance(target, NDArray):
            source.copyto(target)
        elif isinstance(source, (list, tuple)):
            for share, one in zip(source, target, strict=False):
                share.copyto(one[-1] if isinstance(one, tuple) else one)
        else:
            stop = max((rows.stop for rows, _ in target), default=0)
            BatchInput(f"{position}", axis, stop, target).load(source)
