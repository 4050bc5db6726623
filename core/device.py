"""Devices under MXNet's names: ``cpu(0)``, ``gpu(1)``, ``cpu_pinned(0)``."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import ClassVar

from .backends import backend_of
from .compat.class_attributes import ContextType
from .config import config
from .errors import DeviceError

__all__ = ["Context", "cpu", "cpu_pinned", "current_context", "gpu", "set_default_context"]


class Context(metaclass=ContextType):
    """A device. Several ``cpu(i)`` are logical devices on the same processor, as in MXNet.

    In a ``with`` statement it becomes the default context of the block.
    """

    devtype2str: ClassVar[dict[int, str]] = {1: "cpu", 2: "gpu", 3: "cpu_pinned", 5: "cpu_shared"}
    devstr2type: ClassVar[dict[str, int]] = {name: code for code, name in devtype2str.items()}
    _stack: ClassVar[threading.local] = threading.local()

    __slots__ = ("device_id", "device_typeid")

    def __init__(self, device_type: str | Context, device_id: int = 0) -> None:
        if isinstance(device_type, Context):
            self.device_typeid: int = device_type.device_typeid
            self.device_id: int = device_type.device_id
            return
        if device_type not in self.devstr2type:
            raise DeviceError(
                f"device type {device_type!r} is unknown; use one of {sorted(self.devstr2type)}"
            )
        if device_id < 0:
            raise DeviceError(f"device id {device_id} of {device_type!r} is negative")
        if device_type == "gpu" and config.gpu_as_cpu:
            device_type = "cpu"
        self.device_typeid = self.devstr2type[device_type]
        self.device_id = int(device_id)

    @property
    def device_type(self) -> str:
        """``"cpu"``, ``"gpu"``, ``"cpu_pinned"`` or ``"cpu_shared"``."""
        return self.devtype2str[self.device_typeid]

    def empty_cache(self) -> None:
        """Free device memory that the backend keeps for future arrays."""
        backend_of(self).release()

    @classmethod
    def _current(cls) -> Context:
        # By `__dict__`, which holds this thread's attributes, because some may not be set yet.
        stack = cls._stack.__dict__.get("contexts")
        context: Context = stack[-1] if stack else cls._stack.__dict__.get("default", _CPU)
        return context

    @classmethod
    def _replace_current(cls, context: Context) -> None:
        stack = cls._stack.__dict__.get("contexts")
        if stack:
            stack[-1] = context
        else:
            set_default_context(context)

    def __hash__(self) -> int:
        return hash((self.device_typeid, self.device_id))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Context) and hash(self) == hash(other)

    def __repr__(self) -> str:
        return f"{self.device_type}({self.device_id})"

    __str__ = __repr__

    def __reduce__(self) -> tuple[type[Context], tuple[str, int]]:
        return Context, (self.device_type, self.device_id)

    def __enter__(self) -> Context:
        stack = self._stack.__dict__.setdefault("contexts", [])
        stack.append(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self._stack.contexts.pop()


def cpu(device_id: int = 0) -> Context:
    """Return the CPU context with this number."""
    return Context("cpu", device_id)


def cpu_pinned(device_id: int = 0) -> Context:
    """Return the pinned-memory context; it behaves as ``cpu``."""
    return Context("cpu_pinned", device_id)


def gpu(device_id: int = 0) -> Context:
    """Return the context of a CUDA device. Whether it exists is checked on first use."""
    return Context("gpu", device_id)


def current_context() -> Context:
    """Return the context of the innermost ``with`` block, or this thread's default."""
    return Context._current()


def set_default_context(ctx: Context) -> None:
    """Set this thread's default context, which is initially ``cpu(0)``."""
    Context._stack.default = ctx


_CPU = Context("cpu", 0)
