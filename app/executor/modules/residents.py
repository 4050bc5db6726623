"""The modules on a device, within a budget of memory.

What was not used for the longest time goes first: at first the plans and buckets of predictions,
which are made anew from the module, then the versions beside the one in training, which are loaded
again from their checkpoints, then whole modules, which are restored from what is durable.
A module that a job works on or a call changes, or that has what is nowhere else, stays.
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
from app.executor.modules.process_memory import return_free_memory
from app.executor.modules.stepping import Stepper

__all__ = ["Residents"]

_log = logging.getLogger(__name__)

_AWAITED_SECONDS = 10.0


class Residents:
    """Modules and their steppers, those used last at the end.

    Attributes:
        budget_bytes: what they may take before those idle for the longest time go.
    """

    def __init__(
        self,
        budget_bytes: int,
        release: Callable[[str], None],
        evicted: Callable[[str], None] = lambda name: None,
    ) -> None:
        """Begin with none.

        Args:
            budget_bytes: see there.
            release: called with the name of a module that goes.
            evicted: called after that where it was put away for others.
        """
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
        """Return a module, which is in use now; raise KeyError."""
        self._awaited.pop(name, None)
        self._modules.move_to_end(name)
        return self._modules[name]

    def stepper(self, name: str) -> Stepper:
        """Return the stepper of a module; raise KeyError."""
        return self._steppers[name]

    def add(self, module: HostedModule, *, is_awaited: bool = False) -> None:
        """Take a module in.

        Args:
            is_awaited: a call on it is to come, until which it stays for a while; else two that
                are larger than the budget would put each other away for ever.
        """
        self._modules[module.name] = module
        if is_awaited:
            self._awaited[module.name] = time.monotonic() + _AWAITED_SECONDS
        self._steppers[module.name] = Stepper(module)

    @contextmanager
    def changing(self, name: str) -> Iterator[None]:
        """Keep a module for a block in which a call changes it, if it is there."""
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
        """Return what a module takes, as it was after its last call."""
        if name not in self._memory:
            self.measure(name)
        return self._memory[name]

    def has_other_plans(self, name: str) -> bool:
        """Return whether a module has other plans for predictions than when it was measured."""
        return self._modules[name].predict_plans() != self._plans.get(name)

    def measure(self, name: str) -> None:
        """Look anew at what a module takes."""
        module = self._modules.get(name)
        if module is not None:
            before = self._memory.get(name, {})
            self._memory[name] = memory_of(module)
            self._plans[name] = module.predict_plans()
            self._used_bytes += sum(self._memory[name].values()) - sum(before.values())

    @property
    def used_bytes(self) -> int:
        """What all modules take together."""
        return self._used_bytes

    def describe(self) -> dict[str, Any]:
        """Return the budget and the modules, with what each takes."""
        return {
            "memory_budget": {"bytes": self.budget_bytes, "used": self.used_bytes},
            "modules": [summarize(one) | {"memory": self.memory(one.name)} for one in self],
        }

    def keep_to_budget(self, but: str) -> None:
        """Release the least recently used memory until the rest is within the budget.

        Args:
            but: the module that a call was just for.
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
            # The last one is what the call is for.
            while not is_enough() and _drop_version(self._modules[but], but=1):
                self.measure(but)
        return_free_memory()

    def _forget_plans(self, name: str) -> None:
        if self._modules[name].forget_plans():
            _log.info("the plans of module %s were let go", name)
            self.measure(name)

    def _drop_versions(self, name: str) -> None:
        while _drop_version(self._modules[name]):
            _log.info("a version of module %s was let go", name)
            self.measure(name)

    def _put_away(self, name: str) -> None:
        module = self._modules[name]
        if time.monotonic() < max(module.stays_until, self._awaited.get(name, 0.0)):
            return
        if not module.has_unsaved and module.job_id is None and not module.is_changing:
            _log.info("module %s was put away", name)
            self.remove(name)
            self._evicted(name)


def _drop_version(module: HostedModule, but: int = 0) -> bool:
    """Release a version and all that was found out about it; see ``LoadedVersions.drop_oldest``."""
    module.learned.clear()
    return module.versions.drop_oldest(but)
