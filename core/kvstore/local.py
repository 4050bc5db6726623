"""Parameters shared by the devices of one machine (``mx.kv.create('local')``, ``'device'``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from core.checkpoint import write_atomically
from core.errors import did_you_mean
from core.ndarray import NDArray
from core.optimizer import Optimizer, get_updater

__all__ = ["KVStore", "create"]

Updater = Callable[[Any, NDArray, NDArray], None]


class KVStore:
    """A value per key; values pushed by several devices are summed.

    With an optimizer (or an updater) a push is a gradient that updates the stored value; without
    one the sum replaces it.
    """

    def __init__(self, kind: str) -> None:
        self.type = kind
        self.rank = 0
        self.num_workers = 1
        self._values: dict[Any, NDArray] = {}
        self._updater: Any = None

    @staticmethod
    def is_capable(capability: str) -> bool:
        """Tell whether the store has a capability: ``"optimizer"`` is the one that exists."""
        return capability.lower() == "optimizer"

    def init(self, key: Any, value: Any) -> None:
        """Store the first value of a key, or of each of a list of keys.

        Raises:
            ValueError: the key has a value already.
        """
        for one, arrays in self._pairs(key, value):
            if one in self._values:
                raise ValueError(f"key {one!r} is initialized already; push to it instead")
            self._values[one] = arrays[0].copy()

    def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0) -> None:
        """Store the first value of a key and copy it to every array of ``out``."""
        self.init(key, value)
        self.pull(key, out, priority)

    def push(self, key: Any, value: Any, priority: int = 0) -> None:
        """Sum the values of the devices; update or replace what is stored."""
        for one, arrays in self._pairs(key, value):
            self._receive(one, arrays)

    def pull(
        self, key: Any, out: Any = None, priority: int = 0, ignore_sparse: bool = True
    ) -> None:
        """Copy the stored value to every array of ``out``."""
        for one, arrays in self._pairs(key, out):
            for target in arrays:
                self._stored(one).copyto(target)

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        """Push, then pull to ``out``, by default to the arrays pushed."""
        self.push(key, value, priority)
        self.pull(key, value if out is None else out, priority)

    def set_optimizer(self, optimizer: Optimizer) -> None:
        """Update stored values with an optimizer from now on."""
        self._updater = get_updater(optimizer)

    def save_optimizer_states(self, fname: str, dump_optimizer: bool = False) -> None:
        """Write the optimizer's states to a file."""
        write_atomically(Path(fname), self._require_updater().get_states(dump_optimizer))

    def load_optimizer_states(self, fname: str) -> None:
        """Read the optimizer's states from a file."""
        self._require_updater().set_states(Path(fname).read_bytes())

    def _set_updater(self, updater: Updater) -> None:
        self._updater = updater

    def _require_updater(self) -> Any:
        if self._updater is None:
            raise ValueError("the store has no optimizer; call set_optimizer first")
        return self._updater

    def _receive(self, key: Any, arrays: Sequence[NDArray]) -> None:
        stored = self._stored(key)
        total = arrays[0].as_in_context(stored.context)
        if len(arrays) > 1:
            total = total.copy() if total is arrays[0] else total
            for other in arrays[1:]:
                total += other.as_in_context(stored.context)
        if self._updater is None:
            total.copyto(stored)
        else:
            self._updater(key, total, stored)

    def _stored(self, key: Any) -> NDArray:
        if key not in self._values:
            raise ValueError(f"key {key!r} is not initialized; call init with it first")
        return self._values[key]

    def _pairs(self, key: Any, value: Any) -> list[tuple[Any, list[NDArray]]]:
        if not isinstance(key, (list, tuple)):
            return [(key, [value] if isinstance(value, NDArray) else list(value))]
        if len(value) == len(key):
            nested = (self._pairs(one, val) for one, val in zip(key, value, strict=True))
            return [pair for pairs in nested for pair in pairs]
        per_key, rest = divmod(len(value), len(key))
        if rest:
            raise ValueError(f"{len(value)} values for {len(key)} keys")
        return [(one, list(value[i * per_key : (i + 1) * per_key])) for i, one in enumerate(key)]


_KINDS = ("local", "local_update_cpu", "local_allreduce_cpu", "local_allreduce_device", "device")


def create(name: str = "local") -> KVStore:
    """Return a store by its MXNet name.

    Raises:
        ValueError: unknown name; ``dist_*`` stores need the cluster extra.
    """
    if not isinstance(name, str):
        raise TypeError(f"name is {name!r}; expected text")
    if name.startswith("dist"):
        raise ValueError(f"{name!r} runs on a cluster and needs the extra: modserve[cluster]")
    if name not in _KINDS:
        raise ValueError(
            f"Unknown KVStore type {name!r}{did_you_mean(name, _KINDS)}; "
            f"use one of {', '.join(_KINDS)}"
        )
    return KVStore(name)
