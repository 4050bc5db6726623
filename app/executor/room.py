"""Memory for calls: if there is none all that is idle is put away, and the call made again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any, TypeAlias

from app.errors import OutOfMemory
from app.executor.background import Waits
from app.executor.modules.residents import Residents
from app.link import calls
from app.link.calls import CALL_NAMES
from app.link.protocols import Answer, Arrays, Computation

__all__ = ["Make", "Room"]

Make: TypeAlias = Callable[[], Waits[Mapping[str, Any] | None]]
"""Begins what a call does in steps."""

_CHANGE_NO_MEMORY = (
    *(calls.CutSymbols, calls.DeleteModule, calls.DescribeGraph, calls.GetOptimizer),
    *(calls.GetOutputs, calls.SummarizeParams),
    *(calls.GetParams, calls.GetStates, calls.ProposeShapes, calls.SaveCheckpoint),
)


class Room:
    """Makes calls within the memory that there is, and counts what each leaves behind."""

    def __init__(self, residents: Residents, release: Callable[[], None]) -> None:
        """Prepare.

        Args:
            residents: the modules on the device.
            release: gives memory that nobody uses back to the device.
        """
        self._residents = residents
        self._release = release

    def make(self, but: str | None) -> None:
        """Put away all that can be had again, but for one module."""
        self._residents.free_all(but)
        self._release()

    def answer(
        self, call: Any, handler: Callable[[], Answer | Computation]
    ) -> Answer | Computation:
        """Answer a call; if there is no memory, again after all that is idle was put away."""
        name = _module_of(call)
        try:
            return handler()
        except MemoryError as error:
            reason = str(error)
        # The frames of the first attempt are gone, and with them their arrays.
        self.make(name)
        if isinstance(call, calls.StepCall):  # a part of it may be done
            raise OutOfMemory(_what(call), reason)
        try:
            return handler()
        except MemoryError as error:
            raise OutOfMemory(_what(call), str(error)) from None

    def in_steps(self, call: Any, make: Make, *, is_exclusive: bool) -> Computation:
        """Return the computation of a call, which is begun again if there is no memory.

        Args:
            is_exclusive: the call has its module to itself until it ends.
        """
        name = _module_of(call)
        assert name is not None

        def run(outputs: Arrays) -> Waits[Mapping[str, Any]]:
            try:
                with self._residents.changing(name) if is_exclusive else nullcontext():
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
        self.make(_module_of(call))  # the frames of the first attempt are gone here as well
        try:
            return (yield from make())
        except MemoryError as error:
            raise OutOfMemory(_what(call), str(error)) from None

    def account(self, call: Any) -> None:
        """Look what a call's module takes now, and keep all of them within the budget."""
        name = _module_of(call)
        if name is None or name not in self._residents or type(call) in _CHANGE_NO_MEMORY:
            return
        if isinstance(call, calls.Predict) and not self._residents.has_other_plans(name):
            return
        self._residents.measure(name)
        self._residents.keep_to_budget(name)


def _what(call: Any) -> str:
    return f"{CALL_NAMES[type(call)]} of module {_module_of(call)!r}"


def _module_of(call: Any) -> str | None:
    """Return the name of the module that a call is on, None for one that is on none."""
    if isinstance(call, calls.CreateModule | calls.RestoreModule):
        return call.record.name
    return call.module if isinstance(call, calls.OfModule) else None
