"""Operators that enlarge maps of (n, c, h, w) or (n, c, d, h, w): padding and upsampling."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

from ..capabilities import layers as kinds
from ..capabilities.kinds import implements
from ..errors import AttributeValueError, ShapeError
from ..types import Array, Shape
from .attributes import attribute
from .operator import Operator, Reads, Run
from .registry import make_operator, register

__all__ = ["Pad", "UpSampling"]


@register("Pad", "pad")
class Pad(Operator):
    """Pad the spatial axes of (n, c, h, w) or (n, c, d, h, w), with a constant, with the edge's
    values or by reflection without the edge."""

    names_outputs: ClassVar[bool] = True

    monitors_data: ClassVar[bool] = True

    mode: str = attribute(choices=("constant", "edge", "reflect"), doc="values of the padding")
    pad_width: tuple[int, ...] = attribute(
        minimum=0, doc="(before, after) for each axis, in a flat tuple"
    )
    constant_value: float = attribute(default=0.0, doc="value of the padding in constant mode")

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data, output = inputs[0], outputs[0]
        known = data if data is not None else output
        if known is None:
            return inputs, outputs
        if len(known) not in (4, 5) or len(self.pad_width) != 2 * len(known):
            raise ShapeError(
                f"pad_width {self.pad_width} does not fit data {known}; expected 4 or 5 dimensions "
                f"and two numbers for each"
            )
        if any(self.pad_width[:4]):
            raise ShapeError(f"pad_width {self.pad_width} pads the first two axes; only later can")
        if data is not None:
            self._check_reflection(data)
            output = self.expect("output", output, self._enlarge(data, 1))
        assert output is not None
        return [self.expect("data", data, self._enlarge(output, -1))], [output]

    def _enlarge(self, shape: Shape, sign: int) -> Shape:
        pairs = zip(shape, self._pairs(), strict=True)
        return tuple(dim and dim + sign * (before + after) for dim, (before, after) in pairs)

    def _pairs(self) -> list[tuple[int, int]]:
        return list(zip(self.pad_width[::2], self.pad_width[1::2], strict=True))

    def _check_reflection(self, data: Shape) -> None:
        for axis, (dim, pair) in enumerate(zip(data, self._pairs(), strict=True)):
            if self.mode == "reflect" and dim and max(pair) >= dim:
                raise ShapeError(
                    f"pad_width {pair} of axis {axis} is too large: a reflection of {dim} elements "
                    f"has at most {dim - 1}"
                )

    def backward_reads(self) -> Reads:
        return Reads()

    def _interior(self, padded: Array) -> Array:
        bounds = zip(self._pairs(), padded.shape, strict=True)
        return padded[tuple(slice(before, size - after) for (before, after), size in bounds)]

    def _margins(self, padded: Array) -> list[tuple[Array, Array]]:
        """Return pairs (margin, the region it copies) in the order of writing.

        A margin spans the whole length of the axes before its own, which are already padded, so
        that corners come out right; later axes are not padded yet.
        """
        margins = []
        pairs = self._pairs()
        for axis, (before, after) in enumerate(pairs):
            size = padded.shape[axis]
            inner = tuple(
                slice(left, padded.shape[i] - right) if i > axis else slice(None)
                for i, (left, right) in enumerate(pairs)
            )
            part = padded[inner]
            lead = (slice(None),) * axis
            last = size - after - 1
            if self.mode == "edge":
                first_source, last_source = slice(before, before + 1), slice(last, last + 1)
            else:
                first_source = slice(2 * before, before, -1)
                stop = last - 1 - after
                last_source = slice(last - 1, None if stop < 0 else stop, -1)
            if before:
                margins.append((part[(*lead, slice(before))], part[(*lead, first_source)]))
            if after:
                margins.append(
                    (part[(*lead, slice(size - after, size))], part[(*lead, last_source)])
                )
        return margins

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        y = outputs[0]
        if self.mode == "constant":
            y.fill(self.constant_value)
        run.xp.copyto(self._interior(y), inputs[0])
        if self.mode != "constant":
            for margin, source in self._margins(y):
                run.xp.copyto(margin, source)

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        dy = out_grads[0]
        if self.mode != "constant":
            folded = run.scratch(dy.shape, dy.dtype)
            run.xp.copyto(folded, dy)
            # Corners of a later margin copy those of an earlier one, so the later one's gradient is
            # folded back first.
            for margin, source in reversed(self._margins(folded)):
                _add_copies(margin, source)
            dy = folded
        run.xp.copyto(in_grads[0], self._interior(dy))


def _add_copies(margin: Array, source: Array) -> None:
    """Add a margin to the region it copies: elementwise, or all rows to the single edge row."""
    if margin.shape == source.shape:
        source += margin
        return
    axis = next(i for i, n in enumerate(source.shape) if n != margin.shape[i])
    lead = (slice(None),) * axis
    for i in range(margin.shape[axis]):
        source += margin[(*lead, slice(i, i + 1))]


@register("UpSampling")
@implements(kinds.UP_SAMPLING)
class UpSampling(Operator):
    """Enlarge maps (n, c, h, w) by a whole factor.

    ``nearest`` repeats pixels; several inputs are all enlarged to the size of the first output and
    then joined along the channels or summed. ``bilinear`` is a depthwise deconvolution with a
    weight (c, 1, k, k), where k = 2 scale - scale % 2.
    """

    names_outputs: ClassVar[bool] = True

    monitors_data: ClassVar[bool] = True

    variadic = "num_args"
    all_inputs = ("data", "weight")
    ignored_attributes = frozenset({"workspace"})

    scale: int = attribute(minimum=1, maximum=1000, doc="the factor")
    num_filter: int = attribute(default=0, minimum=0, doc="number of channels, for bilinear")
    sample_type: str = attribute(choices=("nearest", "bilinear"), doc="how pixels are interpolated")
    multi_input_mode: str = attribute(
        default="concat", choices=("concat", "sum"), doc="how several inputs are combined"
    )
    num_args: int = attribute(minimum=1, doc="number of inputs; 1 for bilinear")

    def __post_init__(self) -> None:
        if self.sample_type == "bilinear" and self.num_filter < 1:
            raise AttributeValueError("attribute 'num_filter' is required for bilinear")

    @cached_property
    def _deconvolution(self) -> Operator:
        # The smallest kernel whose weight can hold the tent of bilinear interpolation, as in FCN
        # (Long et al., 2015); pad is ceil((scale - 1) / 2).
        kernel = 2 * self.scale - self.scale % 2
        attributes = {
            "kernel": (kernel, kernel),
            "stride": (self.scale, self.scale),
            "pad": (self.scale // 2, self.scale // 2),
            "num_filter": self.num_filter,
            "num_group": self.num_filter,
        }
        return make_operator("Deconvolution", "bilinear", attributes)

    @property
    def _is_bilinear(self) -> bool:
        return self.sample_type == "bilinear"

    def input_names(self) -> tuple[str, ...]:
        if self._is_bilinear:
            return ("data", "weight")
        return tuple(f"arg{i}" for i in range(self.num_args))

    def variable_initializers(self) -> Mapping[str, str]:
        return dict.fromkeys(self.input_names()[1:2], '["bilinear", {}]')

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        if self._is_bilinear:
            return self._deconvolution.infer_shape(inputs, outputs)
        for shape in inputs:
            if shape is None:
                return inputs, outputs
            if len(shape) != 4:
                raise ShapeError(f"input has shape {shape}, expected 4 dimensions (n, c, h, w)")
        known = [shape for shape in inputs if shape is not None]
        n, c, h, w = known[0]
        size = (h * self.scale, w * self.scale)
        for shape in known:
            if any(x and y % x for x, y in zip(shape[2:], size, strict=True)):
                raise ShapeError(f"input {shape} cannot be enlarged to height and width {size}")
            if self.multi_input_mode == "sum" and shape[1] != c:
                raise ShapeError(f"inputs {known} are summed and must have equal channels")
        channels = [shape[1] for shape in known]
        if self.multi_input_mode == "concat" and self.num_args > 1:
            c = 0 if 0 in channels else sum(channels)
        return inputs, [self.expect("output", outputs[0], (n, c, *size))]

    def backward_reads(self) -> Reads:
        return self._deconvolution.backward_reads() if self._is_bilinear else Reads()

    def needs_every_gradient(self) -> bool:
        return not self._is_bilinear

    def _regions(self, output: Array, inputs: Sequence[Any]) -> list[Array]:
        """Return each input's channels of the output, as (n, c, h, copy, w, copy)."""
        ends = itertools.accumulate((x.shape[1] for x in inputs), initial=0)
        starts = itertools.repeat(0) if self.multi_input_mode == "sum" else ends
        regions = []
        for x, start in zip(inputs, starts, strict=False):
            n, c, h, w = x.shape
            height, width = output.shape[2] // h, output.shape[3] // w
            part = output[:, start : start + c]
            regions.append(part.reshape(n, c, h, height, w, width))
        return regions

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        if self._is_bilinear:
            self._deconvolution.forward(run, inputs, outputs)
            return
        for i, (x, region) in enumerate(
            zip(inputs, self._regions(outputs[0], inputs), strict=True)
        ):
            wide = x[:, :, :, None, :, None]
            if i and self.multi_input_mode == "sum":
                region += wide
            else:
                run.xp.copyto(region, wide)

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        if self._is_bilinear:
            self._deconvolution.backward(run, out_grads, inputs, outputs, in_grads)
            return
        for dx, region in zip(in_grads, self._regions(out_grads[0], in_grads), strict=True):
            assert dx is not None
            dx.fill(0)
            for i, j in itertools.product(range(region.shape[3]), range(region.shape[5])):
                dx += region[:, :, :, i, :, j]
