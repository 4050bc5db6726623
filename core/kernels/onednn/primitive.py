"""oneDNN's primitives: created from a description, run on fixed memory."""

from __future__ import annotations

import ctypes
import functools
import itertools
import math
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, TypeVar

import numpy as np

from ...types import Array
from ..kernel import KernelResources, KernelUnavailable, library_failure
from .constants import Argument, DataType, Query, ScratchpadMode
from .memory import Memory, MemoryDesc, dims_array, loaded

__all__ = [
    "Attributes",
    "Launch",
    "Primitive",
    "PrimitiveCall",
    "PrimitiveSequence",
    "first_available",
    "in_turn",
    "launch",
    "primitives_of",
    "scratchpad_bytes",
]

_BYTES = np.dtype("uint8")
_SLOW = "ref"
"""Prefix of the names of oneDNN's slow reference implementations."""
_SWIFT_REFERENCES = ("reorder", "vanilla_rnn", "lstm", "gru", "lbr_gru")
"""Kinds whose reference implementations are fast: those of recurrent layers call GEMM."""

_SCALES = "scales"

_LIGHT = (
    "binary",
    "concat",
    "eltwise",
    "pooling",
    "reduction",
    "reorder",
    "resampling",
    "softmax",
)
_LIGHT_ELEMENTS = 1 << 14
"""For each kind, the largest tensor, in elements, for which one thread is faster than waking
others."""
_LIGHT_PRODUCTS = 1 << 18
"""The same for inner products, in multiplications."""

PostOperation = tuple[Any, ...]
"""("sum", scale), ("eltwise", algorithm, alpha, beta) or ("binary", algorithm, descriptor); before
these, ("scales", argument, mask of the axes along which they differ)."""


class _Argument(ctypes.Structure):
    _fields_ = (("index", ctypes.c_int), ("memory", ctypes.c_void_p))


class Attributes:
    """Primitive attributes: post-operations applied in order to the result."""

    __slots__ = ("__weakref__", "handle")

    def __init__(self, post_operations: Sequence[PostOperation] = ()) -> None:
        api = loaded()
        self.handle = api.create("primitive_attr_create")
        weakref.finalize(self, api.destroy, "primitive_attr_destroy", self.handle).atexit = False
        api.call("primitive_attr_set_scratchpad_mode", self.handle, ScratchpadMode.USER)
        chained = [operation for operation in post_operations if operation[0] != _SCALES]
        for kind, *parameters in post_operations:
            if kind == _SCALES:
                api.call("primitive_attr_set_scales_mask", self.handle, *parameters)
        if chained:
            chain = api.create("post_ops_create")
            try:
                for operation in chained:
                    _append(chain, *operation)
                api.call("primitive_attr_set_post_ops", self.handle, chain)
            finally:
                api.destroy("post_ops_destroy", chain)


def _append(chain: int, kind: str, *parameters: Any) -> None:
    if kind == "sum":
        zero_point, data_type = 0, DataType.UNDEFINED
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

    Equal primitives are shared (``Primitive.of``), because oneDNN generates code for each.

    Attributes:
        handle: oneDNN's.
        is_light: whether it is created for one thread, and must run on one.
        description: the primitive descriptor; a hint for primitives of the backward pass.
        implementation: name of what oneDNN chose, for example ``"jit:avx512_core"``.
    """

    __slots__ = ("__weakref__", "_descs", "description", "handle", "implementation", "is_light")

    def __init__(
        self, kind: str, parameters: tuple[Any, ...], post_operations: tuple[PostOperation, ...]
    ) -> None:
        self.is_light = _is_light(kind, parameters)
        # oneDNN divides the work for as many threads as there are when a primitive is created.
        with loaded().one_thread() if self.is_light else nullcontext():
            self._create(kind, parameters, _attributes(post_operations))

    def _create(self, kind: str, parameters: tuple[Any, ...], attributes: Attributes) -> None:
        api = loaded()
        self.description = api.create(
            f"{kind}_primitive_desc_create", *map(_as_c, parameters), attributes.handle
        )
        weakref.finalize(
            self, api.destroy, "primitive_desc_destroy", self.description
        ).atexit = False
        self.implementation = self._query_implementation()
        if self.implementation.startswith(_SLOW) and not kind.startswith(_SWIFT_REFERENCES):
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
            KernelUnavailable: oneDNN has no implementation, or only its slow reference.
        """
        if kind != "reorder":  # which takes an engine for either end, among its parameters
            parameters = (loaded().engine, *parameters)
        return Primitive(kind, parameters, post)

    def desc(self, argument: Argument) -> MemoryDesc:
        """Return the descriptor of one of its arguments."""
        found = self.optional_desc(argument)
        assert found is not None
        return found

    def optional_desc(self, argument: Argument) -> MemoryDesc | None:
        """Return the descriptor of one of its arguments; None if it does not need that one."""
        if argument not in self._descs:
            api = loaded()
            handle = api.get(
                "primitive_desc_query_md", self.description, Query.EXECUTION_ARGUMENT, argument
            )
            is_used = handle is not None and api.get("memory_desc_get_size", handle) > 0
            # A copy: the descriptor that oneDNN returns ends with the primitive.
            self._descs[argument] = MemoryDesc.copy_of(handle) if is_used else None
        return self._descs[argument]

    def _query_implementation(self) -> str:
        text = ctypes.c_char_p()
        loaded().call(
            "primitive_desc_query", self.description, Query.IMPLEMENTATION, 0, ctypes.byref(text)
        )
        return (text.value or b"").decode()


