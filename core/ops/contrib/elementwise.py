"""Elementwise functions, some of them with a modified gradient: scaled, or passed straight
through."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...types import Array, DType, Shape, is_floating, merge_dtypes
from ..attributes import attribute
from ..elemwise_unary import round_half_away, sign
from ..operator import Operator, Reads, Run
from ..registry import register

__all__ = ["AllClose", "GradientMultiplier", "Quadratic", "StraightRound", "StraightSign"]

_UINT8 = np.dtype("uint8")


class _Elementwise(Operator):
    """Base."""

    def backward_reads(self) -> Reads:
        return Reads()

    def inplace_forward(self) -> tuple[tuple[int, int], ...]:
        return ((0, 0),)

    def inplace_backward(self) -> tuple[tuple[int, int], ...]:
        return ((0, 0),)


class _Straight(_Elementwise):
    """Base: the gradient passes as if the function were the identity (arXiv:1308.3432)."""

    def passes_gradient(self) -> tuple[tuple[int, int], ...]:
        return ((0, 0),)

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        run.xp.copyto(in_grads[0], out_grads[0])


@register("_contrib_round_ste", "_sparse__contrib_round_ste")
class StraightRound(_Straight):
    """Round to the nearest integer, halves away from zero, in data's dtype; the gradient passes
    unchanged."""

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        if is_floating(inputs[0].dtype):
            round_half_away(run, inputs[0], outputs[0])
        else:
            run.xp.copyto(outputs[0], inputs[0])


@register("_contrib_sign_ste", "_sparse__contrib_sign_ste")
class StraightSign(_Straight):
    """-1, 0 or 1 (0 for NaN); the gradient passes unchanged."""

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        sign(run, inputs[0], outputs[0])


@register("_contrib_gradientmultiplier")
class GradientMultiplier(_Elementwise):
    """The data unchanged; the gradient is multiplied by a number (-1: gradient reversal)."""

    ignored_attributes = frozenset({"is_int"})

    scalar: float = attribute(1.0, doc="factor of the gradient")

    def is_identity(self, is_train: bool) -> bool:
        return not is_train

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        run.xp.copyto(outputs[0], inputs[0])

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        dtype = out_grads[0].dtype
        scalar = self.scalar if is_floating(dtype) else int(self.scalar)
        run.xp.multiply(out_grads[0], scalar, out=in_grads[0], casting="unsafe")


@register("_contrib_quadratic")
class Quadratic(_Elementwise):
    """``a * data² + b * data + c``, of data's shape and dtype; integers are truncated."""

    a: float = attribute(0.0, doc="factor of the square")
    b: float = attribute(0.0, doc="factor of the data")
    c: float = attribute(0.0, doc="added")

    def output_storage(self, inputs: Sequence[str]) -> str:
        return "csr" if inputs[0] == "csr" and self.c == 0 else "default"

    def backward_reads(self) -> Reads:
        return Reads(inputs=(0,))

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        data = inputs[0]
        # Horner's scheme; of integers it computes fractions, of which the output keeps the whole
        # part.
        terms = run.scratch(data.shape, data.dtype if is_floating(data.dtype) else "float64")
        run.xp.multiply(data, self.a, out=terms)
        terms += self.b
        terms *= data
        run.xp.add(terms, self.c, out=outputs[0], casting="unsafe")

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        data = inputs[0]
        slope = run.scratch(data.shape, data.dtype if is_floating(data.dtype) else "float64")
        run.xp.multiply(data, 2 * self.a, out=slope)
        slope += self.b
        run.xp.multiply(slope, out_grads[0], out=in_grads[0], casting="unsafe")


@register("_contrib_allclose")
class AllClose(Operator):
    """1 if ``|a - b| <= atol + rtol * |b|`` for all elements, else 0: uint8 ().

    ``a`` and ``b`` have one shape. NaN equals NaN with ``equal_nan``.
    """

    rtol: float = attribute(1e-5, doc="relative tolerance")
    atol: float = attribute(1e-8, doc="absolute tolerance")
    equal_nan: bool = attribute(True, doc="whether NaN equals NaN")

    def input_names(self) -> tuple[str, ...]:
        return ("a", "b")

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        common = self.expect("b", inputs[1], inputs[0])
        return [common, common], [self.expect("output", outputs[0], ())]

    def infer_type(
        self, inputs: list[DType | None], outputs: list[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        common = merge_dtypes(*inputs)
        return [common, common], [self.expect_dtype("output", outputs[0], _UINT8)]

    def backward_reads(self) -> Reads:
        return Reads(out_grads=False)

    def gradient_inputs(self, count: int) -> tuple[int, ...]:
        return ()

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        xp, (a, b) = run.xp, inputs
        outputs[0][...] = xp.allclose(a, b, self.rtol, self.atol, self.equal_nan)
