"""The convolutions along lines that ``lines.c`` supports, and those for which it is fastest."""

from __future__ import annotations

import dataclasses

from ...capabilities.layers import Convolution as Layer
from ...types import Shape
from ..kernel import KernelRequest, Layout
from ..onednn.convolution import Problem as DirectProblem
from ..onednn.memory import MemoryDesc, layout_of
from . import library
from .convolution import described, direct_problem, is_last, tensor_of, tiles_together
from .structures import Lines

__all__ = ["LineConvolution", "line_problem_of"]

_LANES = 16
_PLACES = 6
"""Multiplications for a tile and a pair of channels, by part of the window."""
_LONGEST = 8
"""Longest window: two parts of 4."""
_TILES = 102
"""Largest number of tiles that a thread transforms together. There are fewer places than in a tile
of 4x4, so that more tiles fit the cache, and the weights are loaded less often."""
_LEAST_SAVING = 1.3
"""Smallest ratio of multiplications, direct to Winograd's, at which the kernel is faster."""
_WEIGHTS_PER_TILE = 16384
"""Largest ratio of weights (pairs of input and output channel) to tiles of an image: with fewer
tiles loading the transformed weights dominates the time."""


@dataclasses.dataclass(frozen=True)
class LineConvolution:
    """A convolution with a window of 1xN or Nx1 and stride 1 whose channels are in vectors of 16.

    Attributes:
        data, output: shapes, ``(images, channels, height, width)``.
        taps: length of the window.
        is_vertical: whether the window is a column.
        pad: pixels before the line.
        is_last: whether the layout is channels last, otherwise blocks of 16 channels.
    """

    data: Shape
    output: Shape
    taps: int
    is_vertical: bool
    pad: int
    is_last: bool

    @classmethod
    def of(cls, request: KernelRequest[object], direct: DirectProblem) -> LineConvolution | None:
        """Return a step's convolution; None if the kernel does not support it or is not faster."""
        stride, dilation, pad, _ = direct.window
        if direct.has_groups or len(direct.weight) != 4 or stride != (1, 1) or any(dilation):
            return None
        height, width = direct.weight[2:]
        if min(height, width) > 1 or not 2 < max(height, width) <= _LONGEST:
            return None
        across = 1 if height > 1 else 0
        channels = (direct.data[1], direct.output[1])
        if pad[across] or direct.data[2 + across] != direct.output[2 + across]:
            return None
        if request.is_train or not request.is_constant[1] or any(n % _LANES for n in channels):
            return None
        data = request.inputs[0]
        assert data is not None
        layout = is_last(request, data)
        found = cls(direct.data, direct.output, height * width, height > 1, pad[1 - across], layout)
        return found if found._wins() else None

    def _wins(self) -> bool:
        length, tiles = self.output[2 if self.is_vertical else 3], self._tiles_along
        parts = 2 if self.taps > _LONGEST // 2 else 1
        saving = length * self.taps / (tiles * parts * _PLACES)
        count = self._tiles // self.output[0]
        weights = self.data[1] * self.output[1]
        return saving >= _LEAST_SAVING and count * _WEIGHTS_PER_TILE >= weights

    @property
    def _tiles_along(self) -> int:
        """Tiles of a line: of four results with a window of 3, otherwise of three."""
        results = 4 if self.taps == 3 else 3
        return -(-self.output[2 if self.is_vertical else 3] // results)

    @property
    def _tiles(self) -> int:
        lines = self.output[3 if self.is_vertical else 2]
        return self.output[0] * lines * self._tiles_along

    @property
    def layouts(self) -> tuple[Layout | None, Layout | None]:
        """The layouts of data and output."""
        return layout_of(described(self.data, is_last=self.is_last)), layout_of(self.result_desc)

    @property
    def result_desc(self) -> MemoryDesc:
        """The output as oneDNN describes it."""
        return described(self.output, is_last=self.is_last)

    def as_c(self) -> Lines:
        """Return it as a C structure, for the current number of threads."""
        threads = library.threads()
        return Lines(
            images=self.data[0],
            inputs=self.data[1],
            outputs=self.output[1],
            taps=self.taps,
            is_vertical=self.is_vertical,
            pad=self.pad,
            data=tensor_of(self.data, is_last=self.is_last),
            result=tensor_of(self.output, is_last=self.is_last),
            tiles=tiles_together(self._tiles, _TILES, threads),
            threads=threads,
        )


def line_problem_of(request: KernelRequest[object], layer: Layer) -> LineConvolution | None:
    """Return the convolution of a step; None if another kernel shall compute it."""
    direct = direct_problem(request, layer)
    return None if direct is None else LineConvolution.of(request, direct)
