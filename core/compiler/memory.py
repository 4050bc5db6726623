"""Memory planning: in-place execution and buffer sharing.

Two passes over a finished list of steps. ``assign_inplace`` lets a step overwrite an input that
nothing reads afterwards; ``plan_memory`` turns lifetimes into offsets in one arena.
"""

from __future__ import annotations

import bisect
import dataclasses
import itertools
from collections.abc import Iterable, Mapping

from .ir import Place, Program, Step, Value

__all__ = [
    "ALIGNMENT",
    "Lifetime",
    "MemoryPlan",
    "aligned",
    "assign_inplace",
    "lifetimes",
    "plan_memory",
]

ALIGNMENT = 64
"""Alignment of planned values, in bytes."""

_MOST_BY_SIZE = 2000
"""Largest number of values for which placement by size, which takes quadratic time, is tried."""

_TOLERATED_HOLES = 100
"""Placement by size is tried if fragmentation costs more than one byte in this many: what
fragmentation costs is the most that can be gained."""


@dataclasses.dataclass(frozen=True, slots=True)
class Lifetime:
    """Liveness interval: from the position of the first writer to the last reader, inclusive."""

    start: int
    stop: int
    nbytes: int


@dataclasses.dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Where each planned value lies.

    Attributes:
        offsets: bytes from the arena's beginning, by id of the value that owns the memory.
        nbytes: size of the arena.
        peak_live: most bytes alive at one step, a lower bound for any plan.
        unshared: bytes if no two values shared memory.
    """

    offsets: Mapping[int, int]
    nbytes: int
    peak_live: int
    unshared: int


def assign_inplace(program: Program) -> None:
    """Let steps overwrite inputs that they are the last to read, if operator or kernel allow it.

    If such a step writes an output of the executor, the input is moved to the output's memory, and
    needs none in the arena.
    """
    last_read = _last_reads(program)
    for position, step in enumerate(program.steps):
        taken: set[int] = set()
        for source, target in _inplace_pairs(step):
            owner, value = program.memory(source), program.values[target]
            is_whole = program.region(source) == owner.id
            if (
                owner.id not in taken
                and is_whole
                and _may_overwrite(program, step, position, owner, value, last_read)
            ):
                taken.add(owner.id)
                value.base = owner.id
                # Later steps in turn may overwrite the memory after the last read of this value.
                last_read[owner.id] = max(last_read.get(value.id, -1), position)
                if value.place is Place.OUTPUT:
                    owner.place, owner.index = value.place, value.index


def _may_overwrite(
    program: Program,
    step: Step,
    position: int,
    owner: Value,
    value: Value,
    last_read: Mapping[int, int],
) -> bool:
    if (
        value.base is not None
        or last_read[owner.id] != position
        or (value.place is not Place.ARENA and value.place is not Place.OUTPUT)
        or (owner.place is not Place.ARENA and owner.place is not Place.HEAD_GRADIENT)
        or owner.layout != value.layout
        or owner.nbytes != value.nbytes
    ):
        return False
    # If the value is another operand as well, the step would read it after overwriting parts of it.
    readers = (operand for operand in step.reads() if program.memory(operand).id == owner.id)
    return sum(1 for _ in readers) == 1


def _inplace_pairs(step: Step) -> Iterable[tuple[int, int]]:
    """Yield pairs (value read, value that may overwrite it)."""
    pairs = step.kernel.inplace if step.kernel is not None else None
    if step.source is None:
        sources, targets = step.inputs, step.outputs
        pairs = step.op.inplace_forward() if pairs is None else pairs
    else:
        sources, targets = step.out_grads, step.in_grads
        if pairs is None:
            # These pairs are (output, input): an input's gradient overwrites an output's gradient.
            pairs = step.op.inplace_backward()
    for source, target in pairs:
        read, written = sources[source], targets[target]
        if read is not None and written is not None:
            yield read, written


def _last_reads(program: Program) -> dict[int, int]:
    """Return the position of the last read of each buffer, by id of the value that owns it."""
    last: dict[int, int] = {}
    for position, step in enumerate(program.steps):
        for value in step.reads():
            last[program.memory(value).id] = position
    return last


def lifetimes(program: Program) -> dict[int, Lifetime]:
    """Return the lifetime of each planned buffer, by id of the value that owns it."""
    start: dict[int, int] = {}
    stop: dict[int, int] = {}
    # Copied in between the two passes.
    for given in program.head_gradients:
        if given is not None:
            start[given] = stop[given] = program.forward_length
    for position, step in enumerate(program.steps):
        for value in step.writes():
            owner = program.memory(value)
            if owner.place.is_planned:
                start.setdefault(owner.id, position)
                stop[owner.id] = position
        for value in step.reads():
            owner = program.memory(value)
            if owner.place.is_planned:
                stop[owner.id] = position
    return {
        owner: Lifetime(begin, stop[owner], program.values[owner].nbytes)
        for owner, begin in start.items()
    }


def plan_memory(lives: Mapping[int, Lifetime]) -> MemoryPlan:
    """Return offsets such that values alive at the same step do not overlap.

    A value stays alive throughout the last step that reads it, so that a step never overwrites what
    it reads unless ``assign_inplace`` decided so. Values are placed in order of execution; if that
    leaves gaps and there are not too many values, placing the largest first is tried as well, and
    the better result is used.
    """
    peak = _peak_live(lives)
    offsets, nbytes = _place_in_order(lives)
    if nbytes - peak > peak // _TOLERATED_HOLES and len(lives) <= _MOST_BY_SIZE:
        others, fewer = _place_by_size(lives)
        if fewer < nbytes:
            offsets, nbytes = others, fewer
    unshared = sum(aligned(life.nbytes) for life in lives.values())
    return MemoryPlan(offsets, nbytes, peak, unshared)


def _peak_live(lives: Mapping[int, Lifetime]) -> int:
    change: dict[int, int] = {}
    for life in lives.values():
        size = aligned(life.nbytes)
        change[life.start] = change.get(life.start, 0) + size
        change[life.stop + 1] = change.get(life.stop + 1, 0) - size
    return max(itertools.accumulate(change[position] for position in sorted(change)), default=0)


def _place_in_order(lives: Mapping[int, Lifetime]) -> tuple[dict[int, int], int]:
    """Best fit in order of execution; takes O(n log n) time."""
    born: dict[int, list[int]] = {}
    dying: dict[int, list[int]] = {}
    for owner, life in lives.items():
        born.setdefault(life.start, []).append(owner)
        dying.setdefault(life.stop, []).append(owner)
    free = _FreeList()
    offsets: dict[int, int] = {}
    for position in sorted(born.keys() | dying.keys()):
        # Larger ones first, because fewer free blocks are large enough for them.
        for owner in sorted(born.get(position, ()), key=lambda o: -lives[o].nbytes):
            offsets[owner] = free.take(aligned(lives[owner].nbytes))
        # After these, because a value is alive throughout its last step.
        for owner in dying.get(position, ()):
            free.give(offsets[owner], aligned(lives[owner].nbytes))
    return offsets, free.end


def _place_by_size(lives: Mapping[int, Lifetime]) -> tuple[dict[int, int], int]:
    """First fit in order of decreasing size ("greedy by size for offset calculation": Pisarchyk and
    Lee, arXiv:2001.03288); takes O(n²) time."""
    offsets: dict[int, int] = {}
    placed: list[tuple[int, int, Lifetime]] = []
    for owner in sorted(lives, key=lambda o: (-lives[o].nbytes, lives[o].start)):
        life = lives[owner]
        size, offset = aligned(life.nbytes), 0
        for start, stop, other in placed:
            if other.start <= life.stop and life.start <= other.stop:
                if offset + size <= start:
                    break
                offset = max(offset, stop)
        offsets[owner] = offset
        bisect.insort(placed, (offset, offset + size, life), key=lambda block: block[0])
    return offsets, max((stop for _, stop, _ in placed), default=0)


def aligned(nbytes: int) -> int:
    """Return a size rounded up to a multiple of the alignment, at least one.

    Even an empty value gets an address of its own: free blocks are identified by their offsets.
    """
    return -(-max(nbytes, 1) // ALIGNMENT) * ALIGNMENT


class _FreeList:
    """Free blocks of an arena that grows at its end.

    No two blocks touch each other: ``give`` merges them.
    """

    def __init__(self) -> None:
        self.end = 0
        # The same blocks in two orders: neighbours are found by offset, the best fit by size.
        self._by_offset: list[int] = []
        self._sizes: dict[int, int] = {}
        self._by_size: list[tuple[int, int]] = []

    def take(self, size: int) -> int:
        position = bisect.bisect_left(self._by_size, (size, -1))
        if position < len(self._by_size):
            found, offset = self._by_size[position]
            self._remove(offset)
            if found > size:
                self._insert(offset + size, found - size)
            return offset
        offset = self.end
        if self._by_offset and self._by_offset[-1] + self._sizes[self._by_offset[-1]] == self.end:
            # The last block is free but too small: grow it.
            offset = self._by_offset[-1]
            self._remove(offset)
        self.end = offset + size
        return offset

    def give(self, offset: int, size: int) -> None:
        position = bisect.bisect_left(self._by_offset, offset)
        if position < len(self._by_offset) and self._by_offset[position] == offset + size:
            follower = self._by_offset[position]
            size += self._sizes[follower]
            self._remove(follower)
        if position > 0:
            before = self._by_offset[position - 1]
            if before + self._sizes[before] == offset:
                size += self._sizes[before]
                self._remove(before)
                offset = before
        self._insert(offset, size)

    def _insert(self, offset: int, size: int) -> None:
        bisect.insort(self._by_offset, offset)
        bisect.insort(self._by_size, (size, offset))
        self._sizes[offset] = size

    def _remove(self, offset: int) -> None:
        size = self._sizes.pop(offset)
        del self._by_offset[bisect.bisect_left(self._by_offset, offset)]
        del self._by_size[bisect.bisect_left(self._by_size, (size, offset))]
