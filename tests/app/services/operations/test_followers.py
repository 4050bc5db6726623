"""Many followers cost one read of each event, and each gets every event once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest

from app.domain.events import EventRow
from app.domain.job import Job
from app.link.job_messages import JobDone, JobLog
from app.services.operations import followers as followers_module
from app.services.operations.followers import Followers


class Following:
    """Follows until cancelled, and keeps the events."""

    def __init__(self, followers: Followers, job_id: int | None, after: int = 0) -> None:
        self.rows: list[EventRow] = []
        self.task = asyncio.create_task(self._run(followers, job_id, after))

    async def _run(self, followers: Followers, job_id: int | None, after: int) -> None:
        async for row in followers.follow(job_id, after):
            if row is not None:
                self.rows.append(row)

    @property
    def ids(self) -> list[int]:
        return [row.id for row in self.rows]


@pytest.fixture
def followers(bench: Any) -> Followers:
    return Followers(bench.store, bench.notifiers.events)


def begin(bench: Any, module: str) -> dict[str, int]:
    """Claim a fit of a module; return what its reports start with."""
    bench.fit(module)
    claimed: Job = bench.claim()
    return {"job_id": claimed.id, "attempt": claimed.attempt}


def log(bench: Any, who: dict[str, int], count: int) -> None:
    for number in range(count):
        bench.record(JobLog(**who, message=f"line {number}"))


async def all_have(following: list[Following], ids: list[int]) -> None:
    async with asyncio.timeout(60):
        while any(one.ids != ids for one in following):
            await asyncio.sleep(0.01)


async def test_an_event_is_read_once_for_all_followers(
    bench: Any, followers: Followers, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[str] = []

    def counted(name: str, read: Any) -> Any:
        def call(*arguments: Any) -> Any:
            reads.append(name)
            return read(*arguments)

        return call

    who = begin(bench, "a")
    monkeypatch.setattr(followers, "_look", counted("look", followers._look))
    monkeypatch.setattr(followers._tail, "_read", counted("tail", followers._tail._read))
    following = [Following(followers, job) for job in (who["job_id"], None) for _ in range(20)]
    await all_have(following, [1, 2])
    for _ in range(5):
        await asyncio.to_thread(log, bench, who, 1)
        await asyncio.sleep(0.02)
    await all_have(following, list(range(1, 8)))
    bench.record(JobDone(**who))
    await asyncio.gather(*(one.task for one in following[:20]))
    followers.end()
    await asyncio.gather(*(one.task for one in following))
    assert all(one.ids == list(range(1, 9)) for one in following)
    assert reads.count("look") == len(following)
    assert reads.count("tail") < 3 * 8


async def test_the_end_of_past_events_is_announced_at_once(
    bench: Any, followers: Followers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followers_module, "_LONGEST_SILENCE_SECONDS", 3600.0)
    log(bench, begin(bench, "a"), 3)
    async with asyncio.timeout(60), aclosing(followers.follow(None, 0)) as found:
        ids = [None if row is None else row.id async for row in _first(found, 6)]
    assert ids == [1, 2, 3, 4, 5, None]


async def _first(rows: AsyncIterator[EventRow | None], count: int) -> AsyncIterator[Any]:
    async for row in rows:
        yield row
        count -= 1
        if count == 0:
            return


@pytest.mark.parametrize(("page", "tail"), [(3, 2000), (500, 4), (2, 3)])
async def test_no_follower_misses_or_repeats_an_event(
    bench: Any, followers: Followers, monkeypatch: pytest.MonkeyPatch, page: int, tail: int
) -> None:
    monkeypatch.setattr(followers_module, "_EVENTS_AT_ONCE", page)
    monkeypatch.setattr(followers_module, "_LONGEST_TAIL", tail)
    quiet, chatty = begin(bench, "a"), begin(bench, "b")
    log(bench, chatty, 7)
    everything, of_quiet = Following(followers, None), Following(followers, quiet["job_id"])
    late = Following(followers, chatty["job_id"], after=9)
    for _ in range(6):
        await asyncio.to_thread(log, bench, chatty, 5)
        await asyncio.sleep(0.01)
    bench.record(JobLog(**quiet, message="at last"))
    bench.record(JobDone(**quiet))
    await asyncio.wait_for(of_quiet.task, 60)
    rows = bench.jobs.events(limit=500)
    await all_have([everything], [row.id for row in rows])
    assert of_quiet.ids == [row.id for row in rows if row.job_id == quiet["job_id"]]
    assert late.ids == [row.id for row in rows if row.job_id == chatty["job_id"] and row.id > 9]
    followers.end()
    await asyncio.gather(everything.task, late.task)


async def test_a_follower_from_another_database_gets_everything(
    bench: Any, followers: Followers
) -> None:
    who = begin(bench, "a")
    log(bench, who, 3)
    ids = [row.id for row in bench.jobs.events()]
    ahead = [Following(followers, job, ids[-1] + 1000) for job in (None, who["job_id"])]
    await all_have(ahead, ids)
    log(bench, who, 1)
    await all_have(ahead, [row.id for row in bench.jobs.events()])
    for one in ahead:
        one.task.cancel()


async def test_events_of_another_server_are_seen_without_a_notification(
    bench: Any, followers: Followers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followers_module, "_LONGEST_WAIT_SECONDS", 0.05)
    who = begin(bench, "a")
    following = Following(followers, who["job_id"])
    await all_have([following], [1, 2])
    monkeypatch.setattr(bench.notifiers.events, "notify", lambda: None)
    log(bench, who, 2)
    bench.record(JobDone(**who))
    await asyncio.wait_for(following.task, 60)
    assert following.ids == [1, 2, 3, 4, 5]
