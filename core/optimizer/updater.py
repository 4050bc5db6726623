"""Applies an optimizer to indexed weights and keeps their states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from ..checkpoint import read_states, write_states
from ..executor.flat import FlatBuffer
from ..ndarray import NDArray
from ..types import is_half
from .base import Optimizer
from .rule import RuleOptimizer

__all__ = ["Updater", "get_updater"]


class Updater:
    """Update weights by index, making each one's state on first use (``mx.optimizer.Updater``)."""

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = optimizer
        self.states: dict[Any, Any] = {}
        self.states_synced: dict[Any, bool] = {}
        self.aggregate_updates = optimizer.aggregate_num > 0
        # Weak, because a module may be bound again, with new buffers.
        self._flat_states: WeakKeyDictionary[FlatBuffer, list[FlatBuffer]] = WeakKeyDictionary()

    def __getstate__(self) -> dict[str, Any]:
        # The flat states are those in `states`; they are made anew for the buffers of the copy.
        return {name: one for name, one in vars(self).items() if name != "_flat_states"}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)
        self.states_synced = dict.fromkeys(self.states, False)
        self._flat_states = WeakKeyDictionary()

    def __call__(self, index: Any, grad: Any, weight: Any) -> None:
        """Update one weight, or several given as lists."""
        if not isinstance(index, (list, tuple)):
            index, grad, weight = [index], [grad], [weight]
        if weight:
            self.optimizer._set_current_context(weight[0].context.device_id)
        entries = list(zip(index, weight, grad, strict=True))
        for key, value, _ in entries:
            self._ensure_state(key, value)
        if self.aggregate_updates:
            self._update_together(entries)
            return
        for key, value, gradient in entries:
            self.optimizer.update_multi_precision(key, value, gradient, self.states[key])

    def update_flat(
        self, indices: Mapping[str, Any], weights: FlatBuffer, grads: FlatBuffer
    ) -> None:
        """Update the named parameters of a flat buffer in as few passes as their rates allow.

        The numbers are those of one ``__call__`` per parameter.

        Args:
            indices: the optimizer's index of each parameter to update, by name.
            weights: the parameters.
            grads: their gradients, in the same layout.
        """
        optimizer = self.optimizer
        assert isinstance(optimizer, RuleOptimizer)
        optimizer._set_current_context(weights.context.device_id)
        states = self._states_of(optimizer, indices, weights)
        optimizer._update_count(list(indices.values()))
        for (lr, wd, count), names in self._group_by_rates(indices).items():
            for start, stop in weights.runs(names):
                buffers = (weights.data, grads.data, *(state.data for state in states))
                pieces = [buffer[start:stop] for buffer in buffers]
                optimizer.update_span(weights.context, pieces, lr, wd, count)
        weights.version.bump()

    def can_update_flat(self, weights: FlatBuffer) -> bool:
        """Return whether ``update_flat`` serves this optimizer and dtype.

        It does not call the optimizer's steps, so a script's own versions of them rule it out.
        """
        optimizer = self.optimizer
        master_copies = optimizer.multi_precision and is_half(weights.dtype)
        return (
            isinstance(optimizer, RuleOptimizer)
            and not optimizer.whole_parameters
            and not master_copies
            and all(_is_own(getattr(optimizer, step)) for step in _STEPS)
        )

    def get_states(self, dump_optimizer: bool = False) -> bytes:
        """Return the states, and on request the optimizer, in MXNet's pickled form."""
        return write_states((self.states, self.optimizer) if dump_optimizer else self.states)

    def set_states(self, states: bytes) -> None:
        """Take over states (and the optimizer, where contained) written by ``get_states``.

        Raises:
            FormatError: the bytes are not states, or name anything an optimizer does not need.
        """
        loaded = read_states(states)
        if isinstance(loaded, tuple) and len(loaded) == 2:
            self.states, self.optimizer = loaded
            self.aggregate_updates = self.optimizer.aggregate_num > 0
        else:
            self.states = loaded
        # They may be on another device than their weights; the next update of each moves them.
        self.states_synced = dict.fromkeys(self.states, False)
        self._flat_states.clear()

    def sync_state_context(self, state: Any, context: Any) -> Any:
        """Return a state moved to a context."""
        if isinstance(state, NDArray):
            return state.as_in_context(context)
        if isinstance(state, (list, tuple)):
            return type(state)(self.sync_state_context(one, context) for one in state)
        return state

    def _ensure_state(self, key: Any, weight: NDArray) -> None:
        if key not in self.states:
            self.states[key] = self.optimizer.create_state_multi_precision(key, weight)
        elif not self.states_synced[key]:
            self.states[key] = self.sync_state_context(self.states[key], weight.context)
        self.states_synced[key] = True

    def _update_together(self, entries: Sequence[tuple[Any, Any, Any]]) -> None:
        """Update weights of one dtype ``aggregate_num`` at a time, for optimizers that ask for it.

        LARS corrects the momentum of the parameters of one call, so it matters which these are.
        """
        by_dtype: dict[Any, list[tuple[Any, Any, Any]]] = {}
        for entry in entries:
            by_dtype.setdefault(entry[1].dtype, []).append(entry)
        size = self.optimizer.aggregate_num
        for alike in by_dtype.values():
            for start in range(0, len(alike), size):
                keys, weights, grads = zip(*alike[start : start + size], strict=True)
                states = [self.states[key] for key in keys]
                self.optimizer.update_multi_precision(keys, weights, grads, states)

    def _states_of(
        self, optimizer: RuleOptimizer, indices: Mapping[str, Any], weights: FlatBuffer
    ) -> list[FlatBuffer]:
        """Return the flat states of a buffer; made, or filled with loaded states, on first use."""
        flats = self._flat_states.get(weights)
        if flats is None:
            flats = [weights.like() for _ in range(optimizer.state_count())]
            for name, key in indices.items():
                self._adopt(optimizer, name, key, flats, weights)
            self._flat_states[weights] = flats
        return flats

    def _adopt(
        self,
        optimizer: RuleOptimizer,
        name: str,
        key: Any,
        flats: Sequence[FlatBuffer],
        weights: FlatBuffer,
    ) -> None:
        views = [NDArray(flat.views[name], weights.context) for flat in flats]
        if key in self.states:
            loaded = optimizer.unpack_states(self.states[key])
            optimizer.check_states(key, loaded, weights.shapes[name])
            for view, one in zip(views, loaded, strict=True):
                one.copyto(view)
        else:
            optimizer.start_states(weights.views[name], [view.dense_for_write() for view in views])
        self.states[key] = optimizer.pack_states(views)
        self.states_synced[key] = True

    def _group_by_rates(
        self, indices: Mapping[str, Any]
    ) -> dict[tuple[float, float, int], list[str]]:
        """Return names of parameters by learning rate, weight decay and count of updates, which a
        pass over memory has in common."""
        optimizer = self.optimizer
        groups: dict[tuple[float, float, int], list[str]] = {}
        for name, key in indices.items():
            count = optimizer._index_update_count[key]
            rates = (optimizer._get_lr(key), optimizer._get_wd(key), count)
            groups.setdefault(rates, []).append(name)
        return groups


_STEPS = ("create_state", "create_state_multi_precision", "update", "update_multi_precision")


def _is_own(method: Any) -> bool:
    """Return whether a method of an optimizer is one of this package."""
    return str(method.__module__).startswith(f"{__package__}.")


def get_updater(optimizer: Optimizer) -> Updater:
    """Return an ``Updater`` of an optimizer."""
    return Updater(optimizer)
