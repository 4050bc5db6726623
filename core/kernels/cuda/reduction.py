"""Sums, means, products, extremes and lengths over some axes."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np

from ...capabilities.arrays import Reducing
from ...capabilities.functions import Reduction
from ...types import Array, Shape, shape_size
from ..kernel import Kernel, KernelArrays, KernelRequest, KernelResources, TensorSpec
from .kernel import CudaKernel, element_macros, present, storage_type
from .launch import Call, call, divisor, function, grid_of, in_turn

__all__ = ["Reduced", "reduction", "reduction_backward"]

_CLASSES = {
    Reduction.LENGTH: "Length",
    Reduction.MAXIMUM: "Maximum",
    Reduction.MEAN: "Sum",
    Reduction.MINIMUM: "Minimum",
    Reduction.PRODUCT: "Product",
    Reduction.SUM: "Sum",
}
"""Names in ``reduction.cu``."""

_WARP, _WARPS = 32, 8
_MAX_OF_WARP = 512
"""Most elements of a result that a warp reduces by itself."""

_PART_OF_ROW, _PART_OF_COLUMN, _MAX_PARTS, _WANTED_BLOCKS = 4096, 64, 64, 2048

_VIEW = np.dtype(
    [
        *((name, "<i8") for name in ("k0", "k1", "count", "each")),
        *((name, divisor(1).dtype) for name in ("r1", "by_k1", "by_k0")),
    ]
)
"""``View`` of ``reduction.cu``."""


@dataclasses.dataclass(frozen=True, slots=True)
class Reduced:
    """Data as (r0, k0, r1, k1), of which the first and third axis are reduced."""

    r0: int
    k0: int
    r1: int
    k1: int
    kind: str
    wide: bool

    @classmethod
    def of(cls, kind: str, data: TensorSpec, axes: Shape) -> Reduced | None:
        """Return the view of data; None if its axes are of more groups."""
        groups = [
            (key, shape_size(tuple(size for _, size in group)))
            for key, group in itertools.groupby(
                ((axis in axes, size) for axis, size in enumerate(data.shape) if size > 1),
                key=lambda pair: pair[0],
            )
        ]
        found = [1, 1, 1, 1]
        position = 0
        for is_reduced, size in groups:
            position += (position % 2 == 0) != is_reduced
            if position > 3:
                return None
            found[position] = size
            position += 1
        r0, k0, r1, k1 = found
        if r1 == 1 and k1 == 1 and r0 > 1:  # the kept elements of a row lie side by side
            k0, r1, k1, r0 = 1, r0, k0, 1
        return cls(r0, k0, r1, k1, kind, "WIDE" in element_macros(kind, data))

    @property
    def results(self) -> int:
        """Number of results."""
        return self.k0 * self.k1

    @property
    def count(self) -> int:
        """Number of elements of each result."""
        return self.r0 * self.r1

    @property
    def blocks(self) -> int:
        """Blocks of a part of all results."""
        return self.k0 * -(-self.k1 // _WARP)

    @property
    def each(self) -> int:
        """Number of elements in a part of a result."""
        least = _PART_OF_ROW if self.k1 == 1 else _PART_OF_COLUMN
        parts = min(self.count // least, _MAX_PARTS, _WANTED_BLOCKS // self.blocks)
        return -(-self.count // max(parts, 1))

    @property
    def parts(self) -> int:
        """Number of parts of a result."""
        return -(-self.count // self.each)

    @property
    def scratchpad_bytes(self) -> int:
        """Memory for the parts."""
        return 4 * self.parts * self.results if self.parts > 1 else 0

    def function(self, name: str, reduce: str, term: str = "ALONE") -> Any:
        """Return a function of ``reduction.cu``."""
        macros = (f"T={self.kind}", f"REDUCE={reduce}", f"TERM={term}")
        return function("reduction.cu", name, *macros, *(("WIDE",) if self.wide else ()))

    def view(self) -> Array:
        """Return ``View`` of ``reduction.cu``."""
        numbers = (self.k0, self.k1, self.count, self.each)
        divisors = (divisor(number)[()] for number in (self.r1, self.k1, self.k0))
        return np.array((*numbers, *divisors), _VIEW)

    def forward(
        self,
        data: Array,
        out: Array,
        scratchpad: Array | None,
        *,
        reduce: str = "Sum",
        factor: float = 1.0,
        term: str = "ALONE",
        other: Array | None = None,
        squared: Array | None = None,
    ) -> Call:
        """Return a call that writes the results.

        Args:
            data, out: the tensors.
            scratchpad: of ``scratchpad_bytes``.
            reduce: a class of ``reduction.cu``.
            factor: of sums.
            term: ``"PRODUCT"`` or ``"QUOTIENT"`` to reduce that of the data and ``other``.
            other: a tensor of the data's shape.
            squared: a tensor of the results' shape, by whose negated square they are divided.
        """
        end = (factor, squared)
        view = self.view()
        if self.k1 == 1 and self.count <= _MAX_OF_WARP:
            compute = self.function("reduce_short_rows", reduce, term)
            return call(compute, -(-self.results // _WARPS), data, other, out, view, *end)
        parts = scratchpad if self.parts > 1 else None
        name = "reduce_rows" if self.k1 == 1 else "reduce_columns"
        compute = self.function(name, reduce, term)
        first = call(compute, (self.blocks, self.parts), data, other, out, parts, view, *end)
        if parts is None:
            return first
        join = self.function("reduce_parts", reduce, term)
        results, count = self.results, np.int32(self.parts)
        return in_turn([first, call(join, grid_of(results), parts, count, results, out, *end)])

    def backward(
        self,
        operands: tuple[Array | None, Array | None, Array, Array],
        *,
        reduce: str = "Sum",
        factor: float = 1.0,
    ) -> Call:
        """Return a call that writes the gradient of the data.

        Args:
            operands: data and results, or None, gradient of the results, and of the data.
            reduce, factor: as for ``forward``.
        """
        size = self.results * self.count
        compute = self.function("reduce_backward", reduce)
        return call(compute, grid_of(size), size, *operands, self.view(), factor)


def reduction(request: KernelRequest[Reducing]) -> Kernel | None:
    """Prepare the forward pass."""
    operator, data = request.operator, request.inputs[0]
    known, kind = operator.reduction(), storage_type(data, request.outputs[0])
    if known is None or kind is None or data is None:
        return None
    reduced = Reduced.of(kind, data, operator.axes(len(data.shape)))
    if reduced is None:
        return None

    def bind(arrays: KernelArrays, resources: KernelResources) -> Call:
        return reduced.forward(
            present(arrays.inputs[0]),
            present(arrays.outputs[0]),
            resources.scratchpad,
            reduce=_CLASSES[known],
            factor=_factor(known, reduced),
        )

    return CudaKernel("reduction", bind, scratchpad_bytes=reduced.scratchpad_bytes)


def reduction_backward(request: KernelRequest[Reducing]) -> Kernel | None:
    """Prepare the backward pass."""
    operator, data = request.operator, request.inputs[0]
    kind = storage_type(data, request.outputs[0], request.out_grads[0], request.in_grads[0])
    known = operator.reduction()
    if known is None or kind is None or data is None or request.in_grads[0] is None:
        return None
    reduced = Reduced.of(kind, data, operator.axes(len(data.shape)))
    if reduced is None:
        return None
    is_linear = known in (Reduction.SUM, Reduction.MEAN)

    def bind(arrays: KernelArrays, resources: KernelResources) -> Call:
        seen = (None, None) if is_linear else (arrays.inputs[0], arrays.outputs[0])
        grads = present(arrays.out_grads[0]), present(arrays.in_grads[0])
        factor = _factor(known, reduced)
        return reduced.backward((*seen, *grads), reduce=_CLASSES[known], factor=factor)

    read = () if is_linear else (0,)
    return CudaKernel("reduction_backward", bind, backward_inputs=read, backward_outputs=read)


def _factor(known: Reduction, reduced: Reduced) -> float:
    return 1 / reduced.count if known is Reduction.MEAN else 1.0
