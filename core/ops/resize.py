"""Resizing of images: adaptive average pooling and bilinear interpolation.

Both are linear and separable by rows and columns, and thus products with two small matrices.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import Any

from ..capabilities import layers as kinds
from ..capabilities.kinds import implements
from ..errors import AttributeValueError, ShapeError
from ..types import Array, DType, Shape
from .attributes import attribute
from .operator import Operator, Reads, Run
from .precision import wide_backward, wide_forward
from .registry import register

__all__ = ["AdaptiveAvgPooling2D", "BilinearResize2D"]


class _Separable(Operator, abc.ABC):
    """Base: ``data`` (batch, channels, height, width), resized along its last two axes."""

    @abc.abstractmethod
    def sizes(self, inputs: Sequence[Shape | None]) -> Shape:
        """Return the output's height and width, 0 if unknown."""

    @abc.abstractmethod
    def weights(self, xp: Any, size: int, given: int, dtype: DType) -> Array:
        """Return the weights of ``given`` input elements in ``size`` output elements, (size,
        given)."""

    def gradient_inputs(self, count: int) -> tuple[int, ...]:
        return (0,)

    def backward_reads(self) -> Reads:
        return Reads()

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data = self.expect("data", inputs[0], (0, 0, 0, 0))
        assert data is not None
        inputs[0] = data
        output = self.expect("output", outputs[0], (*data[:2], *self.sizes(inputs)))
        assert output is not None
        return [(*output[:2], *data[2:]), *inputs[1:]], [output]

    @wide_forward
    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        xp, data, out = run.xp, inputs[0], outputs[0]
        rows = self.weights(xp, out.shape[2], data.shape[2], data.dtype)
        columns = self.weights(xp, out.shape[3], data.shape[3], data.dtype)
        lines = run.scratch((*data.shape[:3], out.shape[3]), data.dtype)
        xp.matmul(data, columns.T, out=lines)
        xp.matmul(rows, lines, out=out)

    @wide_backward
    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        xp, grad, data_grad = run.xp, out_grads[0], in_grads[0]
        assert data_grad is not None
        rows = self.weights(xp, grad.shape[2], data_grad.shape[2], grad.dtype)
        columns = self.weights(xp, grad.shape[3], data_grad.shape[3], grad.dtype)
        lines = run.scratch((*data_grad.shape[:3], grad.shape[3]), grad.dtype)
        xp.matmul(rows.T, grad, out=lines)
        xp.matmul(lines, columns, out=data_grad)


@register("_contrib_AdaptiveAvgPooling2D")
@implements(kinds.ADAPTIVE_AVERAGE)
class AdaptiveAvgPooling2D(_Separable):
    """Average pooling to a fixed output size, for images of any size.

    Output i of n is the mean of elements ``floor(i · size / n)`` to ``ceil((i + 1) · size / n)``,
    exclusive.
    """

    output_size: Shape = attribute(
        (), minimum=1, doc="height and width, or one number for both; 1 if empty"
    )

    def __post_init__(self) -> None:
        if len(self.output_size) > 2:
            raise AttributeValueError(
                f"output_size is {self.output_size}; expected height and width"
            )

    def sizes(self, inputs: Sequence[Shape | None]) -> Shape:
        size = self.output_size or (1,)
        return (size[0], size[-1])

    def weights(self, xp: Any, size: int, given: int, dtype: DType) -> Array:
        place = xp.arange(size)[:, None]
        element = xp.arange(given)
        begins, ends = place * given // size, -(-(place + 1) * given // size)
        weights: Array = ((element >= begins) & (element < ends)).astype(dtype)
        weights /= (ends - begins).astype(dtype)
        return weights


_TO_PARITY: dict[str, Callable[[int], int]] = {
    "to_even_down": lambda size: size - size % 2,
    "to_even_up": lambda size: size + size % 2,
    "to_odd_down": lambda size: size - 1 + size % 2,
    "to_odd_up": lambda size: size + 1 - size % 2,
}


@register("_contrib_BilinearResize2D")
@implements(kinds.BILINEAR_RESIZE)
class BilinearResize2D(_Separable):
    """Resize images with bilinear interpolation.

    ``mode`` selects the output's size: ``size`` is ``height`` by ``width``, or the image's size
    times ``scale_height`` and ``scale_width`` if these are given; ``odd_scale`` is the same, except
    that an odd size n becomes ``(n - 1) · scale + 1``; ``like`` is the size of a second input; the
    other modes give the next even or odd number. ``align_corners`` aligns the centers of corner
    elements, otherwise the image's borders are aligned.
    """

    all_inputs = ("data", "like")

    height: int = attribute(1, minimum=1, doc="rows of the output, for mode size")
    width: int = attribute(1, minimum=1, doc="columns of the output, for mode size")
    scale_height: float | None = attribute(None, doc="ratio of the output's rows to the data's")
    scale_width: float | None = attribute(None, doc="ratio of the output's columns to the data's")
    mode: str = attribute(
        "size",
        choices=("size", "odd_scale", "like", *_TO_PARITY),
        doc="how the output's size is determined",
    )
    align_corners: bool = attribute(True, doc="whether centers of corner elements are aligned")

    def __post_init__(self) -> None:
        for name in ("scale_height", "scale_width"):
            scale = getattr(self, name)
            if scale is not None and scale <= 0:
                raise AttributeValueError(f"{name} is {scale}; expected more than 0")
            if scale is None and self.mode == "odd_scale":
                raise AttributeValueError(f"{name} is missing; mode odd_scale needs it")

    def input_names(self) -> tuple[str, ...]:
        return ("data", "like") if self.mode == "like" else ("data",)

    def sizes(self, inputs: Sequence[Shape | None]) -> Shape:
        if self.mode == "like":
            like = self.expect("like", inputs[1], (0, 0, 0, 0))
            assert like is not None
            return like[2:]
        data = inputs[0]
        assert data is not None
        sizes = zip(
            data[2:],
            (self.scale_height, self.scale_width),
            (self.height, self.width),
            strict=True,
        )
        found = tuple(
            self._size(given, scale, size) if given else 0 for given, scale, size in sizes
        )
        if any(size < 1 for size, given in zip(found, data[2:], strict=True) if given):
            raise ShapeError(f"data has shape {data}; mode {self.mode} would make it empty")
        return found

    def _size(self, given: int, scale: float | None, size: int) -> int:
        if self.mode in _TO_PARITY:
            return _TO_PARITY[self.mode](given)
        if scale is None:
            return size
        if self.mode == "odd_scale" and given % 2:
            return int((given - 1) * scale) + 1
        return int(given * scale)

    def weights(self, xp: Any, size: int, given: int, dtype: DType) -> Array:
        # MXNet computes positions in float32 for any dtype of data.
        place = xp.arange(size, dtype="float32")[:, None]
        if self.align_corners:
            source = place * ((given - 1) / (size - 1) if size > 1 else 0)
        else:
            source = (place + 0.5) * (given / size) - 0.5
        source = xp.clip(source, 0, given - 1)
        weights: Array = xp.maximum(1 - abs(source - xp.arange(given, dtype="float32")), 0)
        return weights.astype(dtype, copy=False)
