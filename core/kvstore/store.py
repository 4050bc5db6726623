"""Parameters shared by the devices of one machine (``mx.kv.create('local')``, ``'device'``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .. import autograd
from ..checkpoint import write_atomically
from ..errors import UsageError, did_you_mean
from ..ndarray import NDArray
from ..ndarray.sparse_array import RowSparseNDArray
from ..optimizer import Optimizer, get_updater
from .base import KVStoreBase
from .compression import TwoBitCompression, make_compression
from .reduction import add_up

__all__ = ["KVStore", "create"]

Updater = Callable[[Any, NDArray, NDArray], None]


class KVStore(KVStoreBase):
    """A value per key; values pushed by several devices are summed.

    With an optimizer (or an updater) a push is a gradient that updates the stored value; without
    one the sum replaces it. Keys are numbers or texts; several are given as a list, with a list of
    values, or of lists of values by device. Nothing that it does is recorded by autograd.

    Args:
        kind: the name it is made by.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._values: dict[Any, NDArray] = {}
        self._updater: Any = None
        self._compression: TwoBitCompression | None = None

    @property
    def type(self) -> str:
        """The name it was made by."""
        return self._kind

    @property
    def rank(self) -> int:
        """0: there is one worker."""
        return 0

    @property
    def num_workers(self) -> int:
        """1: there is one worker."""
        return 1

    @staticmethod
    def is_capable(capability: str) -> bool:
        """Return whether the store has a capability: ``"optimizer"`` is the only one."""
        if capability.lower() != KVStoreBase.OPTIMIZER:
            raise ValueError(f"Unknown capability: {capability}")
        return True

    @property
    def updater(self) -> Any:
        """What updates stored values; None before ``set_optimizer``."""
        return self._updater

    def init(self, key: Any, value: Any) -> None:
        """Store the first value of a key, or of each of a list of keys.

        Raises:
            UsageError: the key has a value already, or is of another type than those before.
        """
        for one, arrays in self._pairs(key, value):
            if one in self._values:
                raise UsageError(f"key {one!r} is initialized already; push to it instead")
            self._check_key(one)
            # Of values by device the first counts, as in MXNet.
            self._values[one] = arrays[0].copy()

    def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0) -> None:
        """Store the first value of a key and copy it to every array of ``out``."""
        self.init(key, value)
        self.pull(key, out, priority)

    def push(self, key: Any, value: Any, priority: int = 0) -> None:
        """Sum the values of the devices; update or replace what is stored.

        Raises:
            UsageError: a key that is not initialized.
        """
        with autograd.pause():
            for one, arrays in self._pairs(key, value):
                self._receive(one, arrays)

    def pull(
        self, key: Any, out: Any = None, priority: int = 0, ignore_sparse: bool = True
    ) -> None:
        """Copy the stored value to every array of ``out``.

        Args:
            key: one or several.
            out: arrays to copy to.
            priority: has no effect: calls run in their order.
            ignore_sparse: leave ``row_sparse`` arrays of ``out`` as they are; see
                ``row_sparse_pull``.
        """
        for one, arrays in self._pairs(key, _given("out", out)):
            stored = self._stored(one)
            for target in arrays:
                if target.stype == "default" or not ignore_sparse:
                    with autograd.pause():
                        stored.copyto(target)

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        """Push, then pull to ``out``, by default to the arrays pushed."""
        self.push(key, value, priority)
        self.pull(key, value if out is None else out, priority)

    def row_sparse_pull(
        self, key: Any, out: Any = None, priority: int = 0, row_ids: Any = None
    ) -> None:
        """Copy some rows of stored ``row_sparse`` values.

        Args:
            key: one or several.
            out: ``row_sparse`` arrays, per key and device; each gets its rows and no others.
            priority: has no effect: calls run in their order.
            row_ids: row numbers for each array of ``out``, or one for all.

        Raises:
            UsageError: ``out`` or the stored value is dense, or ``row_ids`` do not match ``out``.
        """
        _given("row_ids", row_ids)
        for position, (one, arrays) in enumerate(self._pairs(key, _given("out", out))):
            stored = self._stored(one)
            rows = _rows_of_key(key, position, row_ids, len(arrays))
            for target, ids in zip(arrays, rows, strict=True):
                if not isinstance(stored, RowSparseNDArray) or target.stype != "row_sparse":
                    raise UsageError(
                        f"row_sparse_pull of key {one!r}: stored is a {stored.stype} array, out "
                        f"a {target.stype} one; both must be row_sparse, else call pull"
                    )
                with autograd.pause():
                    stored.retain(ids).copyto(target)

    def set_gradient_compression(self, compression_params: Mapping[str, Any]) -> None:
        """Compress gradients on their way, as ``{'type': '2bit', 'threshold': 0.5}`` says.

        Raises:
            UsageError: the store does not compress, or a parameter is invalid.
        """
        if "device" not in self._kind:
            raise UsageError(
                f"Gradient compression is not supported for a {self._kind!r} kvstore; use 'device'"
            )
        self._compression = make_compression(compression_params)

    def set_optimizer(self, optimizer: Optimizer) -> None:
        """Update stored values with an optimizer from now on."""
        self._updater = get_updater(optimizer)

    def save_optimizer_states(self, fname: str, dump_optimizer: bool = False) -> None:
        """Write the optimizer's states to a file, with the optimizer itself on request."""
        write_atomically(Path(fname), self._require_updater().get_states(dump_optimizer))

    def load_optimizer_states(self, fname: str) -> None:
        """Read the optimizer's states from a file."""
        self._require_updater().set_states(Path(fname).read_bytes())

    def _set_updater(self, updater: Updater) -> None:
        self._updater = updater

    def _require_updater(self) -> Any:
        if self._updater is None:
            raise UsageError("the store has no optimizer; call set_optimizer first")
        return self._updater

    def _receive(self, key: Any, arrays: Sequence[NDArray]) -> None:
        stored = self._stored(key)
        if self._compression is not None:
            arrays = self._compression.compress(key, arrays)
        total = add_up(arrays, stored.context)
        if self._updater is not None:
            self._updater(key, total, stored)
        elif total.stype == stored.stype:
            total.copyto(stored)
        else:
            # A copy, because a single pushed array is its own total.
            self._values[key] = total.copy()

    def _stored(self, key: Any) -> NDArray:
        if key not in self._values:
            raise UsageError(f"key {key!r} is not initialized; call init with it first")
        return self._values[key]

    def _check_key(self, key: Any) -> None:
        if not isinstance(key, (int, str)):
            raise UsageError(f"unexpected type for keys: {type(key).__name__}; use int or str")
        # MXNet refuses mixed types, too: it numbers keys that are texts by itself.
        first = next(iter(self._values), key)
        if isinstance(first, str) is not isinstance(key, str):
            raise UsageError(
                f"inconsistent types of keys: {key!r}, and {first!r} before; use one type"
            )

    def _pairs(self, key: Any, value: Any) -> list[tuple[Any, list[NDArray]]]:
        if not isinstance(key, (list, tuple)):
            return [(key, [value] if isinstance(value, NDArray) else list(value))]
        if len(value) != len(key):
            raise UsageError(f"{len(value)} values for {len(key)} keys")
        nested = (self._pairs(one, val) for one, val in zip(key, value, strict=True))
        return [pair for pairs in nested for pair in pairs]


