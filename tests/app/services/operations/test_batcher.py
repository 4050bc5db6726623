"""Concurrent requests are grouped, and each still gets its own answer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

from app.errors.tree import NotFound
from app.services.operations.batcher import Batcher


async def test_calls_arriving_during_one_are_grouped_into_the_next() -> None:
    groups: list[list[int]] = []
    may_go_on = threading.Event()

    def double(numbers: Sequence[int]) -> list[int | Exception]:
        groups.append(list(numbers))
        assert may_go_on.wait(20)
        return [NotFound("number", 3) if number == 3 else 2 * number for number in numbers]

    grouped: Batcher[int, int] = Batcher(double)
    first = asyncio.create_task(grouped(1))
    while not groups:
        await asyncio.sleep(0.001)
    others = [asyncio.create_task(grouped(number)) for number in (2, 3, 4, 5)]
    await asyncio.sleep(0)
    others.pop().cancel()  # its request is carried out all the same
    may_go_on.set()
    assert await first == 2
    answers = await asyncio.gather(*others, return_exceptions=True)
    assert (answers[0], type(answers[1]), answers[2]) == (4, NotFound, 8)
    assert groups == [[1], [2, 3, 4, 5]]
    assert await grouped(6) == 12


async def test_an_error_is_raised_for_all_in_the_group_and_later_calls_work() -> None:
    is_broken = True

    def echo(numbers: Sequence[int]) -> list[int]:
        if is_broken:
            raise RuntimeError("broken")
        return list(numbers)

    grouped: Batcher[int, int] = Batcher(echo)
    answers = await asyncio.gather(grouped(1), grouped(2), return_exceptions=True)
    assert [str(answer) for answer in answers] == ["broken", "broken"]
    is_broken = False
    assert await grouped(3) == 3
