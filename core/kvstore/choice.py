"""Which store a module or trainer uses, and whether it updates (MXNet's ``_create_kvstore``)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..config import updates_on_kvstore
from ..errors import UsageError
from ..ndarray import NDArray
from .base import KVStoreBase
from .store import create

__all__ = ["choose_kvstore", "choose_sparse_kvstore"]

_UPDATE_LIMIT = 16 * 1024 * 1024
"""Elements of the largest parameter up to which a local store updates, as in MXNet."""


def choose_kvstore(kvstore: Any, devices: int, arrays: Iterable[NDArray]) -> tuple[Any, bool]:
    """Return the store (or None) and whether it updates the parameters.

    Args:
        kvstore: a store, its name, or None.
        devices: how many devices there are; one needs no local store.
        arrays: the parameters.

    Raises:
        TypeError: ``kvstore`` is neither a store nor a name.
    """
    wanted = updates_on_kvstore()
    # With a single device, only other workers could have anything to add.
    if kvstore is None or (isinstance(kvstore, str) and devices == 1 and "dist" not in kvstore):
        return None, False
    if isinstance(kvstore, str):
        store = create(kvstore)
        if kvstore == "local":
            largest = max((_count(array) for array in arrays), default=0)
            wanted = wanted and largest <= _UPDATE_LIMIT
    elif isinstance(kvstore, KVStoreBase):
        store = kvstore
    else:
        raise TypeError(f"kvstore must be KVStore, str or None, got {type(kvstore).__name__}")
    return store, wanted and store.is_capable(KVStoreBase.OPTIMIZER)


def choose_sparse_kvstore(kvstore: Any) -> Any:
    """Return the store of ``row_sparse`` parameters, which always updates them.

    Raises:
        TypeError: ``kvstore`` is neither a store nor a name.
        UsageError: the store cannot update.
    """
    store = create(kvstore) if isinstance(kvstore, str) else kvstore
    if not isinstance(store, KVStoreBase):
        raise TypeError(
            f"Cannot create {kvstore!r} KVStore with row_sparse parameters. The type must be "
            "KVStore or str."
        )
    if not store.is_capable(KVStoreBase.OPTIMIZER):
        raise UsageError(
            f"a KVStore with sparse weights must update them, which {type(store).__name__} does "
            "not; use 'local' or 'device'"
        )
    return store


def _count(array: NDArray) -> int:
    count = 1
    for dim in array.shape:
        count *= dim
    return count
