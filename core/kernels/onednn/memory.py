"""Memory descriptors, the layouts made of them, and memory objects."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import math
import weakref
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from ...types import Array, DType, Shape
from ..kernel import KernelUnavailable, TensorSpec
from .constants import MAX_DIMENSIONS, DataType, FormatKind, FormatTag, Query
from .library import Library, library

__all__ = [
    "BlockedLayout",
    "Memory",
    "MemoryDesc",
    "alternatives",
    "any_layout",
    "blocked",
    "box_of",
    "channels_last",
    "data_type_of",
    "desc_of",
    "dims_array",
    "innermost",
    "layout_of",
    "loaded",
    "permuted",
    "plain",
    "reshaped",
    "sample_of",
    "strided",
]

_DTYPES: dict[int, DType] = {
    DataType.FLOAT32: np.dtype("float32"),
    DataType.INT32: np.dtype("int32"),
    DataType.INT8: np.dtype("int8"),
    DataType.UINT8: np.dtype("uint8"),
}
"""The dtypes of tensors. Kernels take no tensors of bfloat16, but may keep those of float32 so."""
_BYTES_OF_BFLOAT16 = 2
_DATA_TYPES = {dtype: DataType(number) for number, dtype in _DTYPES.items()}

_DimsBuffer = ctypes.c_int64 * MAX_DIMENSIONS


def loaded() -> Library:
    """Return the library; KernelUnavailable if there is none."""
    found = library()
    if found is None:
        raise KernelUnavailable("oneDNN is not installed")
    return found


def dims_array(values: Sequence[int]) -> Any:
    """Return sizes, strides or paddings as a C array for oneDNN."""
    return _DimsBuffer(*values)


def data_type_of(dtype: DType) -> DataType:
    """Return oneDNN's number of a dtype; KernelUnavailable if it has none here."""
    found = _DATA_TYPES.get(dtype)
    if found is None:
        raise KernelUnavailable(f"oneDNN is not used on tensors of {dtype}")
    return found


class MemoryDesc:
    """A memory descriptor: the sizes of a tensor and the arrangement of its elements.

    Descriptors with equal contents are equal.

    Attributes:
        handle: oneDNN's.
        dims: the sizes.
        data_type: of the elements.
        nbytes: size with padding; 0 if a primitive is to choose the layout.
    """

    __slots__ = ("__weakref__", "_key", "data_type", "dims", "handle", "nbytes")

    def __init__(
        self,
        handle: int,
        key: Hashable,
        dims: Shape,
        nbytes: int,
        data_type: DataType = DataType.FLOAT32,
    ) -> None:
        self.handle = handle
        self.dims = dims
        self.data_type = data_type
        self.nbytes = nbytes
        self._key = key
        # Not at exit, when the process frees everything at once.
        weakref.finalize(self, loaded().destroy, "memory_desc_destroy", handle).atexit = False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MemoryDesc) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @classmethod
    def copy_of(cls, handle: int) -> MemoryDesc:
        """Return a copy of a descriptor that belongs to a primitive.

        Raises:
            KernelUnavailable: its layout is not one of blocks.
        """
        dims = tuple(_query_dims(handle, Query.DIMENSIONS))
        if _query_int(handle, Query.FORMAT_KIND) != FormatKind.BLOCKED:
            raise KernelUnavailable(f"oneDNN has an opaque layout for a tensor of {dims}")
        padded = tuple(_query_dims(handle, Query.PADDED_DIMENSIONS))
        strides = tuple(_query_dims(handle, Query.STRIDES))
        count = _query_int(handle, Query.INNER_BLOCK_COUNT)
        blocks = tuple(_query_dims(handle, Query.INNER_BLOCKS, count))
        axes = tuple(_query_dims(handle, Query.INNER_AXES, count))
        data_type = DataType(_query_int(handle, Query.DATA_TYPE))
        key: Hashable = (data_type, dims, padded, _significant(strides, padded), blocks, axes)
        nbytes = loaded().get("memory_desc_get_size", handle)
        if data_type in (DataType.FLOAT32, DataType.BFLOAT16) and not blocks:
            # oneDNN's own size includes the stride after the last element.
            nbytes = _span(padded, strides) * _itemsize(data_type)
        elif data_type == DataType.INT8 and nbytes > math.prod(padded):
            # int8 weights followed by compensation sums, which strides do not describe.
            key = (key, nbytes)
        return cls(loaded().create("memory_desc_clone", handle), key, dims, nbytes, data_type)


