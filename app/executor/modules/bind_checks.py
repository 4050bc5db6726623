"""Checks of the arguments of ``bind``, before anything is allocated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from app.domain.module import BindSpec, BucketShapes, InputDesc, ModuleKind, ModuleRecord
from app.domain.ragged_axes import batch_axis, length_axis, ragged_inputs
from app.errors.quoting import did_you_mean
from app.errors.tree import FieldError, Invalid, TooLarge
from app.executor.faults import client_fault
from app.executor.modules.memory_limits import available_bytes, total_bytes
from app.executor.modules.symbol_specs import SymbolSpecs, infer_specs, unknown_variables
from core.device import Context
from core.errors import ShapeError
from core.io import DataDesc
from core.ndarray import NDArray
from core.symbol import Symbol
from core.types import DType, Shape, to_dtype

__all__ = [
    "check_arguments",
    "check_bind",
    "check_label_names",
    "check_names_of",
    "describe_inputs",
]

_LARGEST_DIM = 2**31 - 1
_LARGEST_RANK = 32
_DEFAULT_LABELS = ("softmax_label",)
_PARAMETERS = ("_weight", "_bias", "_gamma", "_beta")


class Bindable(Protocol):
    """The module to be bound, as far as the checks need it."""

    @property
    def record(self) -> ModuleRecord: ...
    @property
    def symbols(self) -> Mapping[str, Symbol]: ...
    @property
    def contexts(self) -> Sequence[Context]: ...
    @property
    def data_names(self) -> Sequence[str]: ...
    @property
    def label_names(self) -> Sequence[str]: ...


def describe_inputs(shapes: Sequence[InputDesc]) -> list[DataDesc]:
    """Return the engine's descriptions of inputs that ``check_bind`` has passed."""
    return [DataDesc(one.name, one.shape, to_dtype(one.dtype), one.layout) for one in shapes]


def check_label_names(symbol: Symbol, record: ModuleRecord) -> list[str]:
    """Return those of the label names that are arguments of the symbol.

    The default name is skipped where the symbol has no such argument; a network without a
    loss needs no labels.

    Raises:
        Invalid: another name that is not an argument, or an argument that must be a label but is
            not among the names and would be taken for a parameter.
    """
    arguments = symbol.list_arguments()
    labels = [name for name in record.label_names if name in arguments]
    if len(labels) < len(record.label_names) and record.label_names != _DEFAULT_LABELS:
        missing = next(name for name in record.label_names if name not in arguments)
        raise Invalid(
            "label_names", missing, f"arguments of the symbol{did_you_mean(missing, arguments)}"
        )
    inputs = {*record.data_names, *labels, *record.state_names}
    for name in arguments:
        if name.endswith("_label") and name not in inputs:
            raise Invalid(
                "label_names",
                list(record.label_names),
                f"names with {name!r} among them, else it would be a parameter",
            )
    return labels


def check_names_of(symbol: Symbol, record: ModuleRecord) -> None:
    """Raise Invalid for a data, state or fixed parameter's name that is not an argument."""
    arguments = symbol.list_arguments()
    for field in ("data_names", "state_names", "fixed_param_names"):
        check_arguments(field, getattr(record, field), arguments)


def check_arguments(field: str, names: Sequence[str], arguments: Sequence[str]) -> None:
    """Raise Invalid for a name that is not an argument of the symbol."""
    inputs = [name for name in arguments if not name.endswith(_PARAMETERS)]
    for name in names:
        if name not in arguments:
            there = ", ".join(arguments if field == "fixed_param_names" else inputs)
            near = did_you_mean(name, arguments)
            raise Invalid(field, name, f"arguments of the symbol: {there}{near}")


def check_bind(module: Bindable, spec: BindSpec, values: Mapping[str, NDArray]) -> None:
    """Raise unless all shapes fit the symbols, one another, the parameters and the memory.

    Args:
        module: the module to be bound.
        spec: how to bind it.
        values: existing parameters and auxiliary states by name.

    Raises:
        Invalid, HostError: a name, shape or dtype does not fit; names the field.
        TooLarge: the device does not have that much memory in all.
        MemoryError: the device has enough memory, but not enough of it is free.
    """
    _check_gradients(module, spec)
    if spec.buckets and module.record.kind is not ModuleKind.BUCKETING:
        raise Invalid("buckets", list(spec.buckets), "none for a module without buckets")
    default = BucketShapes(data_shapes=spec.data_shapes, label_shapes=spec.label_shapes)
    needs = [_check_one(module, module.record.default_bucket_key, default, "", values)]
    for key, shapes in spec.buckets.items():
        if key not in module.symbols:
            raise Invalid("buckets", key, f"keys that have symbols: {', '.join(module.symbols)}")
        needs.append(_check_one(module, key, shapes, f"buckets[{key}].", values))
    _check_lengths(module, spec)
    # Buckets share their memory, so the largest one counts.
    need = max(specs.bind_bytes(spec.for_training) for specs in needs)
    all_bytes, left = total_bytes(module.contexts[0]), available_bytes(module.contexts[0])
    if (
        left < need <= all_bytes
    ):  # ``MemoryManager`` then evicts idle modules, and has this checked again
        raise MemoryError(f"{need:,} bytes are needed to bind it, {left:,} are left")
    if need > left:
        raise TooLarge(
            f"memory to bind module {module.record.name!r}, in bytes",
            got=need,
            limit=all_bytes,
            setting="the memory of its device",
        )


