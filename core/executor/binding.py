"""``Symbol.bind`` and ``Symbol.simple_bind``: from a symbol and arrays to an executor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..backends import backend_of
from ..compiler.common_subexpressions import eliminate_common_subexpressions
from ..compiler.compile import CompileOptions
from ..compiler.storage_types import declared_storages
from ..compiler.trace import Graph, SpecOf, specs_of
from ..device import Context
from ..errors import (
    DeviceError,
    MXNetError,
    ShapeError,
    TypeInferenceError,
    UsageError,
    did_you_mean,
)
from ..graph.infer import GraphSpecs, infer_graph
from ..graph.nodes import Entry
from ..ndarray import NDArray
from ..ops.storage import STORAGE_TYPES
from ..types import DType, Shape, to_dtype
from .allocate import Allocator
from .arena import Arena
from .bound import Bound
from .executor import Executor
from .operatorwise import OperatorwiseExecutor, is_shaped_by_values, refuse_shaped_by_values
from .sparse import SparseExecutor, has_sparse, with_stored

__all__ = ["bind", "simple_bind"]

GRAD_REQS = ("write", "add", "null")

Arrays = Sequence[NDArray | None] | Mapping[str, NDArray]
Requests = str | Sequence[str] | Mapping[str, str]


def bind(
    symbol: Any,
    ctx: Context,
    args: Arrays,
    args_grad: Arrays | None = None,
    grad_req: Requests = "write",
    aux_states: Arrays | None = None,
    group2ctx: Mapping[str, Context] | None = None,
    shared_exec: Executor | None = None,
    *,
    options: CompileOptions | None = None,
    specs: GraphSpecs | None = None,
) -> Executor:
    """Bind a symbol to arrays, dense or sparse.

    Args:
        symbol: the symbol.
        ctx: where it runs.
        args: an array for each argument, in the order of ``list_arguments`` or by name.
        args_grad: arrays for gradients, likewise; None or missing where no gradient is wanted.
        grad_req: ``"write"``, ``"add"`` or ``"null"``, for all arguments, in order, or by name
            (``"null"`` for those not named).
        aux_states: an array for each auxiliary state, in order or by name.
        group2ctx: contexts by ``ctx_group`` attribute; all must be on one device.
        shared_exec: an executor whose memory is shared; the two must not run at the same time.
        options: compiler options.
        specs: shapes and dtypes already inferred for such arrays; None to infer them now.

    Raises:
        TypeError: ``ctx`` is not a context, or an array is not an NDArray.
        ValueError: an array is missing or there are too many; a bad ``grad_req``.
        ShapeError, TypeInferenceError: arrays contradict the graph.
        DeviceError: arrays or groups on different devices.
    """
    if not isinstance(ctx, Context):
        raise TypeError(f"ctx is {type(ctx).__name__}; expected a Context such as mx.cpu()")
    graph = Graph.of(symbol.heads)
    names = [node.name for node in graph.arguments]
    auxiliary_names = [node.name for node in graph.auxiliaries]
    arguments = _all_arrays("args", args, names)
    auxiliaries = _all_arrays("aux_states", aux_states or [], auxiliary_names)
    gradients = _arrays("args_grad", args_grad or {}, names, may_miss=True)
    requests = [
        "null" if gradient is None else request
        for request, gradient in zip(_requests(grad_req, names), gradients, strict=True)
    ]
    all_names, all_arrays = [*names, *auxiliary_names], [*arguments, *auxiliaries]
    _check_devices(ctx, group2ctx, zip(all_names, all_arrays, strict=True))
    _check_devices(ctx, None, zip(names, gradients, strict=True))
    given = Bound(arguments, gradients, requests, auxiliaries)
    _check_gradients(names, arguments, gradients)
    if is_shaped_by_values(graph):
        return OperatorwiseExecutor(symbol, graph, ctx, given)
    spec_of = _infer_bound(graph, arguments, auxiliaries, specs)
    return _executor(symbol, graph, spec_of, ctx, given, shared_exec, group2ctx, options)


def simple_bind(
    symbol: Any,
    ctx: Context,
    grad_req: Requests = "write",
    type_dict: Mapping[str, Any] | None = None,
    stype_dict: Mapping[str, str] | None = None,
    group2ctx: Mapping[str, Context] | None = None,
    shared_arg_names: Sequence[str] | None = None,
    shared_exec: Executor | None = None,
    shared_buffer: dict[str, NDArray] | None = None,
    shapes: Mapping[str, Shape] | None = None,
) -> Executor:
    """Bind a symbol to new arrays of zeros, whose shapes follow from those of the inputs.

    Args:
        symbol: the symbol.
        ctx: where it runs.
        grad_req: as in ``bind``.
        type_dict: dtypes by name of the variable; float32 unless inferred otherwise.
        stype_dict: storage types by name; by default what the variable declares, or dense.
        group2ctx: contexts by ``ctx_group`` attribute.
        shared_arg_names: arguments whose arrays and gradients are shared with ``shared_exec``;
            without ``shared_exec``, those that are not taken from ``shared_buffer``.
        shared_exec: an executor whose memory and auxiliary states are shared, too.
        shared_buffer: arrays by name whose memory is reused where large enough, gradients under
            ``"grad of "`` and the argument's name; newly allocated ones are added.
        shapes: shapes by name of the variable; 0 is an unknown dimension. Values that are neither
            tuples nor lists (``force_rebind=True`` ...) are ignored, as in MXNet.

    Raises:
        ShapeError, TypeInferenceError: unknown or contradictory shapes or dtypes.
        ValueError: a bad ``grad_req``, or ``shared_exec`` lacks one of ``shared_arg_names``.
    """
    if not isinstance(ctx, Context):
        raise TypeError(f"ctx is {type(ctx).__name__}; expected a Context such as mx.cpu()")
    _check_storage(stype_dict)
    _check_devices(ctx, group2ctx, ())
    graph = Graph.of(symbol.heads)
    refuse_shaped_by_values(graph, "simple_bind")
    known = {
        name: tuple(shape)
        for name, shape in (shapes or {}).items()
        if isinstance(shape, (tuple, list))
    }
    dtypes = {name: to_dtype(dtype) for name, dtype in (type_dict or {}).items()}
    spec_of = _infer(graph, known, dtypes)
    requests = _requests(grad_req, [node.name for node in graph.arguments])
    storages = declared_storages(graph, stype_dict or {})
    # Variables whose shapes are given are taken for inputs; parameters follow from these.
    allocator = Allocator(
        ctx, group2ctx, spec_of, shared_exec, shared_arg_names, shared_buffer, *storages, known
    )
    arguments = [allocator.argument(node) for node in graph.arguments]
    gradients = [
        None if request == "null" else allocator.gradient(node)
        for node, request in zip(graph.arguments, requests, strict=True)
    ]
    auxiliaries = [allocator.auxiliary(node) for node in graph.auxiliaries]
    made = Bound(arguments, gradients, requests, auxiliaries)
    return _executor(symbol, graph, spec_of, ctx, made, shared_exec, group2ctx)


def _executor(
    symbol: Any,
    graph: Graph,
    spec_of: SpecOf,
    ctx: Context,
    bound: Bound,
    shared_exec: Executor | None,
    group2ctx: Mapping[str, Context] | None,
    options: CompileOptions | None = None,
) -> Executor:
    """Return an executor for a graph and matching arrays."""
    # Here and not in the compiler, because ``get_optimized_symbol`` shows the result.
    graph, spec_of = eliminate_common_subexpressions(graph, spec_of)
    arena = shared_exec.arena if shared_exec is not None else Arena(ctx)
    if has_sparse(bound):
        own = (symbol, graph, spec_of, ctx, with_stored(bound, graph, spec_of, ctx), arena)
        return SparseExecutor(*own, stored=bound, group2ctx=group2ctx, options=options)
    return Executor(symbol, graph, spec_of, ctx, bound, arena, group2ctx=group2ctx, options=options)


def _check_storage(stype_dict: Mapping[str, str] | None) -> None:
    for name, storage in (stype_dict or {}).items():
        if storage not in STORAGE_TYPES:
            raise MXNetError(
                f"stype_dict asks for {storage!r} storage of {name!r}; expected one of "
                f"{', '.join(STORAGE_TYPES)}"
            )


def _arrays(
    what: str, given: Arrays, names: Sequence[str], *, may_miss: bool = False
) -> list[NDArray | None]:
    """Return arrays in the order of ``names``, None for missing ones if ``may_miss``."""
    if isinstance(given, Mapping):
        missing = [name for name in names if name not in given]
        if missing and not may_miss:
            extra = [name for name in given if name not in names]
            raise ValueError(
                f"key `{missing[0]}` is missing in `{what}`{did_you_mean(missing[0], extra)}; "
                f"the symbol needs {', '.join(names)}"
            )
        arrays = [given.get(name) for name in names]
    elif isinstance(given, (list, tuple)):
        if len(given) != len(names):
            raise ValueError(
                f"Length of {what} does not match the number of arguments: got {len(given)} for "
                f"{len(names)} ({', '.join(names) or 'none'})"
            )
        arrays = list(given)
    else:
        raise TypeError(f"{what} is {type(given).__name__}; expected a list or dict of NDArrays")
    for name, array in zip(names, arrays, strict=True):
        if not (isinstance(array, NDArray) or (array is None and may_miss)):
            raise TypeError(f"{what}: {name!r} is {type(array).__name__}; expected an NDArray")
    return arrays


def _all_arrays(what: str, given: Arrays, names: Sequence[str]) -> list[NDArray]:
    return [array for array in _arrays(what, given, names) if array is not None]


def _requests(given: Requests, names: Sequence[str]) -> list[str]:
    if isinstance(given, str):
        requests = [given] * len(names)
    elif isinstance(given, Mapping):
        requests = [given.get(name, "null") for name in names]
    elif len(given) == len(names):
        requests = list(given)
    else:
        raise UsageError(
            f"grad_req has {len(given)} entries; expected one for each of {len(names)} arguments"
        )
    for name, request in zip(names, requests, strict=True):
        if request not in GRAD_REQS:
            raise UsageError(
                f"grad_req of {name!r} is {request!r}; expected one of {', '.join(GRAD_REQS)}"
            )
    return requests


def _infer(graph: Graph, shapes: Mapping[str, Shape], dtypes: Mapping[str, DType]) -> SpecOf:
    try:
        return specs_of(infer_graph(graph.heads, shapes, dtypes))
    except ShapeError as error:
        known = {node.name for node in graph.nodes}
        for name in shapes.keys() - known:
            error.add_note(f"{name!r} is not a variable of the symbol{did_you_mean(name, known)}")
        raise


def _infer_bound(
    graph: Graph,
    arguments: Sequence[NDArray],
    auxiliaries: Sequence[NDArray],
    specs: GraphSpecs | None,
) -> SpecOf:
    """Infer shapes and dtypes from the arrays unless given; raise where the graph needs others."""
    variables = [*graph.arguments, *graph.auxiliaries]
    arrays = [*arguments, *auxiliaries]
    named = list(zip(variables, arrays, strict=True))
    if specs is None:
        shapes = {node.name: array.shape for node, array in named}
        dtypes = {node.name: np.dtype(array.dtype) for node, array in named}
        spec_of = _infer(graph, shapes, dtypes)
    else:
        spec_of = specs_of(specs)
    for node, array in named:
        shape, dtype = spec_of(Entry(node, 0))
        if array.shape != shape:
            raise ShapeError(f"{node.name!r} is bound to shape {array.shape}, expected {shape}")
        if array.dtype != dtype:
            raise TypeInferenceError(
                f"{node.name!r} is bound to dtype {np.dtype(array.dtype)}, expected {dtype}"
            )
    return spec_of


def _check_gradients(
    names: Sequence[str], arguments: Sequence[NDArray], gradients: Sequence[NDArray | None]
) -> None:
    for name, argument, gradient in zip(names, arguments, gradients, strict=True):
        if gradient is None:
            continue
        got = gradient.shape, np.dtype(gradient.dtype)
        expected = argument.shape, np.dtype(argument.dtype)
        if got != expected:
            raise ShapeError(
                f"args_grad: {name!r} has shape {got[0]} and dtype {got[1]}, the argument "
                f"{expected[0]} and {expected[1]}"
            )


def _check_devices(
    ctx: Context,
    group2ctx: Mapping[str, Context] | None,
    arrays: Iterable[tuple[str, NDArray | None]],
) -> None:
    """Raise DeviceError unless everything is in the memory of one device.

    All ``cpu(i)`` share one memory, so groups placed on several of them are fine.
    """
    for group, context in (group2ctx or {}).items():
        if backend_of(context) is not backend_of(ctx):
            raise DeviceError(
                f"group2ctx places {group!r} on {context}, the rest is on {ctx}; an executor runs "
                "on one device: place all groups there, or use several contexts in a Module"
            )
    for name, array in arrays:
        if array is not None and backend_of(array.context) is not backend_of(ctx):
            raise DeviceError(
                f"{name!r} is on {array.context}, but bind is for {ctx}; copy it with "
                f"as_in_context({ctx})"
            )
