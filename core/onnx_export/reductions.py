"""Sums, means, extremes, and positions of extremes."""

from __future__ import annotations

from ..ops.ordering import Argsort, Sort, TopK
from ..ops.reduce import ArgMax, ArgMaxChannel, ArgMin, Norm, NumpySum, Reduction
from .conversion import Call, converts
from .graph import Tensor

_KINDS = {
    "sum": "ReduceSum",
    "_square_sum": "ReduceSumSquare",
    "mean": "ReduceMean",
    "prod": "ReduceProd",
    "max": "ReduceMax",
    "min": "ReduceMin",
}


@converts(Reduction)
def _reduction(call: Call, op: Reduction) -> str:
    kind = _KINDS.get(op.row.names[0])
    if kind is None:
        raise call.cannot("ONNX has no such function")
    return _reduced(call, kind, op.axes(call.data.rank), op.keepdims)


@converts(NumpySum)
def _numpy_sum(call: Call, op: NumpySum) -> str:
    if op.initial:
        raise call.cannot(f"initial is {op.initial}; ONNX's sums start with 0")
    if call.data.dtype != call.output.dtype:
        raise call.cannot("it sums in another dtype than the data's")
    return _reduced(call, "ReduceSum", op.axes(call.data.rank), op.keepdims)


@converts(Norm)
def _norm(call: Call, op: Norm) -> str:
    return _reduced(call, f"ReduceL{op.ord}", op.axes(call.data.rank), op.keepdims)


def _reduced(call: Call, kind: str, axes: tuple[int, ...], keepdims: bool) -> str:
    if not axes:
        raise call.cannot("it reduces no axis")
    # Until opset 18 ReduceSum alone takes its axes as an input.
    if kind == "ReduceSum":
        out = call.emit(kind, call.data.name, call.integers(*axes), keepdims=int(keepdims))
    else:
        out = call.emit(kind, call.data.name, axes=list(axes), keepdims=int(keepdims))
    # ONNX's result has no axes then, MXNet's one of length 1.
    everything = len(axes) == call.data.rank and not keepdims
    return call.reshaped(out, call.output) if everything else out


@converts(ArgMax, ArgMin)
def _arg_extreme(call: Call, op: ArgMax | ArgMin) -> str:
    kind = "ArgMax" if isinstance(op, ArgMax) else "ArgMin"
    data, axis = _along(call, op.axis)
    keepdims = int(op.keepdims and op.axis is not None)
    found = call.emit(kind, data.name, axis=axis, keepdims=keepdims)
    out = call.cast(found, call.output.dtype)
    return call.reshaped(out, call.output) if op.axis is None or data.rank == 1 else out


@converts(ArgMaxChannel)
def _arg_max_channel(call: Call, op: ArgMaxChannel) -> str:
    found = call.emit("ArgMax", call.data.name, axis=1, keepdims=0)
    return call.cast(found, call.output.dtype)


def _along(call: Call, axis: int | None) -> tuple[Tensor, int]:
    """Return the data and the axis; without an axis, the flattened data."""
    data = call.data
    if axis is not None:
        return data, axis % data.rank
    length = 1
    for one in data.shape:
        length *= one
    flat = Tensor("", (length,), (not data.is_static,), data.dtype)
    return Tensor(call.reshaped(data.name, flat, data), flat.shape, flat.dynamic, data.dtype), 0


@converts(TopK)
def _top_k(call: Call, op: TopK) -> list[str]:
    data, axis = _along(call, op.axis)
    if op.ret_typ == "mask":
        raise call.cannot("ONNX's TopK returns values and indices, but no mask")
    values, indices = _sorted(call, data, axis, op.k, op.is_ascend)
    indices = call.cast(indices, op.dtype)
    return {"value": [values], "indices": [indices], "both": [values, indices]}[op.ret_typ]


@converts(Sort)
def _sort(call: Call, op: Sort) -> str:
    data, axis = _along(call, op.axis)
    return _sorted(call, data, axis, 0, op.is_ascend)[0]


@converts(Argsort)
def _argsort(call: Call, op: Argsort) -> str:
    data, axis = _along(call, op.axis)
    return call.cast(_sorted(call, data, axis, 0, op.is_ascend)[1], op.dtype)


def _sorted(call: Call, data: Tensor, axis: int, count: int, ascending: bool) -> tuple[str, str]:
    """Return the first ``count`` values, or all if it is 0, and their positions."""
    wanted = call.integers(count or call.static_length(data, axis))
    values, indices = call.emit_several(
        "TopK", data.name, wanted, outputs=2, axis=axis, largest=int(not ascending)
    )
    return values, indices
