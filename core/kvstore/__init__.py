"""Stores of parameters shared by devices (``mx.kv``)."""

from __future__ import annotations

from core.kvstore.base import KVStoreBase, TestStore
from core.kvstore.store import KVStore, create

__all__ = ["KVStore", "KVStoreBase", "TestStore", "create"]
