"""One executor per device, each with its share of the batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from ..compat.device_arrays import DeviceArrays, assign_arrays
from ..compat.group_names import GroupNames
from ..compiler.storage_types import declared_storages
from ..compiler.trace import Graph
from ..device import Context
from ..errors import ShapeError, UsageError
from ..executor import bind
from ..executor.arrays import resized, zeros
from ..graph.infer import GraphSpecs, infer_graph
from ..graph.nodes import Entry
from ..io import DataDesc
from ..ndarray import NDArray, concatenate
from ..ndarray.sparse_array import sparse_zeros
from ..types import DType, Shape, shape_size, to_dtype
from .batch_input import BatchInput, cut_rows
from .checks import storage_type
from .group_spec import GroupSpec
from .parameters import DeviceParameters

__all__ = ["ExecutorGroup", "join_parts", "split_batch"]

T = TypeVar("T")


def split_batch(batch_size: int, work_load: Sequence[float]) -> list[slice]:
    """Divide the rows of a batch among devices in proportion to their work loads.

    Raises:
        ValueError: a device would get no row.
    """
    total = sum(work_load)
    counts = [round(load * batch_size / total) for load in work_load]
    # As in MXNet the last device makes up for rounding, so that the same device gets the same rows.
    counts[-1] += batch_size - sum(counts)
    slices, start = [], 0
    for count in counts:
        if count <= 0:
            raise ValueError(
                f"batch size {batch_size} is too small for {len(work_load)} devices with work "
                f"loads {list(work_load)}; use a larger batch or fewer devices"
            )
        slices.append(slice(start, start + count))
        start += count
    return slices


class ExecutorGroup(GroupNames):
    """The executors of one module for one set of input shapes.

    Args:
        spec: what is common to all shapes.
        data_shapes, label_shapes: the shapes of whole batches.
        shared: a group of the same module (other shapes) or of another bucket, whose parameters and
            memory are reused.

    Attributes:
        execs: the executors, one per device.
        input_shapes: shapes of whole batches of data.
        shared_data_arrays: inputs by name, one dict per device, as large as the largest shape of
            any bucket; a group of smaller shapes uses the start of each array.
    """

    def __init__(
        self,
        spec: GroupSpec,
        data_shapes: Sequence[DataDesc],
        label_shapes: Sequence[DataDesc] | None,
        shared: ExecutorGroup | None = None,
    ) -> None:
        self.spec: GroupSpec = spec
        self._attributes = spec.symbol.attr_dict()
        self.data_shapes = list(data_shapes)
        self.input_shapes = [tuple(desc.shape) for desc in self.data_shapes]
        self.label_shapes = list(label_shapes) if label_shapes else None
        self.batch_size, self.slices = self._decide_slices()
        self._output_axes = [
            DataDesc.get_batch_axis(spec.symbol[i].attr("__layout__"))
            for i in range(len(spec.symbol.list_outputs()))
        ]
        descs = [*self.data_shapes, *(self.label_shapes or ())]
        self._input_axes = {desc.name: DataDesc.get_batch_axis(desc.layout) for desc in descs}
        self.parameters: list[DeviceParameters] = []
        self.shared_data_arrays: list[dict[str, NDArray]] = (
            [{} for _ in spec.contexts] if shared is None else shared.shared_data_arrays
        )
        self.execs: list[Any] = []
        for position in range(len(spec.contexts)):
            self._bind_device(position, descs, shared)
        self._data_inputs = self._inputs_of(self.data_shapes)
        self._label_inputs = self._inputs_of(self.label_shapes or ())

    # -- arrays -----------------------------------------------------------------------------

    @property
    def param_arrays(self) -> list[list[NDArray]]:
        """Each parameter's arrays on all devices."""
        return DeviceArrays(
            DeviceArrays(exe.arg_dict[name] for exe in self.execs) for name in self.spec.param_names
        )

    @param_arrays.setter
    def param_arrays(self, values: Any) -> None:
        assign_arrays(self.param_arrays, values)

    @property
    def grad_arrays(self) -> list[list[NDArray | None]] | None:
        """Each parameter's gradients on all devices."""
        if not self.spec.for_training:
            return None
        return DeviceArrays(
            DeviceArrays(exe.grad_dict.get(name) for exe in self.execs)
            for name in self.spec.param_names
        )

    @grad_arrays.setter
    def grad_arrays(self, values: Any) -> None:
        assign_arrays(self.grad_arrays, values)

    @property
    def aux_arrays(self) -> list[list[NDArray]]:
        """Each auxiliary state's arrays on all devices."""
        return DeviceArrays(
            DeviceArrays(exe.aux_dict[name] for exe in self.execs) for name in self.spec.auxiliary
        )

    @aux_arrays.setter
    def aux_arrays(self, values: Any) -> None:
        assign_arrays(self.aux_arrays, values)

    @property
    def state_arrays(self) -> list[list[NDArray]]:
        """Each state's arrays on all devices."""
        return DeviceArrays(
            DeviceArrays(exe.arg_dict[name] for exe in self.execs) for name in self.spec.state_names
        )

    @state_arrays.setter
    def state_arrays(self, values: Any) -> None:
        assign_arrays(self.state_arrays, values)

    def get_params(self, arguments: dict[str, NDArray], auxiliary: dict[str, NDArray]) -> None:
        """Copy the parameters, averaged over the devices, into the given arrays."""
        for names, source, target in (
            (self.spec.param_names, self.param_arrays, arguments),
            (self.spec.auxiliary, self.aux_arrays, auxiliary),
        ):
            for name, copies in zip(names, source, strict=True):
                if len(copies) == 1:
                    copies[0].copyto(target[name])
                else:
                    mean = np.mean([copy.asnumpy() for copy in copies], axis=0)
                    target[name][:] = mean.astype(copies[0].dtype)

    def set_params(
        self,
        arguments: Mapping[str, NDArray] | None,
        auxiliary: Mapping[str, NDArray] | None,
        allow_extra: bool = False,
    ) -> None:
        """Copy parameters to every device."""
        for exe in self.execs:
            exe.copy_params_from(arguments, auxiliary, allow_extra_params=allow_extra)

    # -- steps ------------------------------------------------------------------------------

    def forward(self, batch: Any, is_train: bool) -> None:
        """Copy a batch (or a list of one batch per device) to the devices and run them."""
        if isinstance(batch, list):
            self._load_shares(self._data_inputs, [one.data for one in batch])
            if self._has_labels(batch[0], is_train):
                self._load_shares(self._label_inputs, [one.label for one in batch])
        else:
            _load(self._data_inputs, batch.data)
            if self._has_labels(batch, is_train):
                _load(self._label_inputs, batch.label)
        for exe in self.execs:
            exe.forward(is_train=is_train)

    def backward(self, out_grads: Sequence[NDArray]) -> None:
        """Run the backward pass on every device with its share of the head gradients."""
        for exe, rows, context in zip(self.execs, self.slices, self.spec.contexts, strict=True):
            share = [
                cut_rows(grad, rows, axis).as_in_context(context) if axis >= 0 else grad
                for grad, axis in zip(out_grads, self._output_axes, strict=False)
            ]
            exe.backward(out_grads=share)

    def get_outputs(self, merge: bool) -> Any:
        """Return the outputs, merged over the devices or as one list per output."""
        if merge and len(self.execs) == 1:
            return list(self.execs[0].outputs)
        outputs = [list(parts) for parts in zip(*(exe.outputs for exe in self.execs), strict=True)]
        return join_parts(outputs, self._output_axes) if merge else outputs

    def get_input_grads(self, merge: bool) -> Any:
        """Return the gradients of the data inputs."""
        names = [desc.name for desc in self.data_shapes if desc.name in self.spec.arguments]
        grads = [[exe.grad_dict[name] for exe in self.execs] for name in names]
        return join_parts(grads, [self._input_axes[name] for name in names]) if merge else grads

    def output_shapes(self) -> list[tuple[str, Shape]]:
        """Return (name, shape) of the outputs of a whole batch."""
        shapes = []
        names = self.spec.symbol.list_outputs()
        for name, output, axis in zip(names, self.execs[0].outputs, self._output_axes, strict=True):
            shape = list(output.shape)
            if axis >= 0 and len(self.execs) > 1:
                shape[axis] = self.batch_size
            shapes.append((name, tuple(shape)))
        return shapes

    def set_states(self, states: Any, value: Any) -> None:
        """Set the states from arrays per device, or all to one value."""
        if (states is None) == (value is None):
            raise UsageError("set_states takes exactly one of states and value")
        for position, arrays in enumerate(self.state_arrays):
            for device, array in enumerate(arrays):
                array[:] = value if states is None else states[position][device]

    def update_metric(self, eval_metric: Any, labels: Any, pre_sliced: bool) -> None:
        """Accumulate a metric over the outputs of every device."""
        names = self.spec.symbol.list_outputs()
        label_descs = self.label_shapes or []
        for device, (exe, rows) in enumerate(zip(self.execs, self.slices, strict=True)):
            if pre_sliced:
                share = labels[device]
            else:
                axes = [self._input_axes[desc.name] for desc in label_descs]
                share = [
                    cut_rows(label, rows, axis) if axis >= 0 else label
                    for label, axis in zip(labels, axes, strict=False)
                ]
            by_name = dict(zip([desc.name for desc in label_descs], share, strict=False))
            eval_metric.update_dict(by_name, dict(zip(names, exe.outputs, strict=True)))

    def install_monitor(self, mon: Any) -> None:
        """Watch intermediate arrays of every device."""
        for exe in self.execs:
            mon.install(exe)

    # -- binding ----------------------------------------------------------------------------

    def _decide_slices(self) -> tuple[int, list[slice]]:
        sizes = {}
        for desc in (*self.data_shapes, *(self.label_shapes or ())):
            axis = DataDesc.get_batch_axis(desc.layout)
            if axis >= 0 and axis < len(desc.shape):
                sizes[desc.name] = desc.shape[axis]
        if len(set(sizes.values())) > 1:
            raise ShapeError(f"all data must have the same batch size, got {sizes}")
        if not sizes:
            # Every device gets whole inputs; its slice only holds its place, nothing is cut by it.
            return 0, [slice(i, i + 1) for i in range(len(self.spec.contexts))]
        size = next(iter(sizes.values()))
        return size, split_batch(size, self.spec.work_load)

    def _bind_device(
        self, position: int, descs: Sequence[DataDesc], shared: ExecutorGroup | None
    ) -> None:
        spec, context = self.spec, self.spec.contexts[position]
        groups = spec.group2ctxs[position] or {}
        specs = self._infer(position, descs)
        variables = {node.name: Entry(node, 0) for node in specs.nodes if node.is_variable}
        places = {
            name: groups.get(entry.node.attrs.get("__ctx_group__", ""), context)
            for name, entry in variables.items()
        }
        shapes = {name: _known(specs.shape(entry)) for name, entry in variables.items()}
        dtypes = {name: _known(specs.dtype(entry)) for name, entry in variables.items()}
        requests = spec.gradient_requests([desc.name for desc in self.data_shapes])
        named = [*spec.arguments, *spec.auxiliary]
        held = dict.fromkeys([*spec.param_names, *spec.auxiliary])  # an ordered set
        if shared is not None:
            parameters = shared.parameters[position]
            _check_shared(parameters, held, shapes)
        else:
            trained = [name for name in held if requests.get(name, "null") != "null"]
            others = [name for name in held if requests.get(name, "null") == "null"]
            by_rows = self._stored_by_rows(held)
            parameters = DeviceParameters(
                context, shapes, dtypes, trained, others, *by_rows, places
            )
        arrays = {name: parameters.value(name) for name in held}
        grads: dict[str, NDArray] = {}
        for name in named:
            if name not in held:
                arrays[name] = self._input(position, name, shapes[name], dtypes[name], places[name])
            if requests.get(name, "null") == "null":
                continue
            gradient = parameters.gradient(name) if name in held else None
            # An input's, or a parameter's that the module with the shared memory does not train.
            if gradient is None:
                gradient = zeros(shapes[name], dtypes[name], arrays[name].context)
            grads[name] = gradient
        self.parameters.append(parameters)
        self.execs.append(
            bind(
                spec.symbol,
                context,
                args={name: arrays[name] for name in spec.arguments},
                args_grad=grads,
                grad_req=requests,
                aux_states={name: arrays[name] for name in spec.auxiliary},
                group2ctx=spec.group2ctxs[position],
                shared_exec=shared.execs[position] if shared is not None else None,
                specs=specs,
            )
        )

    def _stored_by_rows(self, held: Iterable[str]) -> tuple[list[str], list[str]]:
        """Return the row_sparse parameters, and the parameters whose gradients are row_sparse."""
        found = declared_storages(Graph.of(self.spec.symbol.heads), {})
        variables, gradients = (
            [node.name for node, stype in storages.items() if stype == "row_sparse"]
            for storages in found
        )
        return [name for name in held if name in variables], gradients

    def _input(
        self, position: int, name: str, shape: Shape, dtype: DType, context: Context
    ) -> NDArray:
        """Return an input's array, a view of the memory that all shapes and buckets share.

        A sparse input is not shared: how much memory it needs varies with every batch.
        """
        stype = storage_type(self._attributes, name)
        if stype != "default":
            return sparse_zeros(stype, shape, context, dtype)
        known = self.shared_data_arrays[position]
        array = known.get(name)
        # Executors bound earlier keep the smaller array, which their plans point to.
        if array is None or array.dtype != dtype or array.size < shape_size(shape):
            array = known[name] = zeros(shape, dtype, context)
        return resized(array, shape)

    def _infer(self, position: int, descs: Sequence[DataDesc]) -> GraphSpecs:
        """Infer shapes and dtypes of one device's inputs, parameters and intermediate arrays."""
        spec = self.spec
        named = [desc for desc in descs if desc.name in spec.arguments]
        shapes = {desc.name: self._share(desc, position) for desc in named}
        attributes = self._attributes
        dtypes = {}
        for desc in named:
            # var(..., dtype=) stores MXNet's number of a dtype, -1 for none. It takes precedence
            # over the description's, which is float32 when nobody chose one.
            code = attributes.get(desc.name, {}).get("__dtype__", "-1")
            dtypes[desc.name] = to_dtype(desc.dtype if code == "-1" else int(code))
        return infer_graph(spec.symbol.heads, shapes, dtypes)

    def _share(self, desc: DataDesc, position: int) -> Shape:
        axis = DataDesc.get_batch_axis(desc.layout)
        if axis < 0 or axis >= len(desc.shape):
            return desc.shape
        shape = list(desc.shape)
        shape[axis] = self.slices[position].stop - self.slices[position].start
        return tuple(shape)

    # -- batches ----------------------------------------------------------------------------

    def _has_labels(self, batch: Any, is_train: bool) -> bool:
        """Return whether a batch has labels to copy; a training batch must have them."""
        if not self.label_shapes or getattr(batch, "label", None):
            return bool(self.label_shapes)
        if is_train:
            names = [desc.name for desc in self.label_shapes]
            raise ShapeError(
                f"the batch has no labels, but training needs {names}; pass DataBatch(data, label) "
                "or call forward(batch, is_train=False)"
            )
        return False

    def _inputs_of(self, descs: Sequence[DataDesc]) -> list[BatchInput]:
        return [
            BatchInput(
                desc.name,
                self._input_axes[desc.name],
                self.batch_size,
                [
                    (rows, exe.arg_dict[desc.name])
                    for rows, exe in zip(self.slices, self.execs, strict=True)
                    if desc.name in exe.arg_dict
                ],
            )
            for desc in descs
        ]

    def _load_shares(
        self, inputs: Sequence[BatchInput], per_device: Sequence[Sequence[Any]]
    ) -> None:
        if len(per_device) != len(self.execs):
            raise UsageError(f"{len(per_device)} batches for {len(self.execs)} devices")
        for device, arrays in enumerate(per_device):
            _check_count(inputs, arrays)
            for one, source in zip(inputs, arrays, strict=True):
                one.load_share(device, source)


