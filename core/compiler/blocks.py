"""Whether a program's images are better stored in blocks of channels than with channels last.

oneDNN's own choice is channels last in inference. It is faster or as fast for most convolutions.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..capabilities import arrays, fused, layers
from ..capabilities.kinds import is_of
from ..capabilities.layers import Convolution
from ..types import shape_size
from .ir import Place, Program, Step

__all__ = ["prefers_blocks"]

_BLOCK = 16
"""Channels in a block: as many float32 as a vector of AVX-512 holds."""

_AXES_OF_IMAGES = 4
_POINTWISE, _SQUARE = (1, 1), (3, 3)
_POINTWISE_SHARE = 0.4
"""Share of 1x1 convolutions in a program's multiplications from which batches are faster in blocks:
these take 0.85 to 1 of the time of channels last, other convolutions up to 1.1."""


def prefers_blocks(program: Program) -> bool:
    """Return whether to store images in blocks of channels."""
    if program.is_train or program.backward_steps:
        return False  # where oneDNN by itself mostly chooses blocks
    joins = [step for step in program.steps if step.op.kind is arrays.CONCATENATION]
    if any(_joins_images(program, step) for step in joins):
        return all(_is_as_fast(program, step) for step in program.steps)
    return _is_pointwise(program)


def _joins_images(program: Program, step: Step) -> bool:
    """Return whether a concatenation needs no copies in blocks: all images are single ones whose
    channels fill whole blocks."""
    values = [program.values[slot] for slot in step.reads()]
    return all(
        len(value.shape) == _AXES_OF_IMAGES
        and value.shape[0] == 1
        and value.shape[1] % _BLOCK == 0
        and shape_size(value.shape[2:]) > 1  # single pixels are joined without copies in any layout
        for value in values
    )


def _is_as_fast(program: Program, step: Step) -> bool:
    """Return whether a step is as fast in blocks: a convolution of the graph's inputs, a 1x1
    convolution, a 3x3 convolution with a stride of 1, or none at all."""
    layer = _convolution_of(step)
    if layer is None:
        # Transposed convolutions have their own choice of layouts.
        return step.op.kind is not layers.DECONVOLUTION
    data, weight = (program.values[slot] for slot in step.reads()[:2])
    if data.place is Place.ARGUMENT:
        return True  # with its few channels, it chooses its own layouts whatever is preferred
    window = layer.window
    is_plain = window.stride == window.dilate == (1, 1) and layer.num_group == 1
    is_simple = is_plain and weight.shape[2:] in (_POINTWISE, _SQUARE)
    return is_simple and data.shape[1] % _BLOCK == 0


def _is_pointwise(program: Program) -> bool:
    """Return whether a program computes batches of images, with no grouped convolutions, and to a
    large part by 1x1 convolutions."""
    total = pointwise = 0
    for step, layer in _convolutions(program):
        (out,) = (program.values[slot].shape for slot in step.writes()[:1])
        weight = program.values[step.reads()[1]].shape
        if len(out) != _AXES_OF_IMAGES or out[0] == 1 or layer.num_group > 1:
            return False
        multiplications = shape_size(weight) * shape_size(out[2:])
        total += multiplications
        pointwise += multiplications * (weight[2:] == _POINTWISE)
    return total > 0 and pointwise >= _POINTWISE_SHARE * total


def _convolutions(program: Program) -> Iterator[tuple[Step, Convolution]]:
    for step in program.steps:
        layer = _convolution_of(step)
        if layer is not None:
            yield step, layer


def _convolution_of(step: Step) -> Convolution | None:
    if is_of(step.op, fused.CONVOLUTION):
        return step.op.layer
    return step.op if is_of(step.op, layers.CONVOLUTION) else None
