"""Memory for calls: when it runs out, everything idle is evicted and the call is retried."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any, TypeAlias

from app.errors.tree import OutOfMemory
from app.executor.background import Waits
from app.executor.modules.loaded_modules import LoadedModules
from app.link import calls
from app.link.calls import CALL_NAMES
from app.link.protocols import Answer, Arrays, Computation

__all__ = ["Make", "MemoryManager"]

Make: TypeAlias = Callable[[], Waits[Mapping[str, Any] | None]]
"""Starts a call that is computed in steps."""

_CHANGE_NO_MEMORY = (
    *(calls.CutSymbols, calls.DeleteModule, calls.DescribeGraph, calls.GetOptimizer),
    *(calls.GetOutputs, calls.SummarizeParams),
    *(calls.GetParams, calls.GetStates, calls.ProposeShapes, calls.SaveCheckpoint),
)


class MemoryManager:
    """Runs calls within the available memory, and measures what each leaves allocated."""

    def __init__(self, loaded_modules: LoadedModules, release: Callable[[], None]) -> None:
        """Prepare.

        Args:
            loaded_modules: the modules on the device.
            release: returns unused memory to the device.
        """
        self._loaded_modules = loaded_modules
        self._release = release

    def free(self, but: str | None) -> None:
        """Evict everything that can be restored, except for one module."""
        self._loaded_modules.free_all(but)
        self._release()

    def answer(
        self, call: Any, handler: Callable[[], Answer | Computation]
    ) -> Answer | Computation:
        """Answer a call; if memory runs out, evict everything idle and try again."""
        name = _module_of(call)
        try:
            return handler()
        except MemoryError as error:
            reason = str(error)
        # Outside of the except block, so that the first attempt's frames and arrays are gone.
        self.free(name)
        if isinstance(call, calls.StepCall):  # it may have had effects already
            raise OutOfMemory(_what(call), reason)
        try:
            return handler()
        except MemoryError as error:
            raise OutOfMemory(_what(call), str(error)) from None

    def in_steps(self, call: Any, make: Make, *, is_exclusive: bool) -> Computation:
        """Return the computation of a call, which is restarted once if memory runs out.

        Args:
            is_exclusive: the call uses its module exclusively until it ends.
        """
        name = _module_of(call)
        assert name is not None

        def run(outputs: Arrays) -> Waits[Mapping[str, Any]]:
            try:
                with self._loaded_modules.changing(name) if is_exclusive else nullcontext():
                    result = yield from self._twice(call, make)
            finally:
                self.account(call)
            return result or {}

        return Computation({}, run, is_exclusive=is_exclusive)

    def _twice(self, call: Any, make: Make) -> Waits[Mapping[str, Any] | None]:
        try:
            return (yield from make())
        except MemoryError:
            pass
        self.free(_module_of(call))  # outside of the except block, as above
        try:
            return (yield from make())
        except MemoryError as error:
            raise OutOfMemory(_what(call), str(error)) from None

    def account(self, call: Any) -> None:
        """Measure the memory of a call's module, and keep all modules within the budget."""
        name = _module_of(call)
        if name is None or name not in self._loaded_modules or type(call) in _CHANGE_NO_MEMORY:
            return
        if isinstance(call, calls.Predict) and not self._loaded_modules.has_other_plans(name):
            return
        self._loaded_modules.measure(name)
        self._loaded_modules.keep_to_budget(name)


def _what(call: Any) -> str:
    return f"{CALL_NAMES[type(call)]} of module {_module_of(call)!r}"


def _module_of(call: Any) -> str | None:
    """Return the name of a call's module, or None."""
    if isinstance(call, calls.CreateModule | calls.RestoreModule):
        return call.record.name
    return call.module if isinstance(call, calls.OfModule) else None
