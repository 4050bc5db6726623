"""Convolutions whose sampling positions are inputs (Dai et al., 2017; Zhu et al., 2018)."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, ClassVar

from ...capabilities import sampling as kinds
from ...capabilities.kinds import implements
from ...errors import AttributeValueError, ShapeError
from ...types import Array, Shape
from ..attributes import attribute
from ..interpolation import Neighbor, add_to_neighbors, neighbors
from ..operator import Operator, Reads, Run
from ..precision import wide_backward, wide_forward
from ..registry import declares_attributes, register
from ..summation import add_up
from ..window import Window, check_window

__all__ = ["DeformableConvolution", "ModulatedDeformableConvolution"]

_LAYOUTS = ("NCW", "NCHW", "NCDHW")


class _Columns:
    """The im2col matrix of one image, sampled at offsets: (channels, kernel, output positions)."""

    def __init__(
        self, xp: Any, window: Window, data: Array, offset: Array, groups: int, fades: bool
    ) -> None:
        """Prepare for data (channels, height, width) and its offset.

        With ``fades``, points within one element around the image are interpolated between its
        border and the zeros around it. Without, points less than one element beyond the last row or
        column take the border's value, and points before the first row or column are 0.
        """
        self._xp, self._groups, self._shape = xp, groups, data.shape
        size = window.kernel[0] * window.kernel[1]
        shift = offset.reshape(groups, size, 2, *offset.shape[-2:])
        row, column = (
            start + step
            for start, step in zip(
                self._grid(window, offset.shape), self._steps(window), strict=True
            )
        )
        y = (shift[:, :, 0] + row).reshape(groups, -1)
        x = (shift[:, :, 1] + column).reshape(groups, -1)
        self._neighbors = (neighbors if fades else _without_fading)(xp, y, x, *data.shape[1:])
        self._data = data.reshape(groups, data.shape[0] // groups, -1)

    def _grid(self, window: Window, offset: Shape) -> tuple[Array, Array]:
        """Return the positions of the windows' first elements, (height, 1) and (width,)."""
        rows, columns = (
            self._xp.arange(count) * stride - pad
            for count, stride, pad in zip(offset[-2:], window.stride, window.pad, strict=True)
        )
        return rows[:, None], columns

    def _steps(self, window: Window) -> tuple[Array, Array]:
        """Return the row and the column of each kernel position, (kernel, 1, 1) each."""
        xp = self._xp
        rows, columns = (
            xp.arange(count) * dilate
            for count, dilate in zip(window.kernel, window.dilate, strict=True)
        )
        down, across = xp.repeat(rows, len(columns)), xp.tile(columns, len(rows))
        return down[:, None, None], across[:, None, None]

    def _index(self, near: Neighbor) -> tuple[Array, Array, Array]:
        xp = self._xp
        channels = xp.arange(self._data.shape[1])[:, None]
        return xp.arange(self._groups)[:, None, None], channels, near.position[:, None]

    def read(self) -> Array:
        """Return the sampled values, (deformable groups, channels of each, kernel · positions)."""
        columns: Array = sum(
            self._data[self._index(near)] * near.weight[:, None] for near in self._neighbors
        )
        return columns

    def spread(self, grad: Array, target: Array) -> None:
        """Write the gradient of the image, given that of the columns."""
        found = self._xp.zeros(self._data.shape, grad.dtype)
        for near in self._neighbors:
            add_to_neighbors(self._xp, found, near, grad)
        target[...] = found.reshape(target.shape)

    def offset_gradient(self, grad: Array) -> Array:
        """Return the gradient of the offsets, (deformable groups, 2, kernel · positions), given
        that of the columns."""
        down: Any = 0
        across: Any = 0
        for near in self._neighbors:
            pull = (self._data[self._index(near)] * grad).sum(axis=1)
            down, across = down + pull * near.down, across + pull * near.across
        found: Array = self._xp.stack((down, across), axis=1)
        return found


