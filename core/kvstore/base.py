"""What every store of parameters offers, and the registry of kinds."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar

from ..ndarray import NDArray

__all__ = ["KVStoreBase", "TestStore"]

_T = TypeVar("_T", bound="type[KVStoreBase]")


class KVStoreBase:
    """Base of stores (``mx.kvstore.KVStoreBase``); a registered subclass is made by its name.

    @mx.kvstore.KVStoreBase.register
    class MyStore(mx.kvstore.KVStoreBase): ...

    mx.kv.create("mystore")
    """

    OPTIMIZER = "optimizer"
    """The capability to update values by an optimizer of its own."""

    kv_registry: ClassVar[dict[str, type[KVStoreBase]]] = {}

    def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0) -> None:
        """Store the first value of a key and copy it to every array of ``out``."""
        raise NotImplementedError(f"{type(self).__name__} must define broadcast")

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        """Sum the values of the devices; copy the sum to ``out``, by default to them."""
        raise NotImplementedError(f"{type(self).__name__} must define pushpull")

    def set_optimizer(self, optimizer: Any) -> None:
        """Update stored values with an optimizer from now on."""
        raise NotImplementedError(f"{type(self).__name__} has no optimizer")

    @staticmethod
    def is_capable(capability: str) -> bool:
        """Return whether the store has a capability: ``"optimizer"`` is the only one.

        A subclass may make it a method of its objects.
        """
        raise NotImplementedError("a KVStoreBase must define is_capable")

    def save_optimizer_states(self, fname: str, dump_optimizer: bool = False) -> None:
        """Write the optimizer's states to a file."""
        raise NotImplementedError(f"{type(self).__name__} has no optimizer")

    def load_optimizer_states(self, fname: str) -> None:
        """Read the optimizer's states from a file."""
        raise NotImplementedError(f"{type(self).__name__} has no optimizer")

    @property
    def type(self) -> str:
        """The name it was made by."""
        raise NotImplementedError(f"{type(self).__name__} must define type")

    @property
    def rank(self) -> int:
        """Which of the workers this is."""
        raise NotImplementedError(f"{type(self).__name__} must define rank")

    @property
    def num_workers(self) -> int:
        """How many workers there are."""
        raise NotImplementedError(f"{type(self).__name__} must define num_workers")

    @staticmethod
    def register(klass: _T) -> _T:
        """Register a class under its name in lower case."""
        name = klass.__name__.lower()
        known = KVStoreBase.kv_registry.get(name)
        if known is not None:
            warnings.warn(
                f"WARNING: New kvstore {klass.__module__}.{klass.__name__} is overriding existing "
                f"kvstore {known.__module__}.{known.__name__}",
                stacklevel=2,
            )
        KVStoreBase.kv_registry[name] = klass
        return klass


@KVStoreBase.register
class TestStore(KVStoreBase):
    """A store that keeps nothing: it only sums and copies (for tests of trainers)."""

    __test__ = False  # no test case, whatever pytest takes its name for

    type = "teststore"
    rank = 0
    num_workers = 1

    def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0) -> None:
        """Copy a value to every array of ``out``."""
        _fill(out, value)

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        """Sum the values; copy the sum to ``out``, by default to them."""
        arrays = _listed(value)
        context = arrays[0].context
        total = arrays[0].copy()
        for other in arrays[1:]:
            total += other.as_in_context(context)
        _fill(value if out is None else out, total)

    @staticmethod
    def is_capable(capability: str) -> bool:
        """Return False: there is no optimizer."""
        if capability.lower() != KVStoreBase.OPTIMIZER:
            raise ValueError(f"Unknown capability: {capability}")
        return False


def _listed(arrays: Any) -> Sequence[NDArray]:
    return [arrays] if isinstance(arrays, NDArray) else list(arrays)


def _fill(out: Any, value: NDArray) -> None:
    for target in _listed(out):
        target[:] = value
