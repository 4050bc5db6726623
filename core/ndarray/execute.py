"""Run one operator on raw arrays: infer output shapes and dtypes, allocate, compute.

Handles and gradients are added by ``core.ndarray.array``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from time import perf_counter_ns
from typing import Any

import numpy as np

from ..backends import backend_of
from ..device import Context
from ..errors import MXNetError, ShapeError, TypeInferenceError
from ..ops import Operator, Run, make_operator
from ..ops.precision import unsupported_dtype
from ..profiler.recorder import profiler
from ..random import device_random
from ..types import Array, DType, Shape, is_known, with_known_zeros, with_plain_zeros
from .np_shape import is_np_shape

__all__ = ["execute", "forget_operators", "operator_of", "run_of", "specs_of_outputs"]

Spec = tuple[Shape, DType]


def operator_of(name: str, attributes: Mapping[str, Any]) -> Operator:
    """Return the operator with these attributes; equal calls share one parsed instance."""
    try:
        return _cached_operator(name, tuple(attributes.items()))
    except TypeError:
        # An unhashable value (a list, an array) cannot be a key.
        return make_operator(name, name, attributes)


# typed, because 1, 1.0 and True are equal as keys but differ as attributes.
@lru_cache(maxsize=4096, typed=True)
def _cached_operator(name: str, attributes: tuple[tuple[str, Any], ...]) -> Operator:
    return make_operator(name, name, dict(attributes))


def forget_operators() -> None:
    """Clear the caches of parsed operators, needed when an operator name gets a new meaning."""
    _cached_operator.cache_clear()
    _specs.cache_clear()


@lru_cache(maxsize=256)
def run_of(context: Context, is_train: bool) -> Run:
    """Return the run settings of operators on a context; scratch memory is allocated per call."""
    backend = backend_of(context)
    random = device_random(context)
    return Run(
        backend.xp,
        is_train,
        random,
        backend.empty,
        suppress=backend.suppress,
        linear=backend,
    )


def execute(
    op: Operator,
    context: Context,
    inputs: Sequence[Array],
    given: Sequence[Array | None] | None = None,
    *,
    is_train: bool = False,
) -> list[Array]:
    """Return all outputs of the operator, hidden ones included.

    Args:
        op: parsed operator.
        context: the device of all arrays.
        inputs: raw arrays, auxiliary states last.
        given: arrays to write into, in the order of the outputs; those missing are allocated.
        is_train: whether this is a training pass.

    Raises:
        MXNetError: wrong number of inputs.
        ShapeError: shapes contradict each other or ``given``; TypeInferenceError likewise.
    """
    given = given or ()
    specs = specs_of_outputs(
        op,
        tuple(_spec(x) for x in inputs),
        tuple(None if x is None else _spec(x) for x in given),
    )
    backend = backend_of(context)
    targets: list[Array] = []
    copies: list[int] = []
    for index, (shape, dtype) in enumerate(specs):
        wanted = given[index] if index < len(given) else None
        if wanted is not None and not _overwrites_input(op, inputs, index, wanted):
            targets.append(wanted)
            continue
        targets.append(backend.empty(shape, dtype))
        if wanted is not None:
            copies.append(index)
    # Read once, since another thread may start or stop the profiler while the operator runs.
    recorder = profiler.recorder
    started = perf_counter_ns()
    with backend.scope():
        try:
            op.forward(run_of(context, is_train), inputs, targets)
        except TypeError as error:
            dtypes = ", ".join(str(array.dtype) for array in inputs)
            found = unsupported_dtype(error, f"operator {op.names[0]} of {dtypes}")
            if found is None:
                raise
            raise found from error
    if recorder is not None and recorder.switches.imperative:
        backend.synchronize()  # otherwise only the launch of GPU kernels would be timed
        recorder.add_span("operator", op.names[0], started, perf_counter_ns())
    for index in copies:
        backend.copy_into(given[index], targets[index])
        targets[index] = given[index]
    return targets


def specs_of_outputs(
    op: Operator, inputs: tuple[Spec, ...], given: tuple[Spec | None, ...] = ()
) -> Sequence[Spec]:
    """Return shape and dtype of all outputs, from those of the inputs and of outputs given."""
    return _specs(op, inputs, given, is_np_shape())


def _spec(array: Array) -> Spec:
    return array.shape, array.dtype


def _overwrites_input(op: Operator, inputs: Sequence[Array], index: int, target: Array) -> bool:
    """Return whether writing this output directly would overwrite an input still to be read."""
    for position, source in enumerate(inputs):
        if source is target and (position, index) in op.inplace_forward():
            continue
        if _may_share_memory(source, target):
            return True
    return False


def _may_share_memory(a: Array, b: Array) -> bool:
    if isinstance(a, np.ndarray):
        return bool(np.may_share_memory(a, b))
    # CuPy has no np.may_share_memory; arrays of different allocations never overlap.
    return bool(a.data.mem.ptr == b.data.mem.ptr)


@lru_cache(maxsize=8192)
def _specs(
    op: Operator, inputs: tuple[Spec, ...], given: tuple[Spec | None, ...], np_shape: bool
) -> tuple[Spec, ...]:
    where = f"operator {op.names[0]}"
    names = op.input_names()
    if len(inputs) != len(names):
        raise MXNetError(
            f"{where} expects {len(names)} inputs ({', '.join(names)}), got {len(inputs)}"
        )
    missing = len(op.output_names()) - len(given)
    if missing < 0:
        raise MXNetError(f"{where} has {len(op.output_names())} outputs, got {len(given)} in out=")
    nothing: list[Any] = [None] * missing
    if np_shape:
        # Inference takes a plain 0 as an unknown length; these arrays exist, so theirs are known.
        inputs = tuple((with_known_zeros(shape), dtype) for shape, dtype in inputs)
        given = tuple(spec and (with_known_zeros(spec[0]), spec[1]) for spec in given)
    try:
        in_shapes, out_shapes = op.infer_shape(
            [shape for shape, _ in inputs], [spec and spec[0] for spec in given] + nothing
        )
        in_types, out_types = op.infer_type(
            [dtype for _, dtype in inputs], [spec and spec[1] for spec in given] + nothing
        )
    except ShapeError as error:
        raise ShapeError(f"{where}: {error}") from None
    except TypeInferenceError as error:
        raise TypeInferenceError(f"{where}: {error}") from None
    for name, (shape, dtype), found, kind in zip(names, inputs, in_shapes, in_types, strict=True):
        if found != shape:
            raise ShapeError(f"{where}: {name} has shape {shape}, expected {found}")
        if kind != dtype:
            raise TypeInferenceError(f"{where}: {name} has dtype {dtype}, expected {kind}")
    return tuple(
        _complete(where, name, shape, dtype, np_shape)
        for name, shape, dtype in zip(op.output_names(), out_shapes, out_types, strict=True)
    )


def _complete(
    where: str, name: str, shape: Shape | None, dtype: DType | None, np_shape: bool
) -> Spec:
    if shape is None or not (np_shape or is_known(shape)):
        raise ShapeError(
            f"{where}: the shape of {name} cannot be inferred, got {shape}; a dimension of size 0 "
            "stands for an unknown one, so arrays without elements can be given to operators only "
            "inside `with mx.np_shape():`"
        )
    if dtype is None:
        raise TypeInferenceError(f"{where}: the dtype of {name} cannot be inferred; give dtype=")
    return with_plain_zeros(shape), dtype
