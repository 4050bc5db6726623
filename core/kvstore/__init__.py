"""Stores of parameters shared by devices (``mx.kv``)."""

from __future__ import annotations

from core.kvstore.local import KVStore, create

__all__ = ["KVStore", "create"]
