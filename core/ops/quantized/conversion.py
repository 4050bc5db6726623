"""Conversion of floats to bytes and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ...capabilities import quantized as kinds
from ...capabilities.kinds import implements
from ...errors import TypeInferenceError
from ...types import Array, DType, to_dtype
from ..attributes import attribute
from ..operator import Run
from ..registry import declares_attributes, register
from .base import (
    FLOAT32,
    INT8,
    INT32,
    STEPS,
    UINT8,
    WHOLE_STEPS,
    Calibrated,
    Quantized,
    calibration,
    reach,
    steps_per_unit,
    write_rounded,
)

__all__ = ["Dequantize", "Quantize", "QuantizeV2", "Requantize"]


@declares_attributes
class _Conversion(Quantized):
    """Base of operators that only change the dtype."""

    def range_names(self) -> tuple[str, ...]:
        return ("min_range", "max_range")

    def output_names(self) -> tuple[str, ...]:
        return ("output0", "output1", "output2")


def _write_bytes(
    run: Run, numbers: Array, unit: Any, steps: Mapping[DType, float], outputs: Sequence[Array]
) -> None:
    """Write numbers, in units of ``unit``, as bytes for the range in the outputs; for int8, make
    this range symmetric."""
    out, *ends = outputs
    scaled = run.scratch(numbers.shape, FLOAT32)
    run.xp.multiply(
        numbers, unit * steps_per_unit(run, out.dtype, ends[0], ends[1], steps), out=scaled
    )
    write_rounded(run, scaled, out)
    if out.dtype == INT8:
        furthest = reach(run, *ends)
        run.xp.copyto(ends[0], -furthest)
        run.xp.copyto(ends[1], furthest)


def _write_extremes(run: Run, numbers: Array, unit: Any, outputs: Sequence[Array]) -> None:
    """Write the range of numbers, in units of ``unit``."""
    run.xp.multiply(numbers.min().reshape(1), unit, out=outputs[1])
    run.xp.multiply(numbers.max().reshape(1), unit, out=outputs[2])


@register("_contrib_quantize")
class Quantize(_Conversion):
    """Convert float32 to bytes, clipped to the given range.

    The end with the larger magnitude becomes 127 (or -127) or 255, and 0 stays 0. Negative numbers
    become 0 in ``uint8``. Outputs: the bytes, and the smallest and the largest number that they
    represent.
    """

    out_type: str = attribute("uint8", choices=("int8", "uint8"), doc="dtype of the output")

    def infer_tensor_dtypes(
        self, tensors: list[DType | None], output: DType | None
    ) -> tuple[list[DType | None], DType | None]:
        data = self.expect_dtype("data", tensors[0], FLOAT32)
        return [data], self.expect_dtype("output0", output, to_dtype(self.out_type))

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        for source, target in zip(inputs[1:], outputs[1:], strict=True):
            run.xp.copyto(target, source)
        _write_bytes(run, inputs[0], 1.0, WHOLE_STEPS, outputs)


@declares_attributes
class _Ranging(Calibrated, _Conversion):
    """Base of operators that compute the range of their data if it is not known from
    calibration."""

    out_type: str = attribute("int8", choices=("auto", "int8", "uint8"), doc="dtype of the output")
    min_calib_range: float | None = calibration("smallest")
    max_calib_range: float | None = calibration("largest")

    keeps_low: ClassVar[bool] = True
    """False if the range of uint8 always begins at 0, for kernels."""

    @property
    def target(self) -> DType:
        """Dtype of the output."""
        return self.bytes_by_range() if self.out_type == "auto" else to_dtype(self.out_type)


@register("_contrib_quantize_v2")
@implements(kinds.QUANTIZATION)
class QuantizeV2(_Ranging):
    """Convert float32 to bytes, with the range from calibration or else that of the data.

    ``auto`` is uint8 if nothing in the known range is below 0, else int8. Data of bytes is copied;
    without a known range, its bytes represent their own values.
    """

    def keeps_features(self) -> bool:
        return True

    def range_names(self) -> tuple[str, ...]:
        return ()

    def infer_tensor_dtypes(
        self, tensors: list[DType | None], output: DType | None
    ) -> tuple[list[DType | None], DType | None]:
        data = tensors[0]
        if data is not None and data not in (FLOAT32, self.target):
            raise TypeInferenceError(
                f"data has dtype {data}; expected float32, or {self.target} like the output "
                f"(out_type is {self.out_type!r})"
            )
        return [data], self.expect_dtype("output0", output, self.target)

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        data = inputs[0]
        if data.dtype == outputs[0].dtype:
            self._pass_bytes(run, data, outputs)
            return
        if self.is_calibrated:
            self.write_calibrated(run, outputs)
        else:
            _write_extremes(run, data, 1.0, outputs)
        _write_bytes(run, data, 1.0, STEPS, outputs)

    def _pass_bytes(self, run: Run, data: Array, outputs: Sequence[Array]) -> None:
        run.xp.copyto(outputs[0], data)
        if self.is_calibrated:
            self.write_calibrated(run, outputs)
            return
        steps = STEPS[data.dtype]
        run.xp.copyto(outputs[1], 0 if data.dtype == UINT8 else -steps)
        run.xp.copyto(outputs[2], steps)


@register("_contrib_dequantize")
@implements(kinds.DEQUANTIZATION)
class Dequantize(_Conversion):
    """Convert bytes to the numbers that they represent, float32."""

    out_type: str = attribute("float32", choices=("float32",), doc="dtype of the output")

    def output_names(self) -> tuple[str, ...]:
        return ("output",)

    def infer_tensor_dtypes(
        self, tensors: list[DType | None], output: DType | None
    ) -> tuple[list[DType | None], DType | None]:
        data = self.expect_bytes("data", tensors[0])
        return [data], self.expect_dtype("output", output, FLOAT32)

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        data, low, high = inputs
        run.xp.multiply(data, reach(run, low, high) / STEPS[data.dtype], out=outputs[0])


@register("_contrib_requantize")
@implements(kinds.REQUANTIZATION)
class Requantize(_Ranging):
    """Convert int32 sums to bytes, with the range from calibration or else that of the data."""

    keeps_low: ClassVar[bool] = False
    steps: ClassVar[Mapping[DType, float]] = WHOLE_STEPS

    def infer_tensor_dtypes(
        self, tensors: list[DType | None], output: DType | None
    ) -> tuple[list[DType | None], DType | None]:
        data = self.expect_dtype("data", tensors[0], INT32)
        return [data], self.expect_dtype("output0", output, self.target)

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        data, low, high = inputs
        unit = reach(run, low, high) / STEPS[INT32]
        if self.is_calibrated:
            self.write_calibrated(run, outputs)
        else:
            _write_extremes(run, data, unit, outputs)
        _write_bytes(run, data, unit, WHOLE_STEPS, outputs)
        if outputs[0].dtype == UINT8:
            run.xp.copyto(outputs[2], reach(run, *outputs[1:]))
            run.xp.copyto(outputs[1], 0)
