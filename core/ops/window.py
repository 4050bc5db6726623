"""Geometry and layouts of sliding windows, shared by convolution and pooling."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator

from ..errors import AttributeValueError
from ..types import Shape

__all__ = [
    "Window",
    "channels_first",
    "channels_last",
    "check_layout",
    "check_window",
    "is_channels_last",
]


@dataclasses.dataclass(frozen=True)
class Window:
    """A window of ``kernel`` elements, ``dilate`` apart, moved by ``stride`` over a padded image.

    Every field has one entry per spatial axis. Output ``o`` reads, for every position ``k`` of the
    kernel, the image element ``o·stride + k·dilate - pad``.
    """

    kernel: Shape
    stride: Shape
    dilate: Shape
    pad: Shape

    @property
    def spans(self) -> Shape:
        """The number of image elements that the window spans along each axis."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilate, strict=True))

    @property
    def is_pointwise(self) -> bool:
        """True if every output reads a single element and every element is read once."""
        return all(x == 1 for x in (*self.kernel, *self.stride))

    def counts(self, image: Shape) -> Shape:
        """Return the number of windows that fit into an image: the output's spatial shape."""
        return tuple(
            (size + 2 * pad - span) // stride + 1
            for size, pad, span, stride in zip(
                image, self.pad, self.spans, self.stride, strict=True
            )
        )

    def positions(self) -> Iterator[Shape]:
        """Yield every position in the kernel, the last axis fastest."""
        return itertools.product(*(range(k) for k in self.kernel))

    def padded_slices(self, position: Shape, counts: Shape) -> tuple[slice, ...]:
        """Return the slices of the padded image that a kernel position reads, for all outputs."""
        return tuple(
            slice(k * dilate, k * dilate + (count - 1) * stride + 1, stride)
            for k, dilate, stride, count in zip(
                position, self.dilate, self.stride, counts, strict=True
            )
        )


def is_channels_last(layout: str | None) -> bool:
    """Return whether a layout has channels last, such as ``NHWC``."""
    return layout is not None and layout.endswith("C")


def channels_first(shape: Shape | None, layout: str | None) -> Shape | None:
    """Return a shape of this layout with the channels moved to axis 1."""
    if shape is None or not is_channels_last(layout):
        return shape
    return (shape[0], shape[-1], *shape[1:-1])


def channels_last(shape: Shape | None, layout: str | None) -> Shape | None:
    """Undo ``channels_first``."""
    if shape is None or not is_channels_last(layout):
        return shape
    return (shape[0], *shape[2:], shape[1])


def check_window(kernel: Shape, **others: Shape) -> None:
    """Raise AttributeValueError unless all attributes have the same 1 to 3 axes.

    An empty attribute means its default.
    """
    if not 1 <= len(kernel) <= 3:
        raise AttributeValueError(f"kernel is {kernel}; expected 1 to 3 axes")
    for name, value in others.items():
        if value and len(value) != len(kernel):
            raise AttributeValueError(
                f"{name} is {value}, kernel is {kernel}; expected one entry for each of the "
                f"{len(kernel)} axes of kernel"
            )


def check_layout(layout: str | None, axes: int) -> None:
    """Raise AttributeValueError unless a layout has this many spatial axes."""
    if layout is not None and len(layout) != axes + 2:
        raise AttributeValueError(f"layout is {layout!r}; expected one with {axes} spatial axes")
