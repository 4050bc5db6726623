"""Elementwise operators that have attributes or more than two inputs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from ..capabilities import arrays as kinds
from ..capabilities.functions import Function, Pointwise
from ..capabilities.kinds import implements
from ..types import Array, is_floating
from .attributes import attribute
from .derivatives import Functions, Tensor
from .operator import Operator, Reads, Run
from .registry import register
from .sparse_elementwise import sum_of_rows_kernel
from .sparse_kernel import SparseKernel
from .storage_rules import of_first

__all__ = ["AddN", "Clip", "DivSqrtDim", "HardSigmoid"]


@register("clip", "_npi_clip", "_sparse_clip")
@implements(kinds.POINTWISE)
class Clip(Operator):
    """Limit elements to the range from ``a_min`` to ``a_max``; outside of it the gradient is 0.

    If ``a_min`` is the larger one, elements above ``a_max`` become ``a_max``, all others ``a_min``.
    """

    a_min: float = attribute(doc="smallest value")
    a_max: float = attribute(doc="largest value")

    def output_storage(self, inputs: Sequence[str]) -> str:
        return of_first(inputs)

    def pointwise(self) -> Pointwise | None:
        is_range = self.a_min <= self.a_max
        return Pointwise(Function.CLIP, self.a_min, self.a_max) if is_range else None

    def is_elementwise(self) -> bool:
        return True

    def backward_reads(self) -> Reads:
        return Reads(inputs=(0,))

    def inplace_forward(self) -> tuple[tuple[int, int], ...]:
        return ((0, 0),)

    def inplace_backward(self) -> tuple[tuple[int, int], ...]:
        return ((0, 0),)

    def derivative(
        self,
        f: Functions,
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        out_grads: Sequence[Tensor],
    ) -> Sequence[Tensor | None] | None:
        x, dy = inputs[0], out_grads[0]
        return [dy * (x >= self.a_min) * (x <= self.a_max)]

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        x, y = inputs[0], outputs[0]
        if self.a_min > self.a_max:
            self._choose_bound(run, x, y)
            return
        if x.dtype.kind == "f":
            run.xp.clip(x, self.a_min, self.a_max, out=y)
            return
        run.xp.maximum(x, self.a_min, out=y, casting="unsafe")
        run.xp.minimum(y, self.a_max, out=y, casting="unsafe")

    def _choose_bound(self, run: Run, x: Array, y: Array) -> None:
        """Write ``a_max`` for what is above it, ``a_min`` for all others but NaN."""
        is_below, is_above = run.scratch(x.shape, "bool"), run.scratch(x.shape, "bool")
        run.xp.greater(x, self.a_max, out=is_above)
        run.xp.less_equal(x, self.a_max, out=is_below)
        run.xp.copyto(y, x)
        run.xp.copyto(y, self.a_min, where=is_below, casting="unsafe")
        run.xp.copyto(y, self.a_max, where=is_above, casting="unsafe")

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        x = inputs[0]
        outside, above = run.scratch(x.shape, "bool"), run.scratch(x.shape, "bool")
        run.xp.less(x, self.a_min, out=outside)
        run.xp.greater(x, self.a_max, out=above)
        outside |= above
        # Selected, not multiplied by 0: a NaN in the incoming gradient must not reach clipped
        # elements.
        run.xp.copyto(in_grads[0], out_grads[0])
        run.xp.copyto(in_grads[0], 0, where=outside)


@register("hard_sigmoid")
class HardSigmoid(Operator):
    """``alpha * x + beta``, clipped to [0, 1], for each element of floating-point data."""

    alpha: float = attribute(default=0.2, doc="slope")
    beta: float = attribute(default=0.5, doc="value at 0")

    def is_elementwise(self) -> bool:
        return True

    def backward_reads(self) -> Reads:
        return Reads(outputs=(0,))

    def inplace_forward(self) -> tuple[tuple[int, int], ...]:
        return ((0, 0),)

    def inplace_backward(self) -> tuple[tuple[int, int], ...]:
        return ((0, 0),)

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        y = outputs[0]
        run.xp.multiply(inputs[0], self.alpha, out=y)
        y += self.beta
        run.xp.clip(y, 0, 1, out=y)

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        y, dx = outputs[0], in_grads[0]
        inside, below = run.scratch(y.shape, "bool"), run.scratch(y.shape, "bool")
        run.xp.greater(y, 0, out=inside)
        run.xp.less(y, 1, out=below)
        inside &= below
        run.xp.logical_not(inside, out=inside)
        run.xp.multiply(out_grads[0], self.alpha, out=dx)
        # Selected, not multiplied by 0, as in Clip.
        run.xp.copyto(dx, 0, where=inside)


@register("_contrib_div_sqrt_dim")
class DivSqrtDim(Operator):
    """The data divided by the square root of its last dimension, as attention scores are.

    Integers are divided by the whole part of the root.
    """

    def backward_reads(self) -> Reads:
        return Reads()

    def inplace_forward(self) -> tuple[tuple[int, int], ...]:
        return ((0, 0),)

    def inplace_backward(self) -> tuple[tuple[int, int], ...]:
        return ((0, 0),)

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        root = math.sqrt(inputs[0].shape[-1])
        if not is_floating(inputs[0].dtype):
            root = math.floor(root)
        run.xp.divide(inputs[0], root, out=outputs[0], casting="unsafe")

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        self.forward(run, out_grads, in_grads)


@register("add_n", "ElementWiseSum", "_sparse_add_n", "_sparse_ElementWiseSum")
@implements(kinds.ADDITION)
class AddN(Operator):
    """The sum of ``num_args`` arrays of one shape and dtype, added in order."""

    is_linear: ClassVar[bool] = True

    variadic = "num_args"

    num_args: int = attribute(minimum=1, doc="number of inputs")

    def output_storage(self, inputs: Sequence[str]) -> str:
        return "row_sparse" if set(inputs) == {"row_sparse"} else "default"

    def sparse_kernel(self, inputs: Sequence[str]) -> SparseKernel | None:
        return sum_of_rows_kernel(inputs)

    def input_names(self) -> tuple[str, ...]:
        return tuple(f"arg{i}" for i in range(self.num_args))

    def is_elementwise(self) -> bool:
        return True

    def backward_reads(self) -> Reads:
        return Reads()

    def inplace_forward(self) -> tuple[tuple[int, int], ...]:
        return ((0, 0),)

    def inplace_backward(self) -> tuple[tuple[int, int], ...]:
        return ((0, 0),)

    def passes_gradient(self) -> tuple[tuple[int, int], ...]:
        return tuple((0, i) for i in range(self.num_args))

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        y = outputs[0]
        if len(inputs) == 1:
            run.xp.copyto(y, inputs[0])
            return
        run.xp.add(inputs[0], inputs[1], out=y)
        for x in inputs[2:]:
            y += x

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        for dx in in_grads:
            if dx is not None:
                run.xp.copyto(dx, out_grads[0])