def _without_fading(xp: Any, y: Array, x: Array, height: int, width: int) -> list[Neighbor]:
    # Beyond the last element the value is constant, so its slope is 0.
    counted = (y >= 0) & (y < height) & (x >= 0) & (x < width)
    falls, runs = counted & (y < height - 1), counted & (x < width - 1)
    found = neighbors(xp, xp.clip(y, 0, height - 1), xp.clip(x, 0, width - 1), height, width)
    return [
        Neighbor(near.position, near.weight * counted, near.down * falls, near.across * runs)
        for near in found
    ]


@declares_attributes
class _Deformable(Operator):
    """Base of both operators; only the second has the input ``mask``."""

    ignored_attributes: ClassVar[frozenset[str]] = frozenset({"workspace"})
    has_mask: ClassVar[bool] = False

    kernel: Shape = attribute(minimum=1, doc="size of the window along each spatial axis")
    stride: Shape = attribute(
        (), minimum=1, doc="steps of the window along each axis; 1 by default"
    )
    dilate: Shape = attribute(
        (),
        minimum=1,
        doc="distances between the window's elements along each axis; 1 by default",
    )
    pad: Shape = attribute(
        (), minimum=0, doc="elements of padding on both sides of each axis; 0 by default"
    )
    num_filter: int = attribute(minimum=1, doc="number of output channels")
    num_group: int = attribute(
        1, minimum=1, doc="number of groups of channels that are filtered separately"
    )
    num_deformable_group: int = attribute(
        1, minimum=1, doc="number of groups of channels with separate offsets"
    )
    no_bias: bool = attribute(False, doc="whether there is no bias")
    layout: str | None = attribute(
        None, choices=_LAYOUTS, doc="order of the axes; channels first by default"
    )

    def __post_init__(self) -> None:
        check_window(self.kernel, stride=self.stride, dilate=self.dilate, pad=self.pad)
        if self.num_filter % self.num_group:
            raise AttributeValueError(
                f"num_filter is {self.num_filter}; expected a multiple of num_group "
                f"{self.num_group}"
            )

    @functools.cached_property
    def window(self) -> Window:
        """The window given by the attributes, with defaults filled in."""
        return Window(self.kernel, self.stride or (1, 1), self.dilate or (1, 1), self.pad or (0, 0))

    def input_names(self) -> tuple[str, ...]:
        mask, bias = ("mask",) * self.has_mask, ("bias",) * (not self.no_bias)
        return ("data", "offset", *mask, "weight", *bias)

    def backward_reads(self) -> Reads:
        return Reads(inputs=tuple(range(4 if self.has_mask else 3)))

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        if len(self.kernel) != 2 or self.layout not in (None, "NCHW"):
            raise AttributeValueError(
                f"kernel is {self.kernel} and layout {self.layout}; expected two axes, NCHW"
            )
        data = self.expect("data", inputs[0], (0, 0, 0, 0))
        for name in ("num_group", "num_deformable_group"):
            if data[1] % getattr(self, name):
                raise ShapeError(
                    f"data has {data[1]} channels, which {name} {getattr(self, name)} does not "
                    f"divide"
                )
        for size, span, pad in zip(data[2:], self.window.spans, self.window.pad, strict=True):
            if size and size + 2 * pad < span:
                raise ShapeError(f"data has shape {data}; with padding the kernel spans {span}")
        counts = zip(data[2:], self.window.counts(data[2:]), strict=True)
        sizes = tuple(count if size else 0 for size, count in counts)
        output = self.expect("output", outputs[0], (data[0], self.num_filter, *sizes))
        places = (output[0], self.kernel[0] * self.kernel[1] * self.num_deformable_group)
        expected = {
            "data": (output[0], *data[1:]),
            "offset": (places[0], 2 * places[1], *output[2:]),
            "mask": (*places, *output[2:]),
            "weight": (self.num_filter, data[1] // self.num_group, *self.kernel),
            "bias": (self.num_filter,),
        }
        found = [
            self.expect(name, shape, expected[name])
            for name, shape in zip(self.input_names(), inputs, strict=True)
        ]
        return [*found], [output]

    # -- arithmetic -------------------------------------------------------------------------

    def _columns(self, run: Run, inputs: Sequence[Array], image: int) -> _Columns:
        data, offset = inputs[0][image], inputs[1][image]
        groups = self.num_deformable_group
        return _Columns(run.xp, self.window, data, offset, groups, fades=self.has_mask)

    def _mask(self, inputs: Sequence[Array], image: int) -> Array | None:
        if not self.has_mask:
            return None
        return inputs[2][image].reshape(self.num_deformable_group, 1, -1)

    def _matrix(self, weight: Array) -> Array:
        return weight.reshape(self.num_group, self.num_filter // self.num_group, -1)

    @wide_forward
    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        out = outputs[0]
        weight = self._matrix(inputs[3 if self.has_mask else 2])
        places = out.shape[2] * out.shape[3]
        for image in range(len(out)):
            columns = self._columns(run, inputs, image).read()
            mask = self._mask(inputs, image)
            if mask is not None:
                columns = columns * mask
            columns = columns.reshape(self.num_group, -1, places)
            out[image] = run.xp.matmul(weight, columns).reshape(out.shape[1:])
        if not self.no_bias:
            out += inputs[-1][:, None, None]

    @wide_backward
    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        xp, grad = run.xp, out_grads[0]
        weight_place = 3 if self.has_mask else 2
        weight, weight_grad = self._matrix(inputs[weight_place]), in_grads[weight_place]
        if weight_grad is not None:
            weight_grad.fill(0)
        for image in range(len(grad)):
            flat = grad[image].reshape(self.num_group, -1, grad.shape[2] * grad.shape[3])
            columns = self._columns(run, inputs, image)
            seen, mask = columns.read(), self._mask(inputs, image)
            if weight_grad is not None:
                masked = seen if mask is None else seen * mask
                masked = masked.reshape(self.num_group, -1, flat.shape[2])
                change = xp.matmul(flat, masked.transpose(0, 2, 1))
                weight_grad += change.reshape(weight_grad.shape)
            wanted = in_grads[:weight_place]
            if all(target is None for target in wanted):
                continue
            pull = xp.matmul(weight.transpose(0, 2, 1), flat).reshape(seen.shape)
            if mask is not None and wanted[2] is not None:
                wanted[2][image] = (pull * seen).sum(axis=1).reshape(wanted[2].shape[1:])
            if mask is not None:
                pull = pull * mask
            self._spread(columns, pull, wanted, image)
        if not self.no_bias and in_grads[-1] is not None:
            add_up(run, grad, (0, 2, 3), in_grads[-1])

    def _spread(
        self, columns: _Columns, pull: Array, wanted: Sequence[Array | None], image: int
    ) -> None:
        """Write the gradients of one image and its offsets."""
        data_grad, offset_grad = wanted[:2]
        if data_grad is not None:
            columns.spread(pull, data_grad[image])
        if offset_grad is not None:
            found = columns.offset_gradient(pull)
            places = offset_grad.shape[2] * offset_grad.shape[3]
            found = found.reshape(self.num_deformable_group, 2, -1, places).transpose(0, 2, 1, 3)
            offset_grad[image] = found.reshape(offset_grad.shape[1:])


@register("_contrib_DeformableConvolution")
@implements(kinds.DEFORMABLE_CONVOLUTION)
class DeformableConvolution(_Deformable):
    """Convolution of ``data`` (batch, channels, height, width) sampled at offset positions.

    ``offset`` (batch, 2 · kernel · num_deformable_group, output height, output width) moves each
    kernel position down and across. Values between elements are interpolated; outside the image
    they are 0, but less than one element beyond the last row or column they are those of the
    border, as in MXNet. Each deformable group has its own share of the channels.
    """

    names_outputs: ClassVar[bool] = True

    all_inputs = ("data", "offset", "weight", "bias")


@register("_contrib_ModulatedDeformableConvolution")
@implements(kinds.DEFORMABLE_CONVOLUTION)
class ModulatedDeformableConvolution(_Deformable):
    """``DeformableConvolution`` with a weight for each kernel position at each place of the output.

    ``mask`` is (batch, kernel · num_deformable_group, output height, output width). Less than one
    element outside the image, values are interpolated between the border and 0.
    """

    names_outputs: ClassVar[bool] = True

    ignored_attributes: ClassVar[frozenset[str]] = frozenset({"workspace", "im2col_step"})
    has_mask: ClassVar[bool] = True
    all_inputs = ("data", "offset", "mask", "weight", "bias")
