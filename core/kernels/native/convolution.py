"""The convolutions that the Winograd kernels support, and those for which they are fastest."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from ...capabilities.layers import Convolution as Layer
from ...types import Shape
from ..kernel import KernelRequest, Layout, TensorSpec
from ..onednn.convolution import Problem as DirectProblem
from ..onednn.convolution import has_channels_first
from ..onednn.kernel import are_float32
from ..onednn.memory import MemoryDesc, blocked, channels_last, layout_of
from . import library
from .structures import Problem, Tensor

__all__ = [
    "Convolution",
    "convolve_bytes",
    "described",
    "direct_problem",
    "is_last",
    "problem_of",
    "tensor_of",
    "tiles_together",
]

_FLOAT32 = np.dtype("float32")

_LANES = 16
_WINDOW = (3, 3)
_RESULTS, _RESULTS_IN_TRAINING = (2,), (2, 4)
"""Results along each axis of the tiles to choose from. Those of 4 are faster, but round more: their
results are twice as far from the exact ones as those of direct convolution, and would show in the
fifth digit of what a trained model predicts."""
_MOST_PADDING = 2
"""Times the dilation. With more, the convolution that gives the data's gradient would have negative
padding (``Convolution.transposed``)."""

_TILES, _TILES_OF_FEW = 30, 48
"""Largest number of tiles that a thread transforms together: whole blocks of rows of the matrix
products, which have 6 rows, or 12 or 16 for few output channels. For many channels it is not a
multiple of 4, because then the elements of a tile would be whole pages apart (4 tiles of 256
channels are 4 KiB) and compete for the same cache lines."""
_FEW = 32
"""Largest number of output channels that counts as few."""
_CACHE, _FEWEST_TILES = 1 << 20, 12
"""Size in bytes of a core's cache. Fewer tiles are transformed together where transformed weights,
which every tile needs, then stay in it; with fewer than this many, products take longer."""

_WEIGHTS_PER_RESULT = 2048
"""Largest ratio of weights (pairs of input and output channel) to results of an image for which
transformed weights are cached. They are two to four times as large, and with few results loading
them dominates the time. The ratio is per image, so that batches of any size share the weights."""
_FEWEST_RESULTS = 256
"""Smallest number of results of a batch for which transforming the weights in each pass pays."""
_TILES_PER_WEIGHT = 20
"""Tiles whose products take as long as transforming the weights, or loading what is cached."""
_LEAST_SAVING = 1.25
"""Smallest ratio of costs, direct to Winograd's, at which the kernels are used: multiplications are
not all that takes time. Tiles of pixels far apart, and of images of 7x7, reach far beyond the
edges, where direct convolutions skip what is zero."""


@dataclasses.dataclass(frozen=True)
class Convolution:
    """A 3x3 convolution, dilated or not, with stride 1 whose channels are in vectors of 16.

    Attributes:
        data, output: shapes, ``(images, channels, height, width)``.
        pad: rows above and columns left of the data.
        is_last: whether the layout is channels last, otherwise blocks of 16 channels.
        dilation: distance between the pixels of a window, in both directions.
        is_kept: whether transformed weights are cached; otherwise each pass transforms them.
        is_train: whether it is a pass of training.
    """

    data: Shape
    output: Shape
    pad: Shape
    is_last: bool
    dilation: int = 1
    is_kept: bool = False
    is_train: bool = False

    @classmethod
    def of(cls, request: KernelRequest[object], direct: DirectProblem) -> Convolution | None:
        """Return a step's convolution; None if the kernels do not support it or are not faster."""
        stride, dilation, pad, behind = direct.window
        channels = (direct.data[1], direct.output[1])
        is_simple = direct.weight[2:] == _WINDOW and not direct.has_groups
        if not is_simple or stride != (1, 1) or dilation[0] != dilation[1]:
            return None
        apart = dilation[0] + 1
        if max(*pad, *behind) > _MOST_PADDING * apart or any(count % _LANES for count in channels):
            return None
        data = request.inputs[0]
        assert data is not None
        found = cls(
            data=direct.data,
            output=direct.output,
            pad=pad,
            is_last=is_last(request, data),
            dilation=apart,
            is_kept=request.is_constant[1] and not request.is_train,
            is_train=request.is_train,
        )
        return found if found._wins() else None

    def _wins(self) -> bool:
        """Return whether the kernels are faster than direct convolution."""
        if self.is_kept:
            weights = self.data[1] * self.output[1]
            if math.prod(self.output[2:]) * _WEIGHTS_PER_RESULT < weights:
                return False
            if self.dilation == 1:
                return True
        elif self.output[0] * math.prod(self.output[2:]) < _FEWEST_RESULTS:
            return False
        return self._images * self._products >= _LEAST_SAVING * self._cost(self.results)

    @property
    def results(self) -> int:
        """The results of a tile along each axis: those that take the fewest multiplications."""
        return min(_RESULTS_IN_TRAINING if self.is_train else _RESULTS, key=self._cost)

    @property
    def _images(self) -> int:
        """The images by which tiles are chosen: batches of any size share weights that are kept."""
        return 1 if self.is_kept else self.output[0]

    def _cost(self, results: int) -> int:
        """The time for a pair of channels, in multiplications."""
        places = (results + _WINDOW[0] - 1) ** 2
        return places * (self._images * self._tiles_of_image(results) + _TILES_PER_WEIGHT)

    def _tiles_of_image(self, results: int) -> int:
        return math.prod(_tiles_along(size, self.dilation, results) for size in self.output[2:])

    @property
    def _most_tiles(self) -> int:
        """The largest number of tiles that a thread transforms together."""
        most = _TILES if self.output[1] > _FEW else _TILES_OF_FEW
        inputs, outputs = self.data[1], self.output[1]
        floats = _CACHE // _FLOAT32.itemsize // (self.results + _WINDOW[0] - 1) ** 2
        room = (floats - inputs * outputs) // (inputs + outputs)
        return min(most, room) if room >= _FEWEST_TILES else most

    @property
    def _products(self) -> int:
        """The multiplications of a direct convolution for each pair of channels of an image, except
        those with zeros beyond the edges."""
        # Rows and columns are independent: the windows' rows that lie inside, times their columns.
        counts = 1
        for size, wide, before in zip(self.data[2:], self.output[2:], self.pad, strict=True):
            firsts = (tap * self.dilation - before for tap in range(_WINDOW[0]))
            counts *= sum(max(min(wide, size - first) - max(0, -first), 0) for first in firsts)
        return counts

    @property
    def layouts(self) -> tuple[Layout | None, Layout | None]:
        """The layouts of data and output."""
        return layout_of(described(self.data, is_last=self.is_last)), layout_of(self.result_desc)

    @property
    def result_desc(self) -> MemoryDesc:
        """The output as oneDNN describes it."""
        return described(self.output, is_last=self.is_last)

    def transposed(self) -> Convolution:
        """Return the convolution of the output's gradient that gives the data's gradient."""
        pad = tuple(2 * self.dilation - before for before in self.pad)
        return dataclasses.replace(self, data=self.output, output=self.data, pad=pad)

    def as_c(self) -> Problem:
        """Return it as a C structure, for the current number of threads."""
        threads, results = library.threads(), self.results
        tiles = self.output[0] * self._tiles_of_image(results)
        return Problem(
            images=self.data[0],
            inputs=self.data[1],
            outputs=self.output[1],
            results=results,
            pad_y=self.pad[0],
            pad_x=self.pad[1],
            dilation=self.dilation,
            data=tensor_of(self.data, is_last=self.is_last),
            result=tensor_of(self.output, is_last=self.is_last),
            tiles=tiles_together(tiles, self._most_tiles, threads),
            threads=threads,
        )


