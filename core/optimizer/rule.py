"""Optimizers given as a rule on raw memory, most of them run over flat buffers in pieces.

A rule reads and writes one-dimensional arrays. Where it treats every element alike, it is the same
whether it is given one parameter or a stretch of a flat buffer that holds many: a whole model is
then updated in one pass over memory, in pieces that stay in the cache.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from ..backends import backend_of
from ..device import Context
from ..kernels.optimizer_steps import FusedStep, GradientTerms, UpdateRule
from ..ndarray import NDArray
from ..ops.update_rules import Step, prepare
from ..types import Array, DType, is_half
from .base import Optimizer
from .sparse_rows import is_any_sparse, update_sparse

__all__ = ["Piece", "RuleOptimizer", "limit", "sum_of_squares"]

_FLOAT32 = np.dtype("float32")
_PIECE = 32768
"""Elements updated at a time on the CPU: weight, gradient, states and scratch stay in L2."""


@dataclasses.dataclass(slots=True)
class Piece:
    """A stretch of a device's memory to update, one-dimensional.

    ``scratch`` holds two arrays of the same length for the rule's own use. Not frozen, because
    ``piece.weight -= step`` assigns.
    """

    context: Context
    xp: Any
    weight: Array
    grad: Array
    states: tuple[Array, ...]
    scratch: tuple[Array, Array]


class RuleOptimizer(Optimizer):
    """Base of optimizers that are given by a rule.

    Attributes:
        whole_parameters: the rule must be given one whole parameter at a time, as where it looks at
            a norm. Without it the rule treats every element alike: it is given parts of parameters,
            and several of them at once.
        lazy_update: a ``row_sparse`` gradient updates its rows alone.
    """

    whole_parameters: ClassVar[bool] = False
    lazy_update: bool = False

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

    def fused_step(self, lr: float, wd: float, count: int) -> FusedStep | None:
        """Return what ``rule`` does with these arguments in a form that a backend may compute in
        one pass; None if there is none, so that ``rule`` runs."""
        return None

    def is_lazy(self, weight: NDArray) -> bool:
        """Return whether a ``row_sparse`` gradient of this weight updates its rows alone."""
        return self.lazy_update

    # -- states -----------------------------------------------------------------------------

    def create_state(self, index: Any, weight: NDArray) -> Any:
        """Return new states: None, one NDArray or a tuple, as MXNet keeps them."""
        dense = weight if weight.stype == "default" else weight.tostype("default")
        states = [dense.zeros_like() for _ in range(self.state_count())]
        self.start_states(dense.dense(), [state.dense_for_write() for state in states])
        return self.pack_states(states)

    def start_states(self, weight: Array, states: Sequence[Array]) -> None:
        """Give new states their first values; they are zero already."""

    def pack_states(self, states: Sequence[NDArray]) -> Any:
        """Give a parameter's states the form in which MXNet keeps them."""
        if not states:
            return None
        return states[0] if len(states) == 1 else tuple(states)

    def unpack_states(self, state: Any) -> tuple[NDArray, ...]:
        """Return a parameter's states as a tuple."""
        if state is None:
            return ()
        if isinstance(state, NDArray):
            return (state,)
        return tuple(one for one in state if one is not None)

    def check_states(self, index: Any, states: Sequence[NDArray], shape: tuple[int, ...]) -> None:
        """Raise ValueError unless there are as many states as needed, of the parameter's shape."""
        got, expected = [one.shape for one in states], [shape] * self.state_count()
        if got != expected:
            name = self.idx2name.get(index, index)
            raise ValueError(
                f"optimizer states of {name!r} have shapes {got}, expected {expected} for "
                f"{type(self).__name__}; load states saved by the same optimizer and model"
            )

    # -- updates ----------------------------------------------------------------------------

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """Update one weight, or several given as lists, which are counted together first."""
        if not isinstance(index, (list, tuple)):
            index, weight, grad, state = [index], [weight], [grad], [state]
        self._update_count(index)
        for key, value, gradient, kept in zip(index, weight, grad, state, strict=True):
            lr, wd = self._get_rates(key, value, gradient)
            self._apply(key, value, gradient, kept, lr, wd)

    def update_multi_precision(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """Update one weight, or several of one dtype given as lists; ``update`` is called alike."""
        is_list = isinstance(index, (list, tuple))
        weights, grads, states = (weight, grad, state) if is_list else ([weight], [grad], [state])
        if not self._keeps_master_copy(weights[0]):
            self.update(index, weight, grad, state)
            return
        masters, inner = zip(*states, strict=True)
        wide = [one.astype(np.float32) for one in grads]
        if is_list:
            self.update(index, masters, wide, inner)
        else:
            self.update(index, masters[0], wide[0], inner[0])
        for value, master in zip(weights, masters, strict=True):
            value[:] = master

    def _get_rates(self, index: Any, weight: NDArray, grad: NDArray) -> tuple[float, float]:
        """Return the learning rate and the weight decay of one parameter, multipliers included."""
        return self._get_lr(index), self._get_wd(index)

    def _apply(
        self, index: Any, weight: NDArray, grad: NDArray, state: Any, lr: float, wd: float
    ) -> None:
        """Run the rule on one parameter that has been counted."""
        states = self.unpack_states(state)
        self.check_states(index, states, weight.shape)
        count = self._index_update_count[index]
        if is_any_sparse((weight, grad, *states)):
            update_sparse(
                weight,
                grad,
                states,
                self.is_lazy(weight),
                lambda flat: self.update_span(weight.context, flat, lr, wd, count),
            )
            return
        written = [weight.dense_for_write(), *(one.dense_for_write() for one in states)]
        flat = [array.reshape(-1) for array in written]
        flat.insert(1, grad.dense().reshape(-1))
        self.update_span(weight.context, flat, lr, wd, count)
        # Of an array that is not contiguous, ``reshape`` has made a copy.
        for array, copy in zip(written, [flat[0], *flat[2:]], strict=True):
            if not array.flags.c_contiguous:
                array[...] = copy.reshape(array.shape)

    def update_span(
        self, context: Context, flat: Sequence[Array], lr: float, wd: float, count: int
    ) -> None:
        """Update one-dimensional memory: weight, gradient, then the states."""
        backend = backend_of(context)
        fused = self.fused_step(lr, wd, count)
        if fused is not None and backend.update(flat[0], flat[1], flat[2:], fused):
            return
        size = flat[0].shape[0]
        # A GPU gains nothing from pieces: there each operation is a launch over all elements.
        in_pieces = backend.xp is np and not self.whole_parameters
        step = _PIECE if in_pieces else max(size, 1)
        widens = backend.xp is np and is_half(flat[0].dtype)
        scratch = _scratch(context, min(step, size), _FLOAT32 if widens else flat[0].dtype)
        with backend.scope():
            for start in range(0, size, step):
                stop = min(start + step, size)
                parts = [array[start:stop] for array in flat]
                pair = (scratch[0][: stop - start], scratch[1][: stop - start])
                update = self._update_widened if widens else self._update_piece
                update(context, parts, pair, lr, wd, count)

    def _update_piece(
        self,
        context: Context,
        parts: Sequence[Array],
        scratch: tuple[Array, Array],
        lr: float,
        wd: float,
        count: int,
    ) -> None:
        weight, grad, *states = parts
        piece = Piece(context, backend_of(context).xp, weight, grad, tuple(states), scratch)
        self.rule(piece, lr, wd, count)

    def _update_widened(self, context: Context, parts: Sequence[Array], *settings: Any) -> None:
        """Update in float32: NumPy computes in half precision many times as slowly as it converts.

        What the rule writes is rounded once.
        """
        wide = [part.astype(_FLOAT32) for part in parts]
        self._update_piece(context, wide, *settings)
        for index, (part, new) in enumerate(zip(parts, wide, strict=True)):
            if index != 1:  # the gradient
                part[...] = new

    # -- shared steps of the rules ----------------------------------------------------------

    def prepare(self, piece: Piece, wd: float, *, decay_before_clip: bool = False) -> Step:
        """Return the step of a piece with the gradient ``clip(rescale_grad * grad) + wd * weight``.

        With ``decay_before_clip`` the decay is added before clipping, as Adam and RMSProp do.
        """
        step = Step(piece.xp, piece.weight, *piece.scratch, piece.weight)
        clip = limit(self.clip_gradient) or None
        prepare(step, piece.grad, self.rescale_grad, clip, wd, decay_before_clip=decay_before_clip)
        return step

    def fuse(self, rule: UpdateRule, wd: float, *, decay_before_clip: bool = False) -> FusedStep:
        """Return a step with the gradient that ``prepare`` computes."""
        clip = limit(self.clip_gradient)
        return FusedStep(GradientTerms(self.rescale_grad, clip, wd, decay_before_clip), rule)


def limit(magnitude: float | None) -> float:
    """Return a limit that a user gave, 0 for none; MXNet takes a negative one for none, too."""
    return max(magnitude or 0.0, 0.0)


def sum_of_squares(xp: Any, array: Array) -> float:
    """Return the sum of squares of a one-dimensional array, of half precision in float32."""
    wide = array.astype(np.float32) if is_half(array.dtype) else array
    return float(xp.dot(wide, wide))


_local = threading.local()
"""Scratch arrays by context and dtype, for each thread: optimizers of several models may run at the
same time."""


def _scratch(context: Context, size: int, dtype: DType) -> tuple[Array, Array]:
    pool: dict[Any, tuple[Array, Array]] = _local.__dict__
    pair = pool.get((context, dtype))
    if pair is None or pair[0].shape[0] < size:
        backend = backend_of(context)
        pair = (backend.empty((size,), dtype), backend.empty((size,), dtype))
        pool[(context, dtype)] = pair
    return pair
