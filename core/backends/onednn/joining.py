"""Sums and concatenations, in the layout of their first input."""

from __future__ import annotations

from typing import cast

from core.backends.kernels import Kernel, KernelRequest, TensorSpec
from core.backends.onednn.constants import Algorithm, Argument
from core.backends.onednn.kernel import Operand, PrimitiveKernel, are_float32, input_, output
from core.backends.onednn.memory import MemoryDesc, desc_of, plain
from core.backends.onednn.primitive import Primitive

__all__ = ["addition", "concatenation"]


def addition(request: KernelRequest) -> Kernel | None:
    """Prepare the sum of two tensors of equal shapes."""
    specs = [spec for spec in request.inputs if spec is not None]
    if not are_float32(request) or len({spec.shape for spec in specs}) > 1:
        return None
    desc = _common(specs)
    primitive = Primitive.of("binary", Algorithm.BINARY_ADD, desc, desc, desc)
    operands = {Argument.SRC: input_(0), Argument.SRC_1: input_(1), Argument.DST: output()}
    return PrimitiveKernel("add", request, (primitive, operands))


def concatenation(request: KernelRequest) -> Kernel | None:
    """Prepare the concatenation, where the inputs' layouts allow it."""
    specs = [spec for spec in request.inputs if spec is not None]
    if not are_float32(request):
        return None
    axis = request.operator.dim % len(specs[0].shape)
    descs = tuple(desc_of(spec) for spec in specs)
    if len({spec.layout is None for spec in specs}) > 1:
        descs = tuple(plain(spec.shape) for spec in specs)
    primitive = Primitive.of("concat", None, len(descs), axis, descs)
    operands: dict[Argument, Operand] = {Argument.DST: output()}
    for index in range(len(descs)):
        operands[cast("Argument", Argument.MULTIPLE_SRC + index)] = input_(index)
    return PrimitiveKernel("concat", request, (primitive, operands))


def _common(specs: list[TensorSpec]) -> MemoryDesc:
    """Return the first layout that is not plain."""
    blocked = (spec for spec in specs if spec.layout is not None)
    return desc_of(next(blocked, specs[0]))
