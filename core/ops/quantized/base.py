"""Base of the operators on bytes: tensors that come with the range of real numbers they represent.

A tensor of int8 or uint8 comes with two arrays of shape (1,), the smallest and the largest number.
The larger of their magnitudes is the reach, and byte ``b`` represents ``b · reach / steps``.
MXNet's kernels disagree on the number of steps: most use ``STEPS``, some ``WHOLE_STEPS``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from ...errors import AttributeValueError, TypeInferenceError
from ...types import Array, DType, Shape
from ..attributes import attribute
from ..operator import Operator, Run
from ..registry import declares_attributes

__all__ = [
    "FLOAT32",
    "INT8",
    "INT32",
    "STEPS",
    "UINT8",
    "WHOLE_STEPS",
    "Calibrated",
    "Quantized",
    "calibration",
    "product_reach",
    "reach",
    "steps_per_unit",
    "write_rounded",
]

FLOAT32, INT8, INT32, UINT8 = map(np.dtype, ("float32", "int8", "int32", "uint8"))

STEPS = {INT8: 127.5, UINT8: 255.5, INT32: float(2**31 - 1)}
"""Number of quantization steps from zero to the end of a range."""

WHOLE_STEPS = {INT8: 127.0, UINT8: 255.0, INT32: float(2**31 - 1)}
"""The same without the half step, as some operators and the ranges of products have it."""

_NEARLY_NOTHING = 1e-30
"""Replaces a reach of 0, to avoid division by zero."""


def reach(run: Run, low: Array, high: Array) -> Any:
    """Return the larger magnitude of a range's ends."""
    return run.xp.maximum(run.xp.abs(low), run.xp.abs(high))


def steps_per_unit(
    run: Run, dtype: DType, low: Array, high: Array, steps: Mapping[DType, float] = STEPS
) -> Any:
    """Return the quantization scale: the factor from a number to its representation in this
    dtype."""
    return steps[dtype] / run.xp.maximum(reach(run, low, high), _NEARLY_NOTHING)


def product_reach(run: Run, dtypes: Sequence[DType], ranges: Sequence[Array]) -> Any:
    """Return the reach that int32 products of two tensors of bytes can have.

    Args:
        run: selects numpy or cupy.
        dtypes: of both tensors.
        ranges: smallest and largest number of the first tensor, then of the second.
    """
    unit = 1.0
    for dtype, low, high in zip(dtypes, ranges[::2], ranges[1::2], strict=True):
        unit = unit * (reach(run, low, high) / WHOLE_STEPS[dtype])
    # The largest int32, 2**31 - 1, is this number in MXNet's float32.
    return unit * float(2**31)


def write_rounded(run: Run, numbers: Array, out: Array) -> None:
    """Write numbers rounded to integers (halves to even), clipped to the dtype's range."""
    limits = np.iinfo(out.dtype)
    run.xp.rint(numbers, out=numbers)
    run.xp.clip(numbers, limits.min, limits.max, out=numbers)
    run.xp.copyto(out, numbers, casting="unsafe")


def calibration(which: str) -> Any:
    """Declare ``min_calib_range`` or ``max_calib_range`` of a ``Calibrated`` operator."""
    return attribute(None, doc=f"the {which} number of the output, from calibration")


class Calibrated(Operator):
    """Base of operators whose output range may be known in advance, from calibration."""

    min_calib_range: float | None
    max_calib_range: float | None

    def __post_init__(self) -> None:
        given = (self.min_calib_range, self.max_calib_range)
        if (given[0] is None) is not (given[1] is None):
            raise AttributeValueError(
                f"min_calib_range is {given[0]}, max_calib_range is {given[1]}; give both or none"
            )

    @property
    def is_calibrated(self) -> bool:
        """Whether the range is known."""
        return self.min_calib_range is not None

    @property
    def calibrated_reach(self) -> float:
        """The larger magnitude of the known range's ends."""
        ends = (self.min_calib_range or 0.0, self.max_calib_range or 0.0)
        return max(_NEARLY_NOTHING, *map(abs, ends))

    def bytes_by_range(self) -> DType:
        """Return the dtype for the known range: uint8 if nothing is below 0, else int8."""
        low = self.min_calib_range
        return UINT8 if low is not None and low >= 0 else INT8

    def write_calibrated(self, run: Run, outputs: Sequence[Array]) -> None:
        """Write the known range to the outputs."""
        run.xp.copyto(outputs[1], self.min_calib_range)
        run.xp.copyto(outputs[2], self.max_calib_range)


