"""Stores under the path that scripts import them by (``mxnet.kvstore.kvstore``)."""

from __future__ import annotations

from .base import KVStoreBase
from .store import KVStore, create

__all__ = [
    "KVStore",
    "KVStoreBase",
    "create",
]
