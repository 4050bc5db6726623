"""Primitives: made from a description, run on fixed memory."""

from __future__ import annotations

import ctypes
import functools
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from core.backends.kernels import KernelResources, KernelUnavailable
from core.backends.onednn.constants import Argument, Query, ScratchpadMode, Status
from core.backends.onednn.memory import Memory, MemoryDesc, dims_array, loaded
from core.errors import DeviceError
from core.types import Array

__all__ = ["Attributes", "Primitive", "launch"]

_BYTES = np.dtype("uint8")
_SLOW = "ref"
"""Beginning of the names of implementations that are there for completeness."""

PostOperation = tuple[Any, ...]
"""("sum", scale), ("eltwise", algorithm, alpha, beta) or ("binary", algorithm, descriptor)."""


class _Argument(ctypes.Structure):
    _fields_ = (("index", ctypes.c_int), ("memory", ctypes.c_void_p))


class Attributes:
    """What a primitive does besides: post-operations, in order, on its result."""

    __slots__ = ("__weakref__", "handle")

    def __init__(self, post_operations: Sequence[PostOperation] = ()) -> None:
        api = loaded()
        self.handle = api.create("primitive_attr_create")
        weakref.finalize(self, api.destroy, "primitive_attr_destroy", self.handle).atexit = False
        api.call("primitive_attr_set_scratchpad_mode", self.handle, ScratchpadMode.USER)
        if post_operations:
            chain = api.create("post_ops_create")
            try:
                for operation in post_operations:
                    _append(chain, *operation)
                api.call("primitive_attr_set_post_ops", self.handle, chain)
            finally:
                api.destroy("post_ops_destroy", chain)


def _append(chain: int, kind: str, *parameters: Any) -> None:
    if kind == "sum":
        zero_point, data_type = 0, 0
        loaded().call("post_ops_append_sum", chain, *parameters, zero_point, data_type)
    elif kind == "eltwise":
        loaded().call("post_ops_append_eltwise", chain, *parameters)
    else:
        algorithm, desc = parameters
        loaded().call("post_ops_append_binary", chain, algorithm, desc.handle)


@functools.lru_cache(maxsize=256)
def _attributes(post_operations: tuple[PostOperation, ...]) -> Attributes:
    return Attributes(post_operations)


class Primitive:
    """A primitive and its description.

    Equal ones are made once (``Primitive.of``): code is generated for each.

    Attributes:
        handle: oneDNN's.
        description: of the primitive; a hint for those of the backward pass.
        implementation: name of what oneDNN chose, for example ``"jit:avx512_core"``.
    """

    __slots__ = ("__weakref__", "_descs", "description", "handle", "implementation")

    def __init__(
        self, kind: str, parameters: tuple[Any, ...], post_operations: tuple[PostOperation, ...]
    ) -> None:
        api = loaded()
        attributes = _attributes(post_operations)
        self.description = api.create(
            f"{kind}_primitive_desc_create", *map(_as_c, parameters), attributes.handle
        )
        weakref.finalize(
            self, api.destroy, "primitive_desc_destroy", self.description
        ).atexit = False
        self.implementation = self._query_implementation()
        if self.implementation.startswith(_SLOW) and kind != "reorder":
            raise KernelUnavailable(f"oneDNN has only {self.implementation} for this {kind}")
        self.handle = api.create("primitive_create", self.description)
        weakref.finalize(self, api.destroy, "primitive_destroy", self.handle).atexit = False
        self._descs: dict[Argument, MemoryDesc | None] = {}

    @staticmethod
    @functools.lru_cache(maxsize=4096)
    def of(kind: str, *parameters: Any, post: tuple[PostOperation, ...] = ()) -> Primitive:
        """Return the primitive of this kind.

        Args:
            kind: as in ``dnnl_<kind>_primitive_desc_create``.
            *parameters: of that function after the engine: numbers, descriptors (None for
                nothing), tuples of sizes, and the forward primitive as a hint.
            post: post-operations.

        Raises:
            KernelUnavailable: oneDNN has none, or only its slow reference.
        """
        if kind != "reorder":
            parameters = (loaded().engine, *parameters)
        return Primitive(kind, parameters, post)

    def desc(self, argument: Argument) -> MemoryDesc:
        """Return the descriptor of a tensor it works on."""
        found = self.optional_desc(argument)
        assert found is not None
        return found

    def optional_desc(self, argument: Argument) -> MemoryDesc | None:
        """Return the descriptor of a tensor; None where it needs none."""
        if argument not in self._descs:
            api = loaded()
            handle = api.get(
                "primitive_desc_query_md", self.description, Query.EXECUTION_ARGUMENT, argument
            )
            is_used = handle is not None and api.get("memory_desc_get_size", handle) > 0
            self._descs[argument] = MemoryDesc.copy_of(handle) if is_used else None
        return self._descs[argument]

    def _query_implementation(self) -> str:
        text = ctypes.c_char_p()
        loaded().call(
            "primitive_desc_query", self.description, Query.IMPLEMENTATION, 0, ctypes.byref(text)
        )
        return (text.value or b"").decode()


def launch(
    primitive: Primitive, tensors: Mapping[Argument, Array], resources: KernelResources
) -> Callable[[], None]:
    """Return a closure that runs a primitive on these arrays."""
    memories = {
        argument: Memory(primitive.desc(argument), array) for argument, array in tensors.items()
    }
    scratchpad = primitive.optional_desc(Argument.SCRATCHPAD)
    if scratchpad is None:
        return _call(primitive, memories)
    shape, scratch = (scratchpad.nbytes,), resources.scratch
    memory = Memory(scratchpad, resources.allocate(shape, _BYTES))
    execute = _call(primitive, {**memories, Argument.SCRATCHPAD: memory})

    def call() -> None:
        memory.move(scratch(shape, _BYTES))
        execute()

    return call


def _call(primitive: Primitive, memories: Mapping[Argument, Memory]) -> Callable[[], None]:
    api = loaded()
    execute, stream, count = api.execute, ctypes.c_void_p(api.stream), len(memories)
    handle = ctypes.c_void_p(primitive.handle)
    arguments = (_Argument * count)()
    for slot, (argument, memory) in zip(arguments, memories.items(), strict=True):
        slot.index, slot.memory = argument, memory.handle
    address = ctypes.c_void_p(ctypes.addressof(arguments))
    used = (primitive, memories, arguments)

    def call(keep_alive: object = used) -> None:
        status = execute(handle, stream, count, address)
        if status:
            raise DeviceError(f"oneDNN failed to run a primitive: {Status(status).name.lower()}")

    return call


def _as_c(parameter: Any) -> Any:
    """Return a parameter as ctypes takes it."""
    if isinstance(parameter, MemoryDesc):
        return parameter.handle
    if isinstance(parameter, Primitive):
        return parameter.description
    if not isinstance(parameter, tuple):
        return parameter
    if isinstance(parameter[0], MemoryDesc):
        return (ctypes.c_void_p * len(parameter))(*(desc.handle for desc in parameter))
    if isinstance(parameter[0], float):
        return (ctypes.c_float * len(parameter))(*parameter)
    return dims_array(parameter)