def plain(dims: Shape, data_type: DataType = DataType.FLOAT32) -> MemoryDesc:
    """Return the descriptor of a C-contiguous tensor."""
    return strided(dims, _c_strides(dims), data_type)


@functools.lru_cache(maxsize=4096)
def strided(dims: Shape, strides: Shape, data_type: DataType = DataType.FLOAT32) -> MemoryDesc:
    """Return the descriptor of a tensor with these strides, in elements.

    Its memory extends from its first element to its last.
    """
    handle = loaded().create(
        "memory_desc_create_with_strides",
        len(dims),
        dims_array(dims),
        data_type,
        dims_array(strides),
    )
    key = (data_type, dims, dims, _significant(strides, dims), (), ())
    nbytes = _span(dims, strides) * _itemsize(data_type)
    return MemoryDesc(handle, key, dims, nbytes, data_type)


def channels_last(dims: Shape, data_type: DataType = DataType.FLOAT32) -> MemoryDesc:
    """Return the descriptor of a tensor whose second axis lies innermost in memory."""
    return innermost(dims, 1, data_type)


@functools.lru_cache(maxsize=4096)
def blocked(dims: Shape) -> MemoryDesc:
    """Return the descriptor of images ``(N, C, H, W)`` whose channels lie in blocks of 16."""
    api = loaded()
    handle = api.create(
        "memory_desc_create_with_tag",
        len(dims),
        dims_array(dims),
        DataType.FLOAT32,
        FormatTag.BLOCKS_OF_16_CHANNELS,
    )
    try:
        return MemoryDesc.copy_of(handle)
    finally:
        api.destroy("memory_desc_destroy", handle)


def innermost(dims: Shape, axis: int, data_type: DataType = DataType.FLOAT32) -> MemoryDesc:
    """Return the descriptor of a tensor one of whose axes lies innermost in memory."""
    order = [*(other for other in range(len(dims)) if other != axis), axis]
    strides = [0] * len(dims)
    for place, stride in zip(order, _c_strides(tuple(dims[o] for o in order)), strict=True):
        strides[place] = stride
    return strided(dims, tuple(strides), data_type)


@functools.lru_cache(maxsize=4096)
def box_of(whole: MemoryDesc, start: Shape, dims: Shape) -> MemoryDesc:
    """Return the descriptor of a box of a tensor; its memory is the tensor's.

    Raises:
        KernelUnavailable: the box cuts the layout's blocks.
    """
    handle = loaded().create(
        "memory_desc_create_submemory", whole.handle, dims_array(dims), dims_array(start)
    )
    return MemoryDesc(handle, (whole, start, dims), dims, whole.nbytes, whole.data_type)


@functools.lru_cache(maxsize=4096)
def permuted(whole: MemoryDesc, axes: Shape) -> MemoryDesc:
    """Return the descriptor of a tensor's memory whose axis ``i`` is the tensor's ``axes[i]``."""
    # oneDNN takes the inverse permutation: where each axis goes.
    places = (ctypes.c_int * MAX_DIMENSIONS)()
    for place, axis in enumerate(axes):
        places[axis] = place
    handle = loaded().create("memory_desc_permute_axes", whole.handle, places)
    dims = tuple(whole.dims[axis] for axis in axes)
    return MemoryDesc(handle, (whole, axes), dims, whole.nbytes, whole.data_type)


@functools.lru_cache(maxsize=4096)
def reshaped(whole: MemoryDesc, dims: Shape) -> MemoryDesc:
    """Return the descriptor of a tensor's memory with axes of length 1 inserted or removed.

    Raises:
        KernelUnavailable: the layout cannot express that.
    """
    api = loaded()
    handle = api.create("memory_desc_reshape", whole.handle, len(dims), dims_array(dims))
    try:
        return MemoryDesc.copy_of(handle)
    finally:
        api.destroy("memory_desc_destroy", handle)


