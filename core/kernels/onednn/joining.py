"""Arithmetic of two tensors, and concatenations, in the layout of an input."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import cast

from ...capabilities.arrays import Concatenation, HasArithmetic
from ...capabilities.functions import Arithmetic
from ...types import Shape
from ..kernel import Kernel, KernelRequest, KernelUnavailable, TensorSpec
from .constants import Algorithm, Argument
from .kernel import Operand, PrimitiveKernel, are_float32, input_, output
from .memory import MemoryDesc, alternatives, any_layout, blocked, channels_last, desc_of, plain
from .primitive import Primitive, first_available

__all__ = ["arithmetic", "broadcast", "concatenation", "is_per_channel"]


_ALGORITHMS = {
    Arithmetic.ADD: Algorithm.BINARY_ADD,
    Arithmetic.DIVIDE: Algorithm.BINARY_DIVIDE,
    Arithmetic.MULTIPLY: Algorithm.BINARY_MULTIPLY,
    Arithmetic.SUBTRACT: Algorithm.BINARY_SUBTRACT,
}
_BLOCK = 16
"""Channels in a block."""
_MOST_SOURCES = 1024
"""Largest number of inputs of a concatenation. The argument numbers of more inputs would collide
with those of other arguments, and oneDNN is slow to create primitives with so many."""


def arithmetic(request: KernelRequest[HasArithmetic]) -> Kernel | None:
    """Prepare the sum, product, difference or quotient of two tensors.

    One of them has the result's shape; the other one has it too, or is broadcast.
    """
    left, right = request.inputs
    out = request.outputs[0]
    known = request.operator.arithmetic()
    algorithm = None if known is None else _ALGORITHMS.get(known)
    if known is None or algorithm is None or not are_float32(request):
        return None
    if left is None or right is None or out is None:
        return None
    if left.shape == right.shape:
        desc = _common([left, right])
        order, inplace = (0, 1), None
        primitive = Primitive.of("binary", algorithm, desc, desc, desc)
    else:
        order = (0, 1) if left.shape == out.shape else (1, 0)
        inplace = ((order[0], 0),)
        specs = [(left, right)[index] for index in order]
        if specs[0].shape != out.shape:
            return None
        # oneDNN is fast only where the second operand is broadcast.
        if order == (1, 0) and not known.is_commutative:
            return None
        primitive = broadcast(algorithm, *specs)
    operands = {
        Argument.SRC: input_(order[0]),
        Argument.SRC_1: input_(order[1]),
        Argument.DST: output(),
    }
    return PrimitiveKernel("arithmetic", request, (primitive, operands), inplace=inplace)


def broadcast(algorithm: Algorithm, wide: TensorSpec, narrow: TensorSpec) -> Primitive:
    """Return the primitive, in a layout of the wide tensor that suits the narrow one, too."""

    def make(descs: tuple[MemoryDesc, MemoryDesc]) -> Primitive:
        return Primitive.of("binary", algorithm, *descs, descs[0])

    shape = (1,) * (len(wide.shape) - len(narrow.shape)) + narrow.shape
    # Where axes are added for oneDNN, only C order is the same with and without them.
    sides = (plain(shape), any_layout(shape)) if shape == narrow.shape else (plain(shape),)
    return first_available(make, itertools.product(alternatives(wide), sides))


def is_per_channel(narrow: Shape, wide: Shape) -> bool:
    """Return whether a tensor has one number per channel, or per sample and channel."""
    is_one = all(size == 1 for size in narrow[2:])
    return len(narrow) == len(wide) > 2 and is_one and narrow[1] == wide[1]


def concatenation(request: KernelRequest[Concatenation]) -> Kernel | None:
    """Prepare the concatenation, in the inputs' layouts or in a common one."""
    specs = [spec for spec in request.inputs if spec is not None]
    if not are_float32(request) or len(specs) > _MOST_SOURCES:
        return None
    axis = request.operator.dim % len(specs[0].shape)
    for descs in _alike(specs):
        try:
            primitive = Primitive.of("concat", None, len(descs), axis, descs)
        except KernelUnavailable:
            continue
        operands: dict[Argument, Operand] = {Argument.DST: output()}
        for index in range(len(descs)):
            operands[cast("Argument", Argument.MULTIPLE_SRC + index)] = input_(index)
        kernel = PrimitiveKernel("concat", request, (primitive, operands))
        kernel.parts = _parts(descs, primitive.desc(Argument.DST), axis)
        return kernel
    return None


def _parts(
    sources: tuple[MemoryDesc, ...], target: MemoryDesc, axis: int
) -> tuple[int, ...] | None:
    """Return the offset of each source in the target, in bytes.

    None if a source is not contiguous there: an axis before has more than one element, or the
    layout is neither C order nor in blocks of channels that all are full.
    """
    if math.prod(target.dims[:axis]) != 1:
        return None
    descs = (*sources, target)
    if not all(desc == plain(desc.dims) for desc in descs):
        is_blocked = len(target.dims) == 4 and all(
            desc.dims[1] % _BLOCK == 0 and desc == blocked(desc.dims) for desc in descs
        )
        if not is_blocked or axis != 1:
            return None
    ends = itertools.accumulate(desc.nbytes for desc in sources)
    return (0, *ends)[: len(sources)]


def _alike(specs: list[TensorSpec]) -> Iterator[tuple[MemoryDesc, ...]]:
    """Yield layouts for the inputs of a concatenation, those that need the fewest copies first."""
    descs = tuple(desc_of(spec) for spec in specs)
    if len({spec.layout is None for spec in specs}) == 1:
        yield descs
    if len(specs[0].shape) > 2:
        last = tuple(channels_last(spec.shape) for spec in specs)
        if any(spec.layout is not None for spec in specs):
            yield last
    yield tuple(plain(spec.shape) for spec in specs)


def _common(specs: list[TensorSpec]) -> MemoryDesc:
    """Return the first layout that is not plain."""
    blocked = (spec for spec in specs if spec.layout is not None)
    return desc_of(next(blocked, specs[0]))