@declares_attributes
class Quantized(Operator):
    """Base: inputs are tensors, then the ranges of those that are bytes; outputs a tensor and its
    range.

    There are no gradients, because quantized networks are made from trained ones.
    """

    may_widen: ClassVar[bool] = False
    steps: ClassVar[Mapping[DType, float]] = STEPS
    has_sums: ClassVar[bool] = False
    """True if the output is int32 sums, which a later operator converts to bytes."""
    whole_steps: ClassVar[Mapping[DType, float]] = WHOLE_STEPS
    """The number of quantization steps from zero, for kernels."""

    def tensor_names(self) -> tuple[str, ...]:
        """Names of the tensors."""
        return ("data",)

    def range_names(self) -> tuple[str, ...]:
        """Names of the tensors' ranges: the smallest and the largest number of each."""
        return tuple(f"{end}_{name}" for name in self.tensor_names() for end in ("min", "max"))

    def input_names(self) -> tuple[str, ...]:
        return (*self.tensor_names(), *self.range_names())

    def output_names(self) -> tuple[str, ...]:
        return ("output", "min_output", "max_output")

    # -- inference --------------------------------------------------------------------------

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        count = len(self.tensor_names())
        tensors, (output,) = self.infer_tensor_shapes(inputs[:count], outputs[:1])
        names = (*self.range_names(), *self.output_names()[1:])
        given = (*inputs[count:], *outputs[1:])
        ends = [self.expect(*pair, (1,)) for pair in zip(names, given, strict=True)]
        split = len(inputs) - count
        return [*tensors, *ends[:split]], [output, *ends[split:]]

    def infer_type(
        self, inputs: list[DType | None], outputs: list[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        count = len(self.tensor_names())
        tensors, output = self.infer_tensor_dtypes(inputs[:count], outputs[0])
        names = (*self.range_names(), *self.output_names()[1:])
        given = (*inputs[count:], *outputs[1:])
        ends = [self.expect_dtype(*pair, FLOAT32) for pair in zip(names, given, strict=True)]
        split = len(inputs) - count
        return [*tensors, *ends[:split]], [output, *ends[split:]]

    def infer_tensor_shapes(
        self, tensors: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        """Complete the shapes of the tensors. The default: those of data and output are equal."""
        common = self.expect("data", tensors[0], outputs[0])
        return [common, *tensors[1:]], [common]

    def infer_tensor_dtypes(
        self, tensors: list[DType | None], output: DType | None
    ) -> tuple[list[DType | None], DType | None]:
        """Complete the dtypes of the tensors. The default: data and output are the same bytes."""
        data = self.expect_bytes("data", self.expect_dtype("data", tensors[0], output))
        return [data, *tensors[1:]], data

    def expect_bytes(self, name: str, dtype: DType | None) -> DType | None:
        """Return a dtype; raise TypeInferenceError unless it is int8 or uint8."""
        if dtype is not None and dtype not in (INT8, UINT8):
            raise TypeInferenceError(f"{name} has dtype {dtype}; expected int8 or uint8")
        return dtype

    # -- arithmetic -------------------------------------------------------------------------

    def pass_range(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Give the output the range of the first tensor."""
        count = len(self.tensor_names())
        for source, target in zip(inputs[count : count + 2], outputs[1:], strict=True):
            run.xp.copyto(target, source)