@functools.lru_cache(maxsize=4096)
def sample_of(whole: MemoryDesc) -> MemoryDesc:
    """Return the descriptor of a single sample of a tensor whose samples are contiguous.

    Raises:
        KernelUnavailable: its samples are not contiguous.
    """
    api, (count, *dims) = loaded(), whole.dims
    start = dims_array((0,) * len(whole.dims))
    handle = api.create("memory_desc_create_submemory", whole.handle, dims_array((1, *dims)), start)
    try:
        sample = MemoryDesc.copy_of(handle)
    finally:
        api.destroy("memory_desc_destroy", handle)
    if sample.nbytes * count != whole.nbytes:
        raise KernelUnavailable(f"the samples of a tensor of {whole.dims} are interleaved")
    return sample


def alternatives(spec: TensorSpec) -> tuple[MemoryDesc, ...]:
    """Return layouts to try, the tensor's own first: primitives do not support every layout."""
    own, last = desc_of(spec), plain(spec.shape)
    if len(spec.shape) > 2:
        last = channels_last(spec.shape)
    return tuple(dict.fromkeys((own, last, plain(spec.shape))))


@functools.lru_cache(maxsize=4096)
def any_layout(dims: Shape, data_type: DataType = DataType.FLOAT32) -> MemoryDesc:
    """Return the descriptor of a tensor whose layout is left to the primitive."""
    handle = loaded().create(
        "memory_desc_create_with_tag",
        len(dims),
        dims_array(dims),
        data_type,
        FormatTag.ANY,
    )
    return MemoryDesc(handle, (data_type, dims, "any"), dims, 0, data_type)


@dataclasses.dataclass(frozen=True)
class BlockedLayout:
    """A layout of oneDNN's (``core.kernels.kernel.Layout``)."""

    desc: MemoryDesc

    @property
    def is_rounded(self) -> bool:
        """Whether a tensor of float32 is kept in bfloat16."""
        return self.desc.data_type == DataType.BFLOAT16

    def nbytes(self, shape: Shape, dtype: DType) -> int:
        """Return the size with padding."""
        return self.desc.nbytes


def desc_of(spec: TensorSpec, dims: Shape | None = None) -> MemoryDesc:
    """Return the descriptor of a tensor; ``dims`` where oneDNN sees other axes than the graph."""
    if isinstance(spec.layout, BlockedLayout):
        return spec.layout.desc
    return plain(spec.shape if dims is None else dims, data_type_of(spec.dtype))


def layout_of(desc: MemoryDesc) -> BlockedLayout | None:
    """Return the layout of a descriptor; None for C order, but of bfloat16 that is a layout too."""
    if desc.data_type == DataType.BFLOAT16:
        return BlockedLayout(desc)
    return None if desc == plain(desc.dims, desc.data_type) else BlockedLayout(desc)


class Memory:
    """A memory object: a tensor at an address.

    Args:
        desc: its descriptor.
        array: its buffer, which is kept alive.

    Attributes:
        handle: oneDNN's.
    """

    __slots__ = ("__weakref__", "_array", "handle")

    def __init__(self, desc: MemoryDesc, array: Array) -> None:
        assert array.flags.c_contiguous
        assert array.nbytes == desc.nbytes
        self._array = array
        api = loaded()
        self.handle = api.create("memory_create", desc.handle, api.engine, array.ctypes.data)
        weakref.finalize(self, api.destroy, "memory_destroy", self.handle).atexit = False


def _itemsize(data_type: DataType) -> int:
    if data_type == DataType.BFLOAT16:
        return _BYTES_OF_BFLOAT16
    return _DTYPES[data_type].itemsize


def _query_int(handle: int, what: Query) -> int:
    result = ctypes.c_int()
    loaded().call("memory_desc_query", handle, what, ctypes.byref(result))
    return result.value


def _query_dims(handle: int, what: Query, count: int | None = None) -> list[int]:
    result = ctypes.POINTER(ctypes.c_int64)()
    loaded().call("memory_desc_query", handle, what, ctypes.byref(result))
    length = _query_int(handle, Query.AXES) if count is None else count
    return list(result[:length])


def _c_strides(dims: Shape) -> Shape:
    strides = [1] * len(dims)
    for axis in range(len(dims) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * max(1, dims[axis + 1])
    return tuple(strides)


def _span(dims: Shape, strides: Shape) -> int:
    """Return the number of elements from the first to the last, inclusive."""
    if 0 in dims:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(dims, strides, strict=True))


def _significant(strides: Shape, dims: Shape) -> Shape:
    """Return strides with 0 for axes of length 1, whose strides are meaningless."""
    return tuple(0 if n == 1 else stride for stride, n in zip(strides, dims, strict=True))