_Case = TypeVar("_Case")
_Made = TypeVar("_Made")


def first_available(make: Callable[[_Case], _Made], cases: Iterable[_Case]) -> _Made:
    """Return the result for the first of these cases that is available.

    Raises:
        KernelUnavailable: none is; the error is that of the first case.
    """
    first: KernelUnavailable | None = None
    for case in cases:
        try:
            return make(case)
        except KernelUnavailable as error:
            first = first or error
    raise first or KernelUnavailable("there is no case to make a primitive of")


class PrimitiveCall(functools.partial[int]):
    """Runs a primitive and returns oneDNN's status. A partial, because it needs no Python frame.

    Attributes:
        primitive: the primitive.
        arguments: address of its arguments.
        count: number of arguments.
    """

    primitive: Primitive
    arguments: ctypes.c_void_p
    count: int


class Launch:
    """A primitive with its arguments at fixed addresses.

    Attributes:
        call: runs it and returns oneDNN's status.
    """

    __slots__ = ("call",)

    def __init__(self, primitive: Primitive, memories: Mapping[Argument, Memory]) -> None:
        api = loaded()
        arguments = (_Argument * len(memories))()
        for slot, (argument, memory) in zip(arguments, memories.items(), strict=True):
            slot.index, slot.memory = argument, memory.handle
        address = _Address(ctypes.addressof(arguments))
        address.used = (primitive, memories, arguments)
        self.call = PrimitiveCall(
            api.on_one_thread(api.execute) if primitive.is_light else api.execute,
            ctypes.c_void_p(primitive.handle),
            ctypes.c_void_p(api.stream),
            ctypes.c_int(len(memories)),
            address,
        )
        self.call.primitive, self.call.arguments = primitive, address
        self.call.count = len(memories)

    def __call__(self) -> None:
        """Run it; raise KernelError or MemoryError if it fails."""
        status = self.call()
        if status:
            raise library_failure(status)


class PrimitiveSequence:
    """Runs primitives one after the other; returns the status of the first that failed, or 0.

    Attributes:
        calls: the primitives.
    """

    __slots__ = ("calls",)

    def __init__(self, calls: Sequence[PrimitiveCall]) -> None:
        self.calls = calls

    def __call__(self) -> int:
        """Run them."""
        for call in self.calls:
            status = call()
            if status:
                return status
        return 0


def in_turn(launches: Sequence[Launch]) -> Callable[[], int]:
    """Return a closure that runs primitives one after the other and returns oneDNN's status."""
    calls = [one.call for one in launches]
    return calls[0] if len(calls) == 1 else PrimitiveSequence(calls)


def primitives_of(call: Callable[[], Any]) -> Sequence[PrimitiveCall]:
    """Return the primitives that a closure runs, if it runs nothing else; otherwise none."""
    if isinstance(call, PrimitiveCall):
        return (call,)
    return call.calls if isinstance(call, PrimitiveSequence) else ()


class _Address(ctypes.c_void_p):
    """An address, and a reference that keeps the memory alive."""

    used: object = None


def launch(
    primitive: Primitive,
    tensors: Mapping[Argument, Array],
    resources: KernelResources,
    descs: Mapping[Argument, MemoryDesc] | None = None,
) -> Launch:
    """Bind a primitive to arrays; ``descs`` are descriptors that it cannot be queried for."""
    known = descs or {}
    memories = {
        argument: _memory(known.get(argument) or primitive.desc(argument), array, resources)
        for argument, array in tensors.items()
    }
    scratchpad = primitive.optional_desc(Argument.SCRATCHPAD)
    if scratchpad is not None:
        shared = resources.scratchpad
        if shared is not None and shared.nbytes >= scratchpad.nbytes:
            array = shared[: scratchpad.nbytes]
        else:  # a primitive that fills cached memory, for which the kernel has not asked for any
            array = resources.allocate((scratchpad.nbytes,), _BYTES)
        memories[Argument.SCRATCHPAD] = _memory(scratchpad, array, resources)
    return Launch(primitive, memories)


def _memory(desc: MemoryDesc, array: Array, resources: KernelResources) -> Memory:
    """Return the memory object of a tensor, shared by all kernels of a plan."""
    # An address is not reused while its entry lives, because the object keeps the array alive.
    key = (desc, array.ctypes.data)
    found: Memory | None = resources.shared.get(key)
    if found is None:
        found = resources.shared[key] = Memory(desc, array)
    return found


def scratchpad_bytes(*primitives: Primitive) -> int:
    """Return the size of a scratchpad that is large enough for each of these primitives."""
    descs = [one.optional_desc(Argument.SCRATCHPAD) for one in primitives]
    return max((desc.nbytes for desc in descs if desc is not None), default=0)


def _is_light(kind: str, parameters: tuple[Any, ...]) -> bool:
    flat = itertools.chain.from_iterable(
        one if isinstance(one, tuple) else (one,) for one in parameters
    )
    sizes = [(len(one.dims), math.prod(one.dims)) for one in flat if isinstance(one, MemoryDesc)]
    if kind.startswith("inner_product"):
        # Rows, weights and results: each of the three lengths is in two of the sizes.
        return math.isqrt(math.prod(n for axes, n in sizes if axes > 1)) <= _LIGHT_PRODUCTS
    return kind.startswith(_LIGHT) and max(n for _, n in sizes) <= _LIGHT_ELEMENTS


def _as_c(parameter: Any) -> Any:
    """Convert a parameter for ctypes."""
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
