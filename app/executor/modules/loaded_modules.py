"""The modules on a device, within a budget of memory.

The least recently used memory is released first: plans and buckets of predictions, which can be
rebuilt from the module; then loaded versions, which can be loaded again from their checkpoints;
then whole modules, which are restored from durable data. A module that a job works on, that a call
is changing, or whose state exists only here, stays.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from app.executor.modules.describe import summarize
from app.executor.modules.hosted_module import HostedModule
from app.executor.modules.module_memory import memory_of
from app.executor.modules.process_memory import private_bytes, return_free_memory
from app.executor.modules.stepping import Stepper

__all__ = ["LoadedModules"]

_log = logging.getLogger(__name__)

_AWAITED_SECONDS = 10.0
"""The caller may have given up, so a restored module is not protected for longer."""


class LoadedModules:
    """Modules and their steppers, the most recently used last.

    Attributes:
        budget_bytes: memory that they may use before the least recently used are evicted.
    """

    def __init__(
        self,
        budget_bytes: int,
        release: Callable[[str], None],
        evicted: Callable[[str], None] = lambda name: None,
        *,
        is_apart: bool = False,
    ) -> None:
        """Create an empty collection.

        Args:
            budget_bytes: see the class.
            release: called with the name of a module that is removed.
            evicted: called after ``release`` if the module was evicted to make room.
            is_apart: the device has memory of its own.
        """
        self._is_apart = is_apart
        self._bytes_at_start = private_bytes()
        self.budget_bytes = budget_bytes
        self._release = release
        self._evicted = evicted
        self._modules: OrderedDict[str, HostedModule] = OrderedDict()
        self._steppers: dict[str, Stepper] = {}
        self._memory: dict[str, dict[str, int]] = {}
        self._plans: dict[str, int] = {}
        self._awaited: dict[str, float] = {}
        self._used_bytes = 0

    def __contains__(self, name: str) -> bool:
        return name in self._modules

    def __iter__(self) -> Iterator[HostedModule]:
        return iter(self._modules.values())

    def use(self, name: str) -> HostedModule:
        """Return a module and mark it as the most recently used; raise KeyError."""
        self._awaited.pop(name, None)
        self._modules.move_to_end(name)
        return self._modules[name]

    def stepper(self, name: str) -> Stepper:
        """Return the stepper of a module; raise KeyError."""
        return self._steppers[name]

    def add(self, module: HostedModule, *, is_awaited: bool = False) -> None:
        """Add a module.

        Args:
            is_awaited: a call on it follows, until which it is protected for a while; otherwise two
                modules that are larger than the budget would evict each other forever.
        """
        self._modules[module.name] = module
        if is_awaited:
            self._awaited[module.name] = time.monotonic() + _AWAITED_SECONDS
        self._steppers[module.name] = Stepper(module)

    @contextmanager
    def changing(self, name: str) -> Iterator[None]:
        """Protect a module, if it exists, from eviction while the block changes it."""
        module = self._modules.get(name)
        try:
            if module is not None:
                module.is_changing = True
            yield
        finally:
            if module is not None:
                module.is_changing = False

    def remove(self, name: str) -> None:
        """Release a module."""
        del self._modules[name]
        del self._steppers[name]
        self._used_bytes -= sum(self._memory.pop(name, {}).values())
        self._plans.pop(name, None)
        self._awaited.pop(name, None)
        self._release(name)

    def clear(self) -> None:
        """Release all modules."""
        self._modules.clear()
        self._steppers.clear()
        self._memory.clear()
        self._plans.clear()
        self._awaited.clear()
        self._used_bytes = 0

    # -- memory -------------------------------------------------------------------------------

    def memory(self, name: str) -> dict[str, int]:
        """Return the memory that a module used after its last call."""
        if name not in self._memory:
            self.measure(name)
        return self._memory[name]

    def has_other_plans(self, name: str) -> bool:
        """Return whether a module's plans for predictions have changed since it was measured."""
        return self._modules[name].predict_plans() != self._plans.get(name)

    def measure(self, name: str) -> None:
        """Measure again how much memory a module uses."""
        module = self._modules.get(name)
        if module is not None:
            before = self._memory.get(name, {})
            self._memory[name] = memory_of(module)
            self._plans[name] = module.predict_plans()
            self._used_bytes += sum(self._memory[name].values()) - sum(before.values())

    @property
    def used_bytes(self) -> int:
        """Memory of all modules in total."""
        return self._used_bytes

    def describe(self) -> dict[str, Any]:
        """Return the budget, and the modules with the memory of each."""
        in_process = 0 if self._is_apart else self.used_bytes
        return {
            "memory_budget": {
                "bytes": self.budget_bytes,
                "used": self.used_bytes,
                "other": max(0, private_bytes() - self._bytes_at_start - in_process),
            },
            "modules": [summarize(one) | {"memory": self.memory(one.name)} for one in self],
        }

    def keep_to_budget(self, but: str) -> None:
        """Release the least recently used memory until the rest is within the budget.

        Args:
            but: the module that was just called, which is spared.
        """
        self._free(lambda: self.used_bytes <= self.budget_bytes, but)

    def free_all(self, but: str | None) -> None:
        """Release everything that can be restored, except for one module's."""
        self._free(lambda: False, but)

    def _free(self, is_enough: Callable[[], bool], but: str | None) -> None:
        names = [name for name in self._modules if name != but]
        for step in (self._forget_plans, self._drop_versions, self._put_away):
            for name in names:
                if is_enough():
                    return
                step(name)
        if but is not None and but in self._modules:
            # The last one is the module that is being called.
            while not is_enough() and _drop_version(self._modules[but], but=1):
                self.measure(but)
        return_free_memory()

    def _forget_plans(self, name: str) -> None:
        if self._modules[name].forget_plans():
            _log.info("released the plans of module %s", name)
            self.measure(name)

    def _drop_versions(self, name: str) -> None:
        while _drop_version(self._modules[name]):
            _log.info("released a version of module %s", name)
            self.measure(name)

    def _put_away(self, name: str) -> None:
        module = self._modules[name]
        if time.monotonic() < max(module.stays_until, self._awaited.get(name, 0.0)):
            return
        if not module.has_unsaved and module.job_id is None and not module.is_changing:
            _log.info("evicted module %s", name)
            self.remove(name)
            self._evicted(name)


def _drop_version(module: HostedModule, but: int = 0) -> bool:
    """Release a version and what was learned about it; see ``LoadedVersions.drop_oldest``."""
    module.learned.clear()
    return module.versions.drop_oldest(but)
