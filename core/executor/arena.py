"""Memory that the plans of one executor, and of all that share with it, run in.

Three things tell that what was made before is no longer valid:

``Version.count`` (``backends/kernels.py``): the values of a bound array have changed. A plan
    watches the versions of all arrays that it keeps something of; bytes that several plans share
    remember in ``Cached.seen`` which values they were computed from.
``Region.moves``: the region has grown and lies elsewhere, so that arrays in it are to be made anew.
    ``Arena.generation`` sums up the three regions: each plan compares it before a forward pass.
``Arena.owner``: the plan whose forward pass ran last. A backward pass of any other one is refused.
    One of its own uses up the intermediate values: before a second, the forward pass runs again.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import cached_property

import numpy as np

from ..backends import Backend, backend_of
from ..backends.kernels import Version
from ..device import Context
from ..types import Array, DType, Shape, shape_size
from .memory import aligned

__all__ = ["Arena", "Cached", "Region", "Scratch"]

_BYTES = np.dtype("uint8")


class Region:
    """Bytes that grow to the most that anyone has asked for.

    Growing moves them: arrays made before keep the old memory alive and are to be made anew.

    Attributes:
        moves: how often the bytes have moved.
    """

    def __init__(self, backend: Backend) -> None:
        self.moves = 0
        self._backend = backend
        self._bytes: Array = backend.empty((0,), _BYTES)

    @property
    def nbytes(self) -> int:
        """Present size."""
        return int(self._bytes.size)

    def grow(self, nbytes: int) -> bool:
        """Make room for this many bytes; tell whether the memory moved."""
        if nbytes <= self.nbytes:
            return False
        # Drop the old memory first, so that both are never there at once.
        self._bytes = self._backend.empty((0,), _BYTES)
        self._bytes = self._backend.empty((nbytes,), _BYTES)
        self.moves += 1
        return True

    def array(self, offset: int, shape: Shape, dtype: DType) -> Array:
        """Return the array of this shape that begins at an offset."""
        nbytes = shape_size(shape) * dtype.itemsize
        return self._bytes[offset : offset + nbytes].view(dtype).reshape(shape)


class Cached:
    """Bytes computed from arrays that have versions, and the versions they belong to."""

    def __init__(self, array: Array) -> None:
        self.array = array
        self.seen = -1


class Scratch:
    """Memory for the inside of steps: each step may use all of it.

    The first run of a plan finds out how much is needed; what does not fit is allocated for the
    time of the step. ``settle`` then tells how large the region must be for later runs to
    allocate nothing.

    Attributes:
        top: bytes in use by the present step; the plan sets it to 0 before each step.
        misses: arrays allocated since the last ``settle`` because the region was too small.
    """

    __slots__ = ("_arrays", "_backend", "_most", "_region", "misses", "top")

    def __init__(self, backend: Backend, region: Region) -> None:
        self._backend = backend
        self._region = region
        self._arrays: dict[tuple[int, Shape, DType], Array] = {}
        self._most = 0
        self.top = 0
        self.misses = 0

    def take(self, shape: Shape, dtype: DType) -> Array:
        """Return an uninitialised array that is the step's until it ends."""
        found = self._arrays.get((self.top, shape, dtype))
        if found is None:
            return self._take_new(shape, dtype)
        self.top += aligned(found.nbytes)
        return found

    def forget(self) -> None:
        """Forget the arrays handed out; to be called when the region has moved."""
        self._arrays.clear()

    def settle(self) -> int:
        """Return how many bytes the region should have; to be called after each run."""
        self.misses = 0
        return self._most

    def _take_new(self, shape: Shape, dtype: DType) -> Array:
        offset = self.top
        self.top += aligned(shape_size(shape) * dtype.itemsize)
        self._most = max(self._most, self.top)
        if self.top > self._region.nbytes:
            self.misses += 1
            return self._backend.empty(shape, dtype)
        array = self._arrays[offset, shape, dtype] = self._region.array(offset, shape, dtype)
        return array


class Arena:
    """The memory of plans that never run at the same time: buckets of a module, inference and
    training. Each region is as large as its largest user needs, not the sum.

    Attributes:
        values: what steps hand to later steps.
        outputs: what executors show as outputs.
        scratch: what a step needs while it runs.
        owner: stands for the plan whose forward pass ran last.
    """

    def __init__(self, context: Context) -> None:
        self.context = context
        self.backend = backend_of(context)
        self.values = Region(self.backend)
        self.outputs = Region(self.backend)
        self.scratch = Region(self.backend)
        self.owner: object | None = None
        self._cache: dict[Hashable, Cached] = {}

    @property
    def generation(self) -> int:
        """How often memory has moved that plans hold addresses of."""
        return self.values.moves + self.outputs.moves + self.scratch.moves

    @cached_property
    def inner(self) -> Arena:
        """The memory of the plans that run inside a step: bodies of loops, branches."""
        return Arena(self.context)

    @property
    def nbytes(self) -> int:
        """Bytes of values that steps hand on, here and inside."""
        inner = self.__dict__.get("inner")
        return self.values.nbytes + (inner.nbytes if isinstance(inner, Arena) else 0)

    def reserve(self, values: int, outputs: int) -> None:
        """Let the regions grow to at least these many bytes. What they held is lost if they do."""
        moved = [self.values.grow(values), self.outputs.grow(outputs)]
        if any(moved):
            self.owner = None

    def reserve_scratch(self, nbytes: int) -> None:
        """Let the scratch region grow to at least this many bytes."""
        self.scratch.grow(nbytes)

    def cached(self, versions: tuple[Version, ...], key: Hashable, nbytes: int) -> Cached:
        """Return what plans that share the arena keep of arrays under a key."""
        found = self._cache.get((versions, key))
        if found is None:
            found = Cached(self.backend.empty((nbytes,), _BYTES))
            self._cache[versions, key] = found
        return found

    @property
    def cached_nbytes(self) -> int:
        """Bytes kept of arrays that have versions: reordered and folded weights."""
        return sum(int(one.array.nbytes) for one in self._cache.values())