def _check_gradients(module: Bindable, spec: BindSpec) -> None:
    if spec.inputs_need_grad and not spec.for_training:
        raise Invalid("inputs_need_grad", True, "false where for_training is false")
    if isinstance(spec.grad_req, dict):
        arguments = module.symbols[module.record.default_bucket_key].list_arguments()
        for name in spec.grad_req:
            if name not in arguments:
                near = did_you_mean(name, arguments)
                raise Invalid("grad_req", name, f"names of arguments of the symbol{near}")


def _check_one(
    module: Bindable, key: str, shapes: BucketShapes, field: str, values: Mapping[str, NDArray]
) -> SymbolSpecs:
    _check_descs(shapes.data_shapes, f"{field}data_shapes", module.data_names, all_of_them=True)
    _check_descs(shapes.label_shapes, f"{field}label_shapes", module.label_names, all_of_them=False)
    descs = [*shapes.data_shapes, *shapes.label_shapes]
    arguments = set(module.symbols[key].list_arguments())
    known = {one.name: one.shape for one in descs if one.name in arguments}
    dtypes = {one.name: to_dtype(one.dtype) for one in descs if one.name in arguments}
    with client_fault(f"{field}data_shapes"):
        try:
            specs = infer_specs(module.symbols[key], known, dtypes)
        except ShapeError:
            _check_labels(module, module.symbols[key], known, dtypes, field)
            raise
    for name, (shape, _) in specs.variables.items():
        if name in values and values[name].shape != shape:
            raise Invalid(
                f"{field}data_shapes",
                [one.shape for one in shapes.data_shapes],
                f"shapes for which {name!r} has its shape {values[name].shape}, not {shape}",
            )
    return specs


def _check_labels(
    module: Bindable,
    symbol: Symbol,
    known: Mapping[str, Shape],
    dtypes: Mapping[str, DType],
    field: str,
) -> None:
    """Raise Invalid if all inputs whose shapes cannot be inferred are labels."""
    unknown = unknown_variables(symbol, known, dtypes)
    if not unknown or not unknown <= set(module.label_names):
        return
    shapes = [one for name, one in known.items() if name in module.data_names]
    raise Invalid.from_errors(
        FieldError(
            f"{field}label_shapes",
            f"no shape of {name!r}",
            "its shape, which does not follow from those of the data",
            f'for example "label_shapes": [{{"name": "{name}", "shape": '
            f"{list(shapes[0][:1]) if shapes else [1]}}}]",
        )
        for name in sorted(unknown)
    )


def _check_descs(
    descs: Sequence[InputDesc], field: str, names: Sequence[str], all_of_them: bool
) -> None:
    given = [one.name for one in descs]
    for position, one in enumerate(descs):
        path = f"{field}[{position}]"
        if one.name not in names:
            near = did_you_mean(one.name, names)
            raise Invalid(f"{path}.name", one.name, f"one of {', '.join(names) or 'none'}{near}")
        if given.count(one.name) > 1:
            raise Invalid(f"{path}.name", one.name, "each input once")
        if len(one.shape) > _LARGEST_RANK or not all(0 < n <= _LARGEST_DIM for n in one.shape):
            raise Invalid(f"{path}.shape", list(one.shape), "up to 32 dimensions of at least 1")
        with client_fault(f"{path}.dtype"):
            to_dtype(one.dtype)
        _check_padding(one, path, descs, is_data=all_of_them)
    missing = [name for name in names if name not in given]
    if all_of_them and missing:
        raise Invalid(field, given, f"shapes of {', '.join(names)}; {missing[0]!r} is missing")


def _check_padding(
    desc: InputDesc, path: str, descs: Sequence[InputDesc], *, is_data: bool
) -> None:
    """Raise Invalid for a padding value, or lengths, that do not fit the input."""
    if not is_data and (desc.pad_value or desc.lengths_of is not None):
        field = "pad_value" if desc.pad_value else "lengths_of"
        raise Invalid(f"{path}.{field}", getattr(desc, field), "none: predictions take no labels")
    dtype = to_dtype(desc.dtype)
    if dtype.kind in "biu" and not _can_represent(dtype, desc.pad_value):
        raise Invalid(f"{path}.pad_value", desc.pad_value, f"a value of dtype {dtype}")
    if desc.lengths_of is None:
        return
    others = [one.name for one in descs if one.name != desc.name]
    if desc.lengths_of not in others:
        near = did_you_mean(desc.lengths_of, others)
        raise Invalid(f"{path}.lengths_of", desc.lengths_of, f"another input{near}")
    if len(desc.shape) != 1 or batch_axis(desc) != 0:
        expected = "one length for each example: (batch,)"
        raise Invalid(f"{path}.shape", list(desc.shape), expected)


def _can_represent(dtype: DType, value: float) -> bool:
    if dtype.kind == "b":
        return value in (0, 1)
    limits = np.iinfo(dtype)
    return value.is_integer() and limits.min <= value <= limits.max


def _check_lengths(module: Bindable, spec: BindSpec) -> None:
    """Raise Invalid for lengths of an input if it is unclear which axis they measure."""
    default = BucketShapes(data_shapes=spec.data_shapes, label_shapes=spec.label_shapes)
    ragged = ragged_inputs({module.record.default_bucket_key: default, **spec.buckets})
    inputs = {one.name: one for one in spec.data_shapes}
    for position, one in enumerate(spec.data_shapes):
        if one.lengths_of is None:
            continue
        other = inputs[one.lengths_of]
        if batch_axis(other) < 0 or length_axis(other, ragged) is None:
            expected = "an input with a batch axis, and one other in which buckets differ"
            raise Invalid(f"data_shapes[{position}].lengths_of", one.lengths_of, expected)
