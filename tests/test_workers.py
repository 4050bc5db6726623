"""Parallel tests share the machine, and a test marked ``serial`` has it to itself."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from workers import Room


@pytest.fixture
def rooms(tmp_path: Path) -> Iterator[list[Room]]:
    """One room, as seen by each of three processes."""
    with ExitStack() as stack:
        yield [stack.enter_context(closing(Room(tmp_path))) for _ in range(3)]


def test_ordinary_tests_share_the_room(rooms: list[Room]) -> None:
    with rooms[0].entered(alone=False), rooms[1].entered(alone=False):
        assert not rooms[2].is_waited_for()


def test_a_serial_test_waits_for_the_others_and_blocks_those_behind_it(rooms: list[Room]) -> None:
    order = []

    def enter(room: Room, alone: bool) -> None:
        with room.entered(alone):
            order.append(alone)

    first, second, third = rooms
    alone = threading.Thread(target=enter, args=(second, True))
    behind = threading.Thread(target=enter, args=(third, False))
    with first.entered(alone=False):
        alone.start()
        _wait_until_someone_waits(first)
        behind.start()
        # Gives a wrong lock time to let one of them in; with a right one no wait is too long.
        time.sleep(0.05)
        assert order == []
    alone.join(60)
    behind.join(60)
    assert order == [True, False]


def _wait_until_someone_waits(room: Room) -> None:
    """Return once somebody is waiting at the door."""
    deadline = time.monotonic() + 60
    while not room.is_waited_for():
        assert time.monotonic() < deadline
        time.sleep(0.001)
