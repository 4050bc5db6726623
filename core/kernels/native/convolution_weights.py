"""Transformed weights: cached as long as the weights do not change, or computed for each pass."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

import numpy as np

from ...types import Array
from ..kernel import KernelArrays, KernelResources
from ..onednn.kernel import present
from .library import loaded, pointer
from .structures import Lines, Problem

__all__ = ["Weights", "along_lines", "of_tiles"]

_FLOAT32 = np.dtype("float32")
_PLACES_OF_LINE = 6
"""Elements of a transformed tile along a line; each has a separate matrix of weights."""
_TRANSFORMED, _STORED, _TURNED = range(3)
"""Forms of weights in ``winograd.c``."""
_WEIGHTS_OF_THREAD = 1 << 20
"""Largest size in bytes of transformed weights that each thread makes for itself, in its cache."""
_SHORT = 4
"""Longest window along a line that has one part, and needs one matrix of each."""
_WEIGHT = 1
"""Position of the weights among a convolution's inputs."""

Transform = Callable[[Any, Any], None]
"""Transforms weights, given their address and that of the result."""


class Weights:
    """The weights of a convolution in the form that its kernel reads.

    Args:
        key: what tells the form from others.
        nbytes: size in that form.
        transform: makes it; None if the kernel does so in its own memory.
        is_kept: whether the plan caches them, which requires a version; otherwise they are
            transformed into the first ``scratch_bytes`` of the scratchpad.

    Attributes:
        key: what tells the form from others.
        nbytes: their size.
        scratch_bytes: what they take of the scratchpad.
    """

    def __init__(
        self, key: Hashable, nbytes: int, transform: Transform | None, *, is_kept: bool
    ) -> None:
        self.key, self.nbytes, self._transform = key, nbytes, transform
        self._is_kept = is_kept
        self.scratch_bytes = 0 if is_kept or transform is None else nbytes

    def bind(
        self,
        arrays: KernelArrays,
        resources: KernelResources,
        calls: list[Callable[[], Any]],
    ) -> Array:
        """Return their memory; a call that must precede the convolution is added to ``calls``."""
        weight = present(arrays.inputs[_WEIGHT])
        if self._transform is None:
            return weight
        if self._is_kept:
            make = partial(self.transform, weight)
            return resources.prepack(self.key, (_WEIGHT,), self.nbytes, make)
        target = present(resources.scratchpad)[: self.nbytes]
        calls.append(partial(self._transform, pointer(weight), pointer(target)))
        return target

    def transform(self, weight: Array, target: Array) -> None:
        """Transform weights of shape ``(outputs, inputs, rows, columns)`` into bytes."""
        assert self._transform is not None
        self._transform(pointer(weight), pointer(target))


def of_tiles(problem: Problem, *, is_kept: bool, is_turned: bool = False) -> Weights:
    """Return the weights of a 3x3 convolution, whose ``form`` is set.

    Args:
        problem: the convolution.
        is_kept: whether the plan caches them.
        is_turned: for the convolution of the output's gradient that gives the data's: its windows
            are rotated by 180 degrees.
    """
    outputs, inputs = problem.outputs, problem.inputs
    if is_turned:
        outputs, inputs = inputs, outputs
    results = problem.results
    nbytes = (results + 2) ** 2 * inputs * outputs * _FLOAT32.itemsize
    if not is_kept and nbytes <= _WEIGHTS_OF_THREAD:
        problem.form = _TURNED if is_turned else _STORED
        return Weights("stored", nbytes, None, is_kept=False)
    problem.form = _TRANSFORMED
    transform = partial(loaded().winograd_transform_weights, results, outputs, inputs, is_turned)
    return Weights(("winograd", results, is_turned), nbytes, transform, is_kept=is_kept)


def along_lines(problem: Lines, *, is_kept: bool) -> Weights:
    """Return the weights of a convolution with windows of 1xN or Nx1."""
    outputs, inputs, taps = problem.outputs, problem.inputs, problem.taps
    # A window of two parts has the depth of two times the inputs, as in `lines.c`.
    parts = 1 if taps <= _SHORT else 2
    transform = partial(loaded().winograd_1d_transform_weights, outputs, inputs, taps)
    nbytes = _PLACES_OF_LINE * parts * inputs * outputs * _FLOAT32.itemsize
    return Weights("lines", nbytes, transform, is_kept=is_kept)