def _load(inputs: Sequence[BatchInput], arrays: Sequence[Any]) -> None:
    _check_count(inputs, arrays)
    for one, source in zip(inputs, arrays, strict=True):
        one.load(source)


def _check_count(inputs: Sequence[BatchInput], arrays: Sequence[Any]) -> None:
    if len(inputs) != len(arrays):
        names = [one.name for one in inputs]
        raise ShapeError(f"the batch has {len(arrays)} arrays for the {len(names)} inputs {names}")


def _known(found: T | None) -> T:
    """Narrow away None: binding needs complete shapes and dtypes, and inference checked them."""
    assert found is not None
    return found


def _check_shared(
    parameters: DeviceParameters, held: Iterable[str], shapes: Mapping[str, Shape]
) -> None:
    for name in held:
        if name not in parameters:
            raise ShapeError(
                f"{name!r} is not among the shared parameters; the default bucket's symbol must "
                "have every parameter (choose as default the bucket that has them all)"
            )
        if parameters.value(name).shape != shapes[name]:
            raise ShapeError(
                f"{name!r} has shape {shapes[name]} in this bucket, the shared array has "
                f"{parameters.value(name).shape}; buckets must agree on their parameters"
            )


def join_parts(arrays: Sequence[Sequence[NDArray]], axes: Sequence[int]) -> list[NDArray]:
    """Join the devices' parts of arrays along their batch axes."""
    merged = []
    for parts, axis in zip(arrays, axes, strict=True):
        if len(parts) == 1 or axis < 0:
            # As in MXNet, which takes the devices' outputs without a batch axis to be the same.
            merged.append(parts[0])
        else:
            same = [part.as_in_context(parts[0].context) for part in parts]
            merged.append(concatenate(same, axis=axis))
    return merged
