"""How long sequence states are kept, and how many."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from app.domain.sequence import SequencePart, SequenceStates
from app.errors.tree import SequenceLost, Unavailable
from app.executor.predict.sequences import OpenPart, SequenceTable
from app.executor.predict.stateful import StateSpec

STATE = StateSpec("h", "h_next", 1, (2, 8, 5), np.dtype("f"))
NBYTES = 2 * 1 * 5 * 4
IDLE_SECONDS = 10.0


class Module:
    """What the table knows of a hosted module."""

    def __init__(self, name: str) -> None:
        self.name, self.basis, self.stays_until = name, 0, 0.0


class Clock:
    """A clock set by hand, and a table that uses it."""

    def __init__(self, most_bytes: int = 1 << 20) -> None:
        self.now = 100.0
        self.table = SequenceTable(most_bytes, lambda: self.now)
        self.net, self.other = Module("net"), Module("other")

    def open(self, name: str, module: Module | None = None, most: int = 3, **how: bool) -> OpenPart:
        part = SequencePart(sequence_id=name, **how)
        kept = SequenceStates(links=(), most=most, idle_seconds=IDLE_SECONDS)
        return self.table.open(module or self.net, part, kept, 1, [STATE])

    def run(self, name: str, module: Module | None = None, **how: bool) -> None:
        opened = self.open(name, module, **how)
        opened.keep({"h_next": opened.states["h"] + 1})


def test_only_idle_sequences_expire():
    clock = Clock()
    clock.run("a", is_start=True)
    clock.now += IDLE_SECONDS * 0.6
    clock.run("b", is_start=True)
    clock.run("a")
    clock.now += IDLE_SECONDS * 0.6
    np.testing.assert_array_equal(clock.open("a").states["h"], 2)
    clock.run("b")
    clock.now += IDLE_SECONDS * 0.5
    with pytest.raises(SequenceLost, match="sequence 'a' of module 'net' has no states"):
        clock.open("a")
    clock.run("b")
    clock.run("a", is_start=True)


def test_the_number_of_sequences_is_limited():
    clock = Clock()
    for name in ("a", "b", "c"):
        clock.run(name, is_start=True)
    with pytest.raises(Unavailable, match="3 sequences of module 'net' are under way"):
        clock.open("d", is_start=True)
    clock.run("d", clock.other, is_start=True)
    clock.run("b")
    clock.run("b", is_end=True)
    clock.run("d", is_start=True)


def test_sequences_whose_first_part_is_waiting_count_until_given_up():
    clock = Clock()
    waiting = [clock.open(name, is_start=True) for name in ("a", "b", "c")]
    with pytest.raises(Unavailable):
        clock.open("d", is_start=True)
    with pytest.raises(SequenceLost):
        clock.open("a")
    waiting.pop()
    gc.collect()
    clock.run("d", is_start=True)
    waiting[0].keep({"h_next": np.ones((2, 1, 5), "f")})
    clock.run("a")
    with pytest.raises(Unavailable):
        clock.open("e", is_start=True)


def test_the_memory_of_all_states_is_limited():
    clock = Clock(most_bytes=2 * NBYTES)
    clock.run("a", is_start=True)
    clock.run("a", clock.other, is_start=True)
    message = f"take {2 * NBYTES} bytes, those of one more would take {NBYTES}"
    with pytest.raises(Unavailable, match=message):
        clock.open("b", is_start=True)
    clock.now += IDLE_SECONDS + 1
    clock.run("b", is_start=True)
    del clock.other
    gc.collect()
    clock.run("c", is_start=True)


def test_a_module_stays_while_a_sequence_may_continue():
    clock = Clock()
    clock.run("a", is_start=True)
    assert clock.net.stays_until == clock.now + IDLE_SECONDS
    clock.now += 1
    clock.run("a")
    assert clock.net.stays_until == clock.now + IDLE_SECONDS
    clock.run("b", is_start=True, is_end=True)
    assert clock.net.stays_until == clock.now + IDLE_SECONDS
    clock.run("a", is_end=True)
    assert clock.net.stays_until == 0
