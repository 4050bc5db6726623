"""Stores under the path that scripts import them by (``mxnet.kvstore.kvstore``)."""

from __future__ import annotations

from core.kvstore.base import KVStoreBase
from core.kvstore.store import KVStore, create

__all__ = [
    "KVStore",
    "KVStoreBase",
    "create",
]
