"""The states of sequences between their parts.

They belong to one module on its device with its current parameters. When any of these changes, the
states are lost and the next part is refused; a sequence never silently restarts.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary, WeakSet

import numpy as np

from app.domain.sequence import SequencePart, SequenceStates
from app.errors.tree import Conflict, Invalid, SequenceLost, Unavailable
from app.executor.modules.hosted_module import HostedModule
from app.executor.predict.stateful import StateSpec
from app.link.protocols import Arrays

__all__ = ["OpenPart", "SequenceTable"]


@dataclass(slots=True, weakref_slot=True, eq=False)
class _Sequence:
    """One sequence.

    Attributes:
        arrays: its states by name.
        rows: examples in each of its parts.
        basis: ``HostedModule.basis`` when it began.
        version: the version that computes it; see ``calls.Predict``.
        used_at: when its last part was computed.
    """

    arrays: Arrays
    rows: int
    basis: int
    version: str | None
    used_at: float

    @property
    def nbytes(self) -> int:
        """Bytes of its states."""
        return sum(array.nbytes for array in self.arrays.values())


@dataclass(slots=True, eq=False)
class _OfModule:
    """The sequences of one module.

    Attributes:
        idle_seconds: time after which an idle sequence expires.
        by_id: the most recently used last.
        begun: those whose first part has not been computed yet. Only that part refers to them, so
            they are gone when it is refused or cancelled.
    """

    idle_seconds: float = 0.0
    by_id: OrderedDict[str, _Sequence] = field(default_factory=OrderedDict)
    begun: WeakSet[_Sequence] = field(default_factory=WeakSet)

    def expire(self, now: float) -> None:
        """Remove sequences that have been idle for too long."""
        while self.by_id:
            first = next(iter(self.by_id.values()))
            if first.used_at + self.idle_seconds > now:
                return
            self.by_id.popitem(last=False)

    @property
    def nbytes(self) -> int:
        """Bytes of all states."""
        return sum(one.nbytes for one in (*self.by_id.values(), *self.begun))


class OpenPart:
    """A part of a sequence that is about to be computed; there is at most one per sequence."""

    __slots__ = ("_keep", "_sequence", "_states")

    def __init__(
        self,
        sequence: _Sequence,
        states: Sequence[StateSpec],
        keep: Callable[[_Sequence], None],
    ) -> None:
        self._sequence = sequence
        self._states = states
        self._keep = keep

    @property
    def states(self) -> Arrays:
        """Its initial states; valid until it is computed."""
        return self._sequence.arrays

    @property
    def basis(self) -> int:
        """The value that ``HostedModule.basis`` must still have when it is computed."""
        return self._sequence.basis

    def keep(self, outputs: Arrays) -> None:
        """Store the states from the outputs of this part."""
        # A copy: the outputs are overwritten by the next batch.
        for one in self._states:
            self._sequence.arrays[one.name][...] = outputs[one.output]
        self._keep(self._sequence)


class SequenceTable:
    """The sequences of all modules of one device. All times are of one monotonic clock."""

    def __init__(self, most_bytes: int, clock: Callable[[], float] = time.monotonic) -> None:
        """Create an empty table.

        Args:
            most_bytes: limit on the states of all sequences.
            clock: returns the time in seconds.
        """
        self._most_bytes = most_bytes
        self._clock = clock
        self._modules: WeakKeyDictionary[HostedModule, _OfModule] = WeakKeyDictionary()

    def open(
        self,
        module: HostedModule,
        part: SequencePart,
        kept: SequenceStates,
        rows: int,
        states: Sequence[StateSpec],
        *,
        version: str | None = None,
    ) -> OpenPart:
        """Return a part with the states that it continues from.

        All earlier parts have been computed or refused.

        Args:
            module: the module that computes it.
            part: identifies the sequence and the part.
            kept: how the states of sequences are kept.
            rows: its number of examples.
            states: specifications of the states.
            version: the version to compute it with; a sequence stays with that of its first part.

        Raises:
            SequenceLost: there are no states that it could continue from.
            Conflict: it starts a sequence that has already started.
            Invalid: its number of examples or its states differ from those of the previous part.
            Unavailable: there are too many sequences, or they use too much memory.
        """
        now = self._clock()
        here = self._modules.setdefault(module, _OfModule())
        here.idle_seconds = kept.idle_seconds
        for one in self._modules.values():
            one.expire(now)
        sequence_id = part.sequence_id
        found = here.by_id.get(sequence_id)
        if found is not None and found.basis != module.basis:
            del here.by_id[sequence_id]
            found = None
        if part.is_start:
            if found is not None:
                raise Conflict(
                    f"sequence {sequence_id!r} of module {module.name!r} has begun already; send "
                    "its last part with sequence_end, or take another id"
                )
            found = self._begin(module, here, kept.most, rows, states, version)
        elif found is None or found.version != version:
            raise SequenceLost(module.name, sequence_id)
        else:
            _check(found, rows, states, sequence_id)

        def keep(sequence: _Sequence) -> None:
            self._keep(module, part, sequence)

        return OpenPart(found, states, keep)

    def _begin(
        self,
        module: HostedModule,
        here: _OfModule,
        most: int,
        rows: int,
        states: Sequence[StateSpec],
        version: str | None,
    ) -> _Sequence:
        if len(here.by_id) + len(here.begun) >= most:
            raise Unavailable(
                f"{most} sequences of module {module.name!r} are under way; end some, or raise "
                f"max_sequences by PATCH /v1/modules/{module.name}/serving"
            )
        arrays = {one.name: np.zeros(one.shape_of(rows), one.dtype) for one in states}
        begun = _Sequence(arrays, rows, module.basis, version, self._clock())
        used = sum(one.nbytes for one in self._modules.values())
        if used + begun.nbytes > self._most_bytes:
            raise Unavailable(
                f"the states of all sequences take {used} bytes, those of one more would take "
                f"{begun.nbytes}, and {self._most_bytes} are the most; end some, or raise "
                "MODSERVE_MEMORY_BUDGET, of which they may take an eighth"
            )
        here.begun.add(begun)
        return begun

    def _keep(self, module: HostedModule, part: SequencePart, sequence: _Sequence) -> None:
        here = self._modules[module]
        here.begun.discard(sequence)
        if part.is_end:
            here.by_id.pop(part.sequence_id, None)
        else:
            sequence.used_at = self._clock()
            here.by_id[part.sequence_id] = sequence
            here.by_id.move_to_end(part.sequence_id)
        module.stays_until = self._clock() + here.idle_seconds if here.by_id else 0.0


def _check(found: _Sequence, rows: int, states: Sequence[StateSpec], sequence_id: str) -> None:
    """Raise Invalid for a part that cannot continue a sequence."""
    if rows != found.rows:
        expected = f"{found.rows}, as in the first part of sequence {sequence_id!r}"
        raise Invalid("inputs", f"{rows} examples", expected)
    wanted = {one.name: one.shape_of(rows) for one in states}
    kept = {name: array.shape for name, array in found.arrays.items()}
    if wanted != kept:
        expected = f"one whose states are as those of sequence {sequence_id!r}, {kept}"
        raise Invalid("bucket", f"a bucket with states {wanted}", expected)