def described(shape: Shape, *, is_last: bool) -> MemoryDesc:
    """Return images as oneDNN describes them, with channels last or in blocks of 16."""
    return channels_last(shape) if is_last else blocked(shape)


def tensor_of(shape: Shape, *, is_last: bool) -> Tensor:
    """Return images as C describes them."""
    _, channels, height, width = shape
    pixel = channels if is_last else _LANES
    return Tensor(
        height=height,
        width=width,
        image=channels * height * width,
        block=_LANES if is_last else height * width * _LANES,
        row=width * pixel,
        pixel=pixel,
    )


def tiles_together(count: int, most: int, threads: int) -> int:
    """Return the number of tiles that a thread transforms together, balanced between threads.

    Args:
        count: tiles of the batch.
        most: largest number.
        threads: number of threads.
    """
    turns = -(-count // (most * threads))
    tiles = -(-count // (turns * threads))
    return tiles if tiles % 4 else tiles + 1  # see _TILES


def _tiles_along(size: int, dilation: int, results: int) -> int:
    """Return the number of tiles along an axis; with a dilation, results so far apart are computed
    together."""
    each, longer = divmod(size, dilation)
    return longer * -(-(each + 1) // results) + (dilation - longer) * -(-each // results)


def is_last(request: KernelRequest[object], data: TensorSpec) -> bool:
    """Return whether to use channels last: as in the data's layout or, for plain data, as
    neighbouring oneDNN kernels do, which is channels last in inference and blocks in training or
    if the program prefers them."""
    last, blocks = layout_of(channels_last(data.shape)), layout_of(blocked(data.shape))
    if data.layout in (last, blocks):
        return data.layout == last
    return not request.is_train and not request.prefers_blocks


def convolve_bytes(problem: Problem) -> int:
    """Return the bytes of scratch memory for a convolution."""
    floats = library.loaded().winograd_convolve_scratch(problem) * problem.threads
    return int(floats * _FLOAT32.itemsize)


def direct_problem(request: KernelRequest[object], layer: Layer) -> DirectProblem | None:
    """Return a step's convolution as oneDNN would compute it; None if no kernel here can."""
    out = request.outputs[0]
    if library.library() is None or out is None or not are_float32(request):
        return None
    return DirectProblem.of(layer, request.inputs, out) if has_channels_first(layer) else None


def problem_of(request: KernelRequest[object], layer: Layer) -> Convolution | None:
    """Return the convolution of a step or of its gradients; None if another kernel shall compute
    it."""
    direct = direct_problem(request, layer)
    return None if direct is None else Convolution.of(request, direct)
