"""Stores of parameters shared by devices (``mx.kv``)."""

from __future__ import annotations

from . import kvstore
from .base import KVStoreBase, TestStore
from .choice import choose_kvstore, choose_sparse_kvstore
from .store import KVStore, create

__all__ = [
    "KVStore",
    "KVStoreBase",
    "TestStore",
    "choose_kvstore",
    "choose_sparse_kvstore",
    "create",
    "kvstore",
]
