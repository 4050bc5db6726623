"""Stores of parameters shared by devices (``mx.kv``)."""

from __future__ import annotations

from core.kvstore import kvstore
from core.kvstore.base import KVStoreBase, TestStore
from core.kvstore.choice import choose_kvstore, choose_sparse_kvstore
from core.kvstore.store import KVStore, create

__all__ = [
    "KVStore",
    "KVStoreBase",
    "TestStore",
    "choose_kvstore",
    "choose_sparse_kvstore",
    "create",
    "kvstore",
]
