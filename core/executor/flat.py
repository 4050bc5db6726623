"""Parameters of one module and dtype in one flat buffer, where each parameter is a view.

An optimizer step, an all-reduce or a checkpoint is then a single pass over memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..backends import backend_of
from ..device import Context
from ..kernels.kernel import Version
from ..types import Array, DType, Shape, shape_size

__all__ = ["FlatBuffer"]

_ALIGNMENT = 64
"""Bytes: a cache line."""


class FlatBuffer:
    """One buffer and named arrays that are views of it.

    Every array starts on a 64-byte boundary; the padding between two arrays is zero and
    stays zero under elementwise updates.

    Attributes:
        data: the whole buffer, one-dimensional.
        views: each array by name, in order.
        spans: (start, stop) of each array in elements, including the padding that follows it.
        version: must be incremented by whoever writes to ``data``.
        versions: of each array by name; they also count changes of the whole buffer.
    """

    def __init__(self, shapes: Mapping[str, Shape], dtype: DType, context: Context) -> None:
        self.context = context
        self.dtype = dtype
        self.shapes = dict(shapes)
        self.version = Version()
        self.versions = {name: Version(self.version) for name in shapes}
        self.spans: dict[str, tuple[int, int]] = {}
        align = max(1, _ALIGNMENT // dtype.itemsize)
        start = 0
        for name, shape in shapes.items():
            stop = start + -(-shape_size(shape) // align) * align
            self.spans[name] = (start, stop)
            start = stop
        self.data: Array = backend_of(context).empty((start,), dtype)
        self.data[...] = 0
        self.views: dict[str, Array] = {
            name: self.data[begin : begin + shape_size(self.shapes[name])].reshape(
                self.shapes[name]
            )
            for name, (begin, _) in self.spans.items()
        }

    def like(self, dtype: DType | None = None) -> FlatBuffer:
        """Return a zeroed buffer of the same layout, for gradients or optimizer states."""
        return FlatBuffer(self.shapes, dtype or self.dtype, self.context)

    def runs(self, names: Iterable[str]) -> list[tuple[int, int]]:
        """Return the spans of the named arrays with adjacent ones merged."""
        merged: list[tuple[int, int]] = []
        for start, stop in sorted(self.spans[name] for name in names):
            if merged and merged[-1][1] == start:
                merged[-1] = (merged[-1][0], stop)
            else:
                merged.append((start, stop))
        return merged
