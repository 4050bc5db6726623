"""The part of a trainer that parameters use, if its key-value store holds their values."""

from __future__ import annotations

from typing import Any, Protocol

from ..ndarray import NDArray

__all__ = ["Keeper", "store_updates"]


class Keeper(Protocol):
    """A trainer, as seen by its parameters.

    The names are MXNet's, so that MXNet's ``Trainer`` and forks of it fit.
    """

    _kv_initialized: bool
    _update_on_kvstore: bool | None
    _params_to_init: list[Any]

    def _reset_kvstore(self) -> None: ...

    def _row_sparse_pull(
        self, param: Any, out: Any, row_id: NDArray, full_idx: bool = False
    ) -> None: ...


def store_updates(trainer: Keeper, param: Any) -> bool:
    """Return whether a trainer's store holds and updates the parameter's value."""
    updates = trainer._kv_initialized and bool(trainer._update_on_kvstore)
    return updates and all(param is not one for one in trainer._params_to_init)
