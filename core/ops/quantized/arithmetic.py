"""Addition, multiplication and batch normalization of bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from ...capabilities import quantized as kinds
from ...capabilities.kinds import implements
from ...errors import AttributeValueError
from ...types import Array, DType, Shape
from ..attributes import attribute
from ..operator import Run
from ..registry import declares_attributes, register
from .base import (
    FLOAT32,
    INT8,
    INT32,
    STEPS,
    UINT8,
    Calibrated,
    Quantized,
    calibration,
    product_reach,
    reach,
    steps_per_unit,
    write_rounded,
)

__all__ = ["QuantizedAdd", "QuantizedBatchNorm", "QuantizedMultiply"]

_FLOAT64 = np.dtype("float64")


@declares_attributes
class _Pair(Calibrated, Quantized):
    """Base of operators on two tensors of equal shape."""

    min_calib_range: float | None = calibration("smallest")
    max_calib_range: float | None = calibration("largest")

    def tensor_names(self) -> tuple[str, ...]:
        return ("lhs", "rhs")

    def range_names(self) -> tuple[str, ...]:
        return ("lhs_min", "lhs_max", "rhs_min", "rhs_max")

    def infer_tensor_shapes(
        self, tensors: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        common = self.expect("lhs", tensors[0], outputs[0])
        common = self.expect("rhs", tensors[1], common)
        return [common, common], [common]


@register("_contrib_quantized_elemwise_add")
@implements(kinds.SUMMING_ADDITION)
class QuantizedAdd(_Pair):
    """Sum of two tensors of bytes, each with its own range.

    If the output's range is known, the sum is uint8 if both inputs are, else int8. Otherwise it is
    int32, with the largest range that the sum can have.
    """

    has_sums: ClassVar[bool] = True

    def infer_tensor_dtypes(
        self, tensors: list[DType | None], output: DType | None
    ) -> tuple[list[DType | None], DType | None]:
        names = self.tensor_names()
        found = [self.expect_bytes(*pair) for pair in zip(names, tensors, strict=True)]
        if not self.is_calibrated:
            output = self.expect_dtype("output", output, INT32)
        elif INT8 in found:
            output = self.expect_dtype("output", output, INT8)
        elif None not in found:
            output = self.expect_dtype("output", output, UINT8)
        return found, output

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        xp, dtype = run.xp, outputs[0].dtype
        if self.is_calibrated:
            self.write_calibrated(run, outputs)
        else:
            furthest = reach(run, *inputs[2:4]) + reach(run, *inputs[4:6])
            xp.copyto(outputs[1], -furthest)
            xp.copyto(outputs[2], furthest)
        per_unit = steps_per_unit(run, dtype, *outputs[1:])
        first, second = (
            self._scaled(run, tensor, per_unit, ends)
            for tensor, ends in ((inputs[0], inputs[2:4]), (inputs[1], inputs[4:6]))
        )
        if self.is_calibrated and inputs[0].dtype != inputs[1].dtype:
            # oneDNN converts the first tensor to the output dtype, rounding it, before it adds the
            # second.
            write_rounded(run, first, outputs[0])
            xp.copyto(first, outputs[0])
        first += second
        write_rounded(run, first, outputs[0])

    def _scaled(self, run: Run, tensor: Array, per_unit: Array, ends: Sequence[Array]) -> Array:
        scaled = run.scratch(tensor.shape, _FLOAT64)
        factor = per_unit / steps_per_unit(run, tensor.dtype, *ends)
        run.xp.multiply(tensor, factor, out=scaled)
        return scaled


@register("_contrib_quantized_elemwise_mul")
class QuantizedMultiply(_Pair):
    """Product of two int8 tensors.

    The output is int32 with the largest range that the product can have; or int8, truncated, if the
    range is known; or float32 without ranges, if asked for.
    """

    names_outputs: ClassVar[bool] = True

    has_sums: ClassVar[bool] = True

    enable_float_output: bool = attribute(False, doc="whether the output is float32")

    def output_names(self) -> tuple[str, ...]:
        return ("output",) if self.enable_float_output else super().output_names()

    @property
    def target(self) -> DType:
        """Dtype of the product."""
        if self.enable_float_output:
            return FLOAT32
        return INT8 if self.is_calibrated else INT32

    def infer_tensor_dtypes(
        self, tensors: list[DType | None], output: DType | None
    ) -> tuple[list[DType | None], DType | None]:
        names = self.tensor_names()
        found = [self.expect_dtype(*pair, INT8) for pair in zip(names, tensors, strict=True)]
        return [*found], self.expect_dtype("output", output, self.target)

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        xp, out = run.xp, outputs[0]
        product = run.scratch(out.shape, FLOAT32)
        xp.multiply(inputs[0], inputs[1], out=product, dtype=FLOAT32)
        unit = reach(run, *inputs[2:4]) * reach(run, *inputs[4:6]) / STEPS[INT8] ** 2
        if out.dtype == FLOAT32:
            xp.multiply(product, unit, out=out)
        elif out.dtype == INT8:
            product *= unit * STEPS[INT8] / self.calibrated_reach
            write_rounded(run, xp.trunc(product, out=product), out)
            self.write_calibrated(run, outputs)
        else:
            xp.copyto(out, product, casting="unsafe")
            furthest = product_reach(run, (INT8, INT8), inputs[2:])
            xp.copyto(outputs[1], -furthest)
            xp.copyto(outputs[2], furthest)


@register("_contrib_quantized_batch_norm")
@implements(kinds.BATCH_NORM)
class QuantizedBatchNorm(Calibrated, Quantized):
    """``BatchNorm`` of bytes with the moving averages; the output is int8 within a known range.

    As in MXNet, gamma is used even if it is fixed, and ``eps`` is applied twice: the scale, but not
    the shift by beta and the mean, is divided by ``sqrt(1 + eps)`` once more.
    """

    ignored_attributes: ClassVar[frozenset[str]] = frozenset({"cudnn_off"})

    eps: float = attribute(1e-3, doc="added to the variance")
    momentum: float = attribute(0.9, doc="no effect: the setting of the layer in training")
    fix_gamma: bool = attribute(True, doc="no effect: the setting of the layer in training")
    use_global_stats: bool = attribute(False, doc="no effect: the setting of the layer in training")
    output_mean_var: bool = attribute(False, doc="must be False: both are hidden")
    axis: int = attribute(1, doc="the axis of channels")

    min_calib_range: float | None = calibration("smallest")
    max_calib_range: float | None = calibration("largest")

    def tensor_names(self) -> tuple[str, ...]:
        return ("data", "gamma", "beta", "moving_mean", "moving_var")

    def range_names(self) -> tuple[str, ...]:
        return ("min_data", "max_data")

    def auxiliary_names(self) -> tuple[str, ...]:
        return ("moving_mean", "moving_var")

    def infer_tensor_shapes(
        self, tensors: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data = self.expect("data", tensors[0], outputs[0])
        if data is None or len(data) < 2:
            return [data, *tensors[1:]], [data]
        names = self.tensor_names()[1:]
        vectors = [
            self.expect(name, shape, data[1:2])
            for name, shape in zip(names, tensors[1:], strict=True)
        ]
        return [data, *vectors], [data]

    def infer_tensor_dtypes(
        self, tensors: list[DType | None], output: DType | None
    ) -> tuple[list[DType | None], DType | None]:
        self._check()
        data = self.expect_bytes("data", tensors[0])
        names = self.tensor_names()[1:]
        rest = [self.expect_dtype(*pair, FLOAT32) for pair in zip(names, tensors[1:], strict=True)]
        return [data, *rest], self.expect_dtype("output", output, INT8)

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        data, gamma, beta, mean, variance, low, high = inputs
        column = (-1, *(1 for _ in data.shape[2:]))
        scale = gamma / run.xp.sqrt(variance + np.float32(self.eps))
        per_unit = STEPS[INT8] / self.calibrated_reach
        shift = (beta - mean * scale) * per_unit
        scale = scale * per_unit / steps_per_unit(run, INT8, low, high)
        scale /= np.sqrt(np.float32(1 + self.eps))
        normed = run.scratch(data.shape, FLOAT32)
        self._write_signed(run, data, normed)
        normed *= scale.reshape(column)
        normed += shift.reshape(column)
        write_rounded(run, normed, outputs[0])
        self.write_calibrated(run, outputs)

    def _write_signed(self, run: Run, data: Array, numbers: Array) -> None:
        """Write data as int8 numbers; uint8 is rescaled to the range of int8."""
        if data.dtype == INT8:
            run.xp.copyto(numbers, data)
            return
        run.xp.multiply(data, np.float32(STEPS[INT8] / STEPS[UINT8]), out=numbers)
        run.xp.rint(numbers, out=numbers)

    def _check(self) -> None:
        if not self.is_calibrated:
            raise AttributeValueError(
                "min_calib_range and max_calib_range are missing; a batch norm of bytes needs "
                "them: quantize with a calib_mode other than 'none'"
            )
        if self.output_mean_var:
            raise AttributeValueError(
                "output_mean_var is True; a batch norm of bytes does not return them"
            )
        if self.axis != 1:
            raise AttributeValueError(f"axis is {self.axis}; expected 1 in a batch norm of bytes")