def _given(what: str, value: Any) -> Any:
    if value is None:
        raise UsageError(f"{what} is None; give the arrays")
    return value


def _rows_of_key(key: Any, position: int, row_ids: Any, count: int) -> Sequence[NDArray]:
    """Return the row numbers for each of the arrays of the key at a position."""
    one = key
    if isinstance(key, (list, tuple)):
        one = key[position]
        if isinstance(row_ids, (list, tuple)):
            row_ids = row_ids[0] if len(row_ids) == 1 else row_ids[position]
    rows = [row_ids] if isinstance(row_ids, NDArray) else list(row_ids)
    if len(rows) == 1:
        rows *= count
    if len(rows) != count:
        raise UsageError(f"key {one!r}: {len(rows)} row_ids for {count} arrays of out")
    return rows


_KINDS = ("local", "local_update_cpu", "local_allreduce_cpu", "local_allreduce_device", "device")
"""MXNet's names, which say where it computes sums."""


def create(name: str = "local") -> Any:
    """Return a store by its MXNet name, or by that of a registered class.

    Raises:
        UsageError: unknown name, or one of MXNet's stores for several machines (``dist_*``).
    """
    if not isinstance(name, str):
        raise TypeError(f"name must be a string, got {name!r}")
    name = name.lower()
    registered = KVStoreBase.kv_registry.get(name)
    if registered is not None:
        return registered()
    if name.startswith("dist"):
        raise UsageError(
            f"{name!r} is a store for several machines, which this version does not have; use "
            "'local' or 'device'"
        )
    if name not in _KINDS:
        raise UsageError(
            f"Unknown KVStore type {name!r}{did_you_mean(name, _KINDS)}; "
            f"use one of {', '.join(_KINDS)}"
        )
    return KVStore(name)
