"""Selection of rows by a mask, in graphs."""

from __future__ import annotations

from typing import ClassVar

from ...errors import ShapeError
from ...types import DType, Shape
from ..attributes import attribute
from ..operator import Operator
from ..registry import register

__all__ = ["BooleanMask"]


@register("_contrib_boolean_mask")
class BooleanMask(Operator):
    """The rows of ``data`` (n, ...) where ``index`` (n,) is not 0.

    The number of rows depends on the mask's values, not on shapes.
    """

    shaped_by_values: ClassVar[str | None] = "boolean_mask"

    axis: int = attribute(0, doc="the axis that is masked; only 0")

    def input_names(self) -> tuple[str, ...]:
        return ("data", "index")

    def gradient_inputs(self, count: int) -> tuple[int, ...]:
        return (0,)

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data = inputs[0]
        if data is not None:
            if self.axis or not data:
                raise ShapeError(f"axis is {self.axis} of data {data}; only 0 can be masked")
            rows = self.expect("output", outputs[0], (0, *data[1:]))
            return [data, self.expect("index", inputs[1], data[:1])], [rows]
        return inputs, outputs

    def infer_type(
        self, inputs: list[DType | None], outputs: list[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        common = self.expect_dtype("data", inputs[0], outputs[0])
        return [common, inputs[1]], [common]
