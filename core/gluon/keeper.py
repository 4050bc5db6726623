"""What parameters ask of the trainer whose key-value store keeps their values."""

from __future__ import annotations

from typing import Any, Protocol

from ..ndarray import NDArray

__all__ = ["Keeper", "store_updates"]


class Keeper(Protocol):
    """A trainer as its parameters see it.

    The names are MXNet's, so that its own ``Trainer`` is one, and those that people made of it.
    """

    _kv_initialized: bool
    _update_on_kvstore: bool | None
    _params_to_init: list[Any]

    def _reset_kvstore(self) -> None: ...

    def _row_sparse_pull(
        self, param: Any, out: Any, row_id: NDArray, full_idx: bool = False
    ) -> None: ...


def store_updates(trainer: Keeper, param: Any) -> bool:
    """Tell whether a trainer's store has a value of the parameter that it updates."""
    updates = trainer._kv_initialized and bool(trainer._update_on_kvstore)
    return updates and all(param is not one for one in trainer._params_to_init)
