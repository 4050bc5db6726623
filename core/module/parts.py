"""The parts of a module, for what is built upon the engine; MXNet has no names for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..kvstore import KVStore
from ..optimizer import Optimizer
from .group import ExecutorGroup
from .lifecycle import Stage, require_stage
from .updating import GroupUpdater

__all__ = ["ModuleParts"]


class ModuleParts:
    """What a ``Module`` is made of, and watching it."""

    _updates: GroupUpdater | None
    _exec_group: ExecutorGroup | None
    _groups: Mapping[Any, ExecutorGroup]
    _monitor: Any

    @property
    def executor_group(self) -> ExecutorGroup:
        """The executors of the present shapes, one for each device; StageError unless bound."""
        return self._group("executor_group")

    @property
    def optimizer(self) -> Optimizer | None:
        """The optimizer installed; None where there is none."""
        return self._updates.optimizer if self._updates else None

    @property
    def kvstore(self) -> KVStore | None:
        """The store that gradients or parameters go through; None where none is needed."""
        return self._updates.kvstore if self._updates else None

    def install_monitor(self, mon: Any) -> None:
        """Watch intermediate arrays of all devices, also under other shapes from now on."""
        self._group("install_monitor()").install_monitor(mon)
        self._monitor = mon

    def remove_monitor(self) -> None:
        """End the watch of the monitor installed: plans are rewritten and share memory again."""
        self._monitor = None
        for group in self._groups.values():
            for executor in group.execs:
                executor.set_monitor_callback(None)

    def _group(self, call: str) -> ExecutorGroup:
        if self._exec_group is None:
            require_stage(call, Stage.CREATED, Stage.BOUND)
        assert self._exec_group is not None
        return self._exec_group
