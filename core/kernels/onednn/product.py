"""Matrix products: ``dot`` and ``batch_dot``; transposes are expressed by strides."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from ...capabilities import arrays
from ...types import Shape
from ..kernel import Kernel, KernelArrays, KernelLayouts, KernelRequest, KernelResources
from .constants import Argument, DataType
from .kernel import Operand, are_float32, in_grad, input_, multiplied_type, out_grad, output
from .memory import MemoryDesc, layout_of, plain, strided
from .primitive import Primitive, in_turn, launch, scratchpad_bytes

__all__ = ["product", "product_backward", "sizes_of"]


class _Matrix(NamedTuple):
    """A stack of matrices: sizes (batch, rows, columns), and whether it is transposed, so that
    memory holds (batch, columns, rows)."""

    operand: Operand
    shape: tuple[int, int, int]
    is_transposed: bool

    def transposed(self) -> _Matrix:
        """Return the transposed view of the same memory."""
        batch, rows, columns = self.shape
        return _Matrix(self.operand, (batch, columns, rows), not self.is_transposed)

    def at(self, operand: Operand) -> _Matrix:
        """Return a stack of the same form in another tensor."""
        return self._replace(operand=operand)

    def desc(self, kind: DataType = DataType.FLOAT32) -> MemoryDesc:
        """Return the descriptor of the stack."""
        _, rows, columns = self.shape
        strides = (1, rows) if self.is_transposed else (columns, 1)
        return strided(self.shape, (rows * columns, *strides), kind)


Product = tuple[_Matrix, _Matrix, _Matrix]
"""Left operand, right operand and target."""


class _Products(Kernel):
    """A sequence of matrix products."""

    inplace = ()
    uses_scratch = False

    def __init__(self, name: str, request: KernelRequest[object], products: list[Product]) -> None:
        self.name = f"onednn:{name}"
        self._products = [_upright(one) for one in products]
        kind = multiplied_type(request)
        self._primitives = [
            Primitive.of("matmul", left.desc(kind), right.desc(kind), None, target.desc())
            for left, right, target in self._products
        ]
        if kind != DataType.FLOAT32:
            specs = (spec for spec in request.inputs if spec is not None)
            self.layouts = KernelLayouts(
                inputs=tuple(layout_of(plain(spec.shape, kind)) for spec in specs), outputs=(None,)
            )
        self.scratchpad_bytes = scratchpad_bytes(*self._primitives)
        if request.is_backward:
            operands = {one.operand for left, right, _ in self._products for one in (left, right)}
            inputs = (one.index for one in operands if one.field == "inputs")
            self.backward_inputs = tuple(sorted(inputs))
            self.backward_outputs = ()

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], Any]:
        """Return a closure that computes all products."""
        launches = [
            launch(
                primitive,
                {
                    Argument.SRC: left.operand.of(arrays),
                    Argument.WEIGHTS: right.operand.of(arrays),
                    Argument.DST: target.operand.of(arrays),
                },
                resources,
            )
            for primitive, (left, right, target) in zip(
                self._primitives, self._products, strict=True
            )
        ]
        return in_turn(launches)


def product(request: KernelRequest[arrays.MatMul]) -> Kernel | None:
    """Prepare the forward pass."""
    if not are_float32(request):
        return None
    left, right, out = _matrices(request)
    return _Products("product", request, [(left, right, out)])


def sizes_of(request: KernelRequest[arrays.MatMul]) -> tuple[int, int, int, int]:
    """Return how many products there are; rows, length summed over and columns of each."""
    left, right, _ = _matrices(request)
    return *left.shape, right.shape[2]


def product_backward(request: KernelRequest[arrays.MatMul]) -> Kernel | None:
    """Prepare the requested gradients."""
    if not are_float32(request):
        return None
    left, right, out = _matrices(request)
    grad = out.at(out_grad())
    wanted: list[Product] = []
    if request.in_grads[0] is not None:
        wanted.append((grad, right.transposed(), left.at(in_grad(0))))
    if request.in_grads[1] is not None:
        wanted.append((left.transposed(), grad, right.at(in_grad(1))))
    return _Products("product_backward", request, wanted)


def _matrices(request: KernelRequest[arrays.MatMul]) -> Product:
    operator, (lhs, rhs) = request.operator, request.inputs[:2]
    assert lhs is not None
    assert rhs is not None
    of = _stack if operator.is_batched else _flat
    left = of(input_(0), lhs.shape, operator.transpose_a, inner_is_last=True)
    right = of(input_(1), rhs.shape, operator.transpose_b, inner_is_last=False)
    shape = (left.shape[0], left.shape[1], right.shape[2])
    return left, right, _Matrix(output(), shape, is_transposed=False)


def _stack(operand: Operand, shape: Shape, transpose: bool, *, inner_is_last: bool) -> _Matrix:
    """Return the stack of matrices in the last two axes."""
    matrix = _Matrix(operand, (math.prod(shape[:-2]), shape[-2], shape[-1]), is_transposed=False)
    return matrix.transposed() if transpose else matrix


def _flat(operand: Operand, shape: Shape, transpose: bool, *, inner_is_last: bool) -> _Matrix:
    """Return a tensor as one matrix: the axis to sum over, and all others joined."""
    if inner_is_last is not transpose:
        sizes = (math.prod(shape[:-1]), shape[-1])
    else:
        sizes = (shape[0], math.prod(shape[1:]))
    matrix = _Matrix(operand, (1, *sizes), is_transposed=False)
    return matrix.transposed() if transpose else matrix


def _upright(product: Product) -> Product:
    """Return an equivalent product whose target is not transposed."""
    left, right, target = product
    if not target.is_transposed:
        return product
    # (A B)^T = B^T A^T; oneDNN has only slow reference code for transposed targets.
    return right.transposed(), left.transposed(), target.transposed()
