"""Operators that rearrange elements."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from ..ops.broadcast import BroadcastAxis, BroadcastLike, BroadcastTo
from ..ops.joining import Concat, Repeat, Stack, Tile
from ..ops.slicing import Crop, Slice, SliceAxis, SliceChannel, SliceLike, SplitV2
from ..ops.transpose import DepthToSpace, Reverse, SpaceToDepth, SwapAxis, Transpose
from .conversion import Call, converts
from .graph import Tensor


@converts(Transpose, SwapAxis)
def _transpose(call: Call, op: Transpose | SwapAxis) -> str:
    return call.transposed(call.data.name, op.permutation(call.data.rank))


@converts(Concat)
def _concat(call: Call, op: Concat) -> str:
    if len(call.inputs) == 1:
        return call.data.name
    return call.emit("Concat", *call.names, axis=op.dim % call.output.rank)


@converts(Stack)
def _stack(call: Call, op: Stack) -> str:
    axis = op.axis % call.output.rank
    parts = [call.emit("Unsqueeze", name, call.integers(axis)) for name in call.names]
    return call.emit("Concat", *parts, axis=axis)


@converts(SliceChannel, SplitV2)
def _split(call: Call, op: SliceChannel | SplitV2) -> Sequence[str]:
    axis = op.axis % call.data.rank
    bounds = op.bounds(call.static_length(call.data, axis))
    lengths = [stop - start for start, stop in itertools.pairwise(bounds)]
    if bounds[0]:
        raise call.cannot(f"its parts begin at {bounds[0]}, ONNX's at 0")
    parts = [call.data.name]
    if len(lengths) > 1:
        parts = call.emit_several(
            "Split", call.data.name, call.integers(*lengths), outputs=len(lengths), axis=axis
        )
    if op.squeeze_axis:
        parts = [call.emit("Squeeze", name, call.integers(axis)) for name in parts]
    return parts


@converts(Slice, SliceAxis, SliceLike, Crop, reads=(0,))
def _slice(call: Call, op: Slice | SliceAxis | SliceLike | Crop) -> str:
    source, target = call.data, call.output
    region = list(op.region(source.shape, target.shape))
    for axis, part in enumerate(region):
        whole = part.indices(source.shape[axis]) == (0, source.shape[axis], 1)
        if source.dynamic[axis] and not whole and target.dynamic[axis]:
            raise call.cannot(f"how much it cuts of axis {axis} depends on the batch size")
    return call.sliced(source.name, region, source)


@converts(Reverse)
def _reverse(call: Call, op: Reverse) -> str:
    axes = op.axis if isinstance(op.axis, tuple) else (op.axis,)
    axes = tuple(axis % call.data.rank for axis in axes)
    least = -(2**63)  # an end before the first element, whatever the length
    columns = ([-1] * len(axes), [least] * len(axes), axes, [-1] * len(axes))
    return call.emit("Slice", call.data.name, *(call.integers(*one) for one in columns))


@converts(BroadcastAxis, BroadcastTo)
def _broadcast(call: Call, op: BroadcastAxis | BroadcastTo) -> str:
    return call.expanded(call.data.name, call.output)


@converts(BroadcastLike, reads=(0,))
def _broadcast_like(call: Call, op: BroadcastLike) -> str:
    return call.expanded(call.data.name, call.output)


@converts(Tile)
def _tile(call: Call, op: Tile) -> str:
    data, reps = call.data, tuple(op.reps)
    name = data.name
    missing = len(reps) - data.rank
    if missing > 0:
        name = call.viewed(name, (1,) * missing + data.shape, (False,) * missing + data.dynamic)
    return call.emit("Tile", name, call.integers(*((1,) * -missing + reps)))


@converts(Repeat)
def _repeat(call: Call, op: Repeat) -> str:
    """Broadcast along a new axis after the repeated one, and join the two."""
    data, name = call.data, call.data.name
    if op.axis is None:
        data = _flat(call, data)
        name = data.name
    axis = (op.axis or 0) % data.rank
    apart = call.emit("Unsqueeze", name, call.integers(axis + 1))
    reps = [1] * (data.rank + 1)
    reps[axis + 1] = op.repeats
    return call.reshaped(call.emit("Tile", apart, call.integers(*reps)), call.output)


def _flat(call: Call, data: Tensor) -> Tensor:
    length = 1
    for one in data.shape:
        length *= one
    flat = Tensor("", (length,), (not data.is_static,), data.dtype)
    return Tensor(call.reshaped(data.name, flat), flat.shape, flat.dynamic, data.dtype)


@converts(DepthToSpace)
def _depth_to_space(call: Call, op: DepthToSpace) -> str:
    return call.emit("DepthToSpace", call.data.name, blocksize=op.block_size)


@converts(SpaceToDepth)
def _space_to_depth(call: Call, op: SpaceToDepth) -> str:
    return call.emit("SpaceToDepth", call.data.name, blocksize=op.block_size)
