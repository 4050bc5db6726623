"""Memory in which the plans of one executor, and of all executors that share it, run.

All that tells whether an earlier result is still valid:

``Version`` (``kernels/kernel.py``): the values of a bound array may have changed. Whoever writes
    to an array calls ``bump``; whoever hands its memory to code that does not, calls ``lose``, and
    from then on it always counts as changed. Whoever has computed something from arrays asks
    ``Watch.poll`` before each use. ``Version.clock`` changes with any version: if it has not, as
    between most predictions, that one comparison is the whole answer.
``Cached.seen``: the sum of the versions from which a cached copy was computed. Plans share the
    copy, and each has a ``Watch`` of its own; so the first to find a change computes the copy, and
    the others see here that it is done.
``Arena.generation``: how often one of the three regions has grown and so moved. Each plan compares
    it before a forward pass, and creates its views again. An executor's outputs are views of one
    region alone, and so compare that one's ``Region.moves``.
``Arena.owner``: the plan whose forward pass began last. Intermediate values in the arena are its
    own, and the backward pass of any other plan is refused.
``Plan.is_spent``: the owner's intermediate values are not those of a whole forward pass, because it
    has failed, or because a backward pass has overwritten them. The executor then runs the forward
    pass again before backward.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import cached_property

import numpy as np

from ..backends import Backend, backend_of
from ..compiler.memory import aligned
from ..device import Context
from ..kernels.kernel import Version
from ..types import Array, DType, Shape, shape_size

__all__ = ["Arena", "Cached", "Region", "Scratch"]

_BYTES = np.dtype("uint8")


class Region:
    """A buffer that grows to the largest size requested so far.

    Growing moves it: existing arrays keep the old memory alive and must be created again.

    Attributes:
        moves: how often the buffer has moved.
    """

    def __init__(self, backend: Backend) -> None:
        self.moves = 0
        self._backend = backend
        self._bytes: Array = backend.empty((0,), _BYTES)

    @property
    def nbytes(self) -> int:
        """Current size."""
        return int(self._bytes.size)

    def grow(self, nbytes: int) -> bool:
        """Make room for this many bytes; tell whether the memory moved."""
        if nbytes <= self.nbytes:
            return False
        # Free the old memory first, so that the two never exist at the same time.
        self._bytes = self._backend.empty((0,), _BYTES)
        self._bytes = self._backend.empty((nbytes,), _BYTES)
        self.moves += 1
        return True

    def array(self, offset: int, shape: Shape, dtype: DType) -> Array:
        """Return a view of this shape that begins at an offset."""
        nbytes = shape_size(shape) * dtype.itemsize
        return self._bytes[offset : offset + nbytes].view(dtype).reshape(shape)


class Cached:
    """Bytes computed from arrays that have versions, and the version they were computed from."""

    def __init__(self, array: Array) -> None:
        self.array = array
        self.seen = -1


class Scratch:
    """Temporary memory within one step: each step may use all of it.

    The first run of a plan finds out how much is needed; what does not fit is allocated
    temporarily. ``settle`` then returns how large the region must be for later runs to allocate
    nothing.

    Attributes:
        top: bytes in use by the current step; the plan sets it to 0 before each step.
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
        """Return an uninitialised array that the step may use until it ends."""
        # A step takes the same arrays at each run, and NumPy needs a microsecond for a new view.
        found = self._arrays.get((self.top, shape, dtype))
        if found is None:
            return self._take_new(shape, dtype)
        self.top += aligned(found.nbytes)
        return found

    def forget(self) -> None:
        """Drop cached arrays; to be called when the region has moved."""
        self._arrays.clear()

    def settle(self) -> int:
        """Return the size in bytes that the region should have; to be called after a run that had
        misses."""
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
        values: intermediate results, written by one step and read by later ones.
        outputs: the executors' outputs.
        scratch: temporary memory within one step.
        owner: token of the plan whose forward pass ran last.
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
        """How often memory has moved into which plans have views."""
        return self.values.moves + self.outputs.moves + self.scratch.moves

    @cached_property
    def inner(self) -> Arena:
        """The memory of the plans that run within a step: loop bodies and branches."""
        return Arena(self.context)

    @property
    def nbytes(self) -> int:
        """Bytes of intermediate results, including those of loop bodies and branches."""
        inner = self.__dict__.get("inner")  # the property would create it
        return self.values.nbytes + (inner.nbytes if isinstance(inner, Arena) else 0)

    def reserve(self, values: int, outputs: int) -> None:
        """Grow the regions to at least these sizes. A region that grows loses its contents."""
        moved = [self.values.grow(values), self.outputs.grow(outputs)]
        if any(moved):
            self.owner = None

    def reserve_scratch(self, nbytes: int) -> None:
        """Grow the scratch region to at least this many bytes."""
        self.scratch.grow(nbytes)

    def cached(self, versions: tuple[Version, ...], key: Hashable, nbytes: int) -> Cached:
        """Return the cache entry for these arrays and key, shared by all plans of the arena."""
        found = self._cache.get((versions, key))
        if found is None:
            found = Cached(self.backend.empty((nbytes,), _BYTES))
            self._cache[versions, key] = found
        return found

    @property
    def cached_nbytes(self) -> int:
        """Bytes cached from arrays that have versions: reordered and folded weights."""
        return sum(int(one.array.nbytes) for one in self._cache.values())
