"""Attributes of a group of executors under MXNet's names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from ..device import Context
from ..io import DataDesc
from ..ndarray import NDArray
from ..symbol import Symbol
from .device_arrays import DeviceArrays, assign_arrays

__all__ = ["GroupNames"]

Slices = list[list[tuple[slice, NDArray]]]
"""For each input, its rows of the batch and its array on every device."""


class _Spec(Protocol):
    """The settings of a group (``core.module.group_spec``)."""

    @property
    def symbol(self) -> Symbol: ...

    @property
    def contexts(self) -> Sequence[Context]: ...

    @property
    def work_load(self) -> Sequence[float]: ...

    @property
    def param_names(self) -> Sequence[str]: ...

    @property
    def arguments(self) -> list[str]: ...

    @property
    def auxiliary(self) -> list[str]: ...

    @property
    def state_names(self) -> Sequence[str]: ...

    @property
    def fixed_param_names(self) -> Sequence[str]: ...

    @property
    def for_training(self) -> bool: ...

    @property
    def inputs_need_grad(self) -> bool: ...

    def gradient_requests(self, data_names: Sequence[str]) -> Mapping[str, str]: ...


class GroupNames:
    """Views of a group's parts (``mxnet.module.executor_group.DataParallelExecutorGroup``)."""

    spec: _Spec
    data_shapes: list[DataDesc]
    label_shapes: list[DataDesc] | None
    slices: list[slice]
    execs: list[Any]
    get_input_grads: Callable[..., Any]

    @property
    def symbol(self) -> Symbol:
        """The computed symbol."""
        return self.spec.symbol

    @property
    def contexts(self) -> Sequence[Context]:
        """The devices."""
        return self.spec.contexts

    @property
    def workload(self) -> Sequence[float]:
        """Relative shares of the devices."""
        return self.spec.work_load

    @property
    def param_names(self) -> Sequence[str]:
        """Names of the parameters, in the order of ``param_arrays`` and ``grad_arrays``."""
        return self.spec.param_names

    @property
    def arg_names(self) -> list[str]:
        """Names of all arguments."""
        return self.spec.arguments

    @property
    def aux_names(self) -> list[str]:
        """Names of the auxiliary states, in the order of ``aux_arrays``."""
        return self.spec.auxiliary

    @property
    def state_names(self) -> Sequence[str]:
        """Names of the states, in the order of ``state_arrays``."""
        return self.spec.state_names

    @property
    def fixed_param_names(self) -> Sequence[str]:
        """Names of the parameters without gradients."""
        return self.spec.fixed_param_names

    @property
    def data_names(self) -> list[str]:
        """Names of the data inputs."""
        return [desc.name for desc in self.data_shapes]

    @property
    def label_names(self) -> list[str]:
        """Names of the labels."""
        return [desc.name for desc in self.label_shapes or ()]

    @property
    def output_names(self) -> list[str]:
        """Names of the outputs."""
        return self.spec.symbol.list_outputs()

    @property
    def num_outputs(self) -> int:
        """Number of outputs."""
        return len(self.output_names)

    @property
    def for_training(self) -> bool:
        """Whether gradients are allocated."""
        return self.spec.for_training

    @property
    def inputs_need_grad(self) -> bool:
        """Whether the data inputs have gradients."""
        return self.spec.inputs_need_grad

    @property
    def grad_req(self) -> Mapping[str, str]:
        """How each argument's gradient is stored: ``"write"``, ``"add"`` or ``"null"``."""
        return self.spec.gradient_requests(self.data_names)

    @property
    def data_arrays(self) -> Slices:
        """Rows of the batch and array of each data input, on every device."""
        return self._sliced(self.data_shapes)

    @data_arrays.setter
    def data_arrays(self, values: Any) -> None:
        assign_arrays(self.data_arrays, values)

    @property
    def label_arrays(self) -> Slices | None:
        """Rows of the batch and array of each label, on every device."""
        return self._sliced(self.label_shapes) if self.label_shapes else None

    @label_arrays.setter
    def label_arrays(self, values: Any) -> None:
        assign_arrays(self.label_arrays, values)

    @property
    def input_grad_arrays(self) -> list[list[NDArray]] | None:
        """Gradient of each data input, on every device."""
        grads: list[list[NDArray]] = self.get_input_grads(merge=False)
        return DeviceArrays(map(DeviceArrays, grads)) if self.spec.inputs_need_grad else None

    @input_grad_arrays.setter
    def input_grad_arrays(self, values: Any) -> None:
        assign_arrays(self.input_grad_arrays, values)

    @property
    def _total_exec_bytes(self) -> int:
        """Bytes of all arrays and plans of the executors; buckets share most of theirs."""
        reports = [exe.memory_report() for exe in self.execs]
        return sum(
            one.arguments + one.gradients + one.auxiliaries + one.outputs + one.arena
            for one in reports
        )

    def _sliced(self, descs: Sequence[DataDesc]) -> Slices:
        return DeviceArrays(
            DeviceArrays(
                (rows, exe.arg_dict[desc.name])
                for rows, exe in zip(self.slices, self.execs, strict=True)
            )
            for desc in descs
        )
