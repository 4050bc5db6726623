"""Optimizers whose update treats every element alike, run over flat buffers in cache-sized pieces.

A rule reads and writes raw arrays. It is the same whether it is given one parameter or a stretch of
a flat buffer that holds many: a whole model is then updated in one pass over memory.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from core.backends import backend_of
from core.device import Context
from core.ndarray import NDArray
from core.optimizer.base import Optimizer
from core.types import Array, DType

__all__ = ["ElementwiseOptimizer", "Piece"]

_PIECE = 32768
"""Elements updated at a time on the CPU: weight, gradient, states and scratch stay in L2."""


@dataclasses.dataclass(slots=True)
class Piece:
    """A stretch of memory to update, one-dimensional.

    ``scratch`` holds two arrays of the same length for the rule's own use. Not frozen, because
    ``piece.weight -= step`` assigns.
    """

    xp: Any
    weight: Array
    grad: Array
    states: tuple[Array, ...]
    scratch: tuple[Array, Array]


class ElementwiseOptimizer(Optimizer):
    """Base of optimizers that are given by a rule on elements."""

    def state_count(self) -> int:
        """How many state arrays a parameter has."""
        raise NotImplementedError(f"{type(self).__name__} must define state_count")

    def rule(self, piece: Piece, lr: float, wd: float, count: int) -> None:
        """Update ``piece.weight`` and ``piece.states`` in place; the gradient stays as it is.

        Args:
            piece: the memory to update.
            lr: learning rate, multiplier included.
            wd: weight decay, multiplier included.
            count: number of this update of the parameter, from 1.
        """
        raise NotImplementedError(f"{type(self).__name__} must define rule")

    def create_state(self, index: Any, weight: NDArray) -> Any:
        """Return zeroed states: None, one NDArray or a tuple, as MXNet keeps them."""
        return self.pack_states([weight.zeros_like() for _ in range(self.state_count())])

    def pack_states(self, states: Sequence[NDArray]) -> Any:
        """Give a parameter's states the form in which MXNet keeps them."""
        if not states:
            return None
        return states[0] if len(states) == 1 else tuple(states)

    def unpack_states(self, state: Any) -> tuple[NDArray, ...]:
        """Return a parameter's states as a tuple."""
        if state is None:
            return ()
        return (state,) if isinstance(state, NDArray) else tuple(state)

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """Update one weight, or each of several given as lists."""
        if isinstance(index, (list, tuple)):
            for one in zip(index, weight, grad, state, strict=True):
                self.update(*one)
            return
        self._update_count(index)
        written = [weight.data, *(one.data for one in self.unpack_states(state))]
        flat = [array.reshape(-1) for array in written]
        flat.insert(1, grad.data.reshape(-1))
        self.update_span(
            weight.context,
            flat,
            self._get_lr(index),
            self._get_wd(index),
            self._index_update_count[index],
        )
        for array, copy in zip(written, [flat[0], *flat[2:]], strict=True):
            if not array.flags.c_contiguous:
                array[...] = copy.reshape(array.shape)

    def update_span(
        self, context: Context, flat: Sequence[Array], lr: float, wd: float, count: int
    ) -> None:
        """Update one-dimensional memory: weight, gradient, then the states."""
        backend = backend_of(context)
        size = flat[0].shape[0]
        step = _PIECE if backend.xp is np else max(size, 1)
        scratch = _scratch(context, min(step, size), flat[0].dtype)
        with backend.scope():
            for start in range(0, size, step):
                stop = min(start + step, size)
                weight, grad, *states = (array[start:stop] for array in flat)
                pair = (scratch[0][: stop - start], scratch[1][: stop - start])
                self.rule(Piece(backend.xp, weight, grad, tuple(states), pair), lr, wd, count)

    # -- shared steps of the rules ----------------------------------------------------------

    def prepare(self, piece: Piece, wd: float, *, decay_before_clip: bool = False) -> Array:
        """Return ``clip(rescale_grad * grad) + wd * weight`` in the first scratch array.

        With ``decay_before_clip`` the decay is added before clipping, as Adam and RMSProp do.
        """
        xp, gradient, other = piece.xp, *piece.scratch
        xp.multiply(piece.grad, self.rescale_grad, out=gradient)
        if not decay_before_clip:
            self._clip(xp, gradient)
        if wd:
            xp.multiply(piece.weight, wd, out=other)
            gradient += other
        if decay_before_clip:
            self._clip(xp, gradient)
        return gradient

    def _clip(self, xp: Any, gradient: Array) -> None:
        if self.clip_gradient:
            xp.clip(gradient, -self.clip_gradient, self.clip_gradient, out=gradient)


_local = threading.local()


def _scratch(context: Context, size: int, dtype: DType) -> tuple[Array, Array]:
    pool: dict[Any, tuple[Array, Array]] = _local.__dict__
    pair = pool.get((context, dtype.str))
    if pair is None or pair[0].shape[0] < size:
        backend = backend_of(context)
        pair = (backend.empty((size,), dtype), backend.empty((size,), dtype))
        pool[(context, dtype.str)] = pair
    return pair
