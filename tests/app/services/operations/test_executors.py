"""A server's executors: found by name, described, and known to be down."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from app.errors.tree import ExecutorGone, Invalid
from app.executor.main import make_loop
from app.link.inprocess import InProcessClient
from app.link.process import ProcessOptions
from app.link.supervisor import Supervisor
from app.services.operations.executors import Executors


class Dying(InProcessClient):
    """An executor that is alive when checked, and gone when called."""

    async def call(self, *args: Any, **options: Any) -> Any:
        raise ExecutorGone("cpu(1) died")


class Slow(InProcessClient):
    """An executor that never finishes starting, and records being stopped."""

    was_given_up = False

    async def start(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            self.was_given_up = True


class Broken(InProcessClient):
    """An executor that can neither start nor stop."""

    async def start(self) -> None:
        raise ExecutorGone("cpu(1) did not answer")

    async def stop(self) -> None:
        raise ExecutorGone("cpu(1) is gone")


@pytest.fixture
async def executors() -> AsyncIterator[Executors]:
    executors = Executors()
    executors.add(InProcessClient("cpu(0)", make_loop))
    executors.add(Dying("cpu(1)", make_loop))
    await executors.start()
    yield executors
    await executors.stop()


async def test_status_lists_only_executors_with_a_process(executors: Executors) -> None:
    assert executors.status() == {}
    executors.add(Supervisor("cpu(2)", ProcessOptions(program=("app.executor",))))
    status = executors.status()["cpu(2)"]
    assert (status["restarts"], status["rss_bytes"], status["state"]) == (0, 0, "stopped")


async def test_they_are_found_by_name(executors: Executors) -> None:
    assert executors.names == ["cpu(0)", "cpu(1)"]
    assert executors.get("cpu(0)").name == "cpu(0)"
    assert executors.check("cpu(1)", "executor") == "cpu(1)"
    assert [client.name for client in executors] == executors.names


@pytest.mark.parametrize(
    ("find", "error", "text"),
    [
        (lambda e: e.get("gpu(0)"), ExecutorGone, r"cpu\(0\), cpu\(1\)\); start it with that"),
        (lambda e: e.check("gpu(0)", "executor"), Invalid, r"executor: got gpu\(0\), .* cpu\(1\)"),
    ],
)
async def test_an_unknown_executor_is_not_found(
    executors: Executors, find: Callable[[Executors], Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        find(executors)


async def test_an_executor_that_dies_while_described_is_reported_dead(executors: Executors) -> None:
    first, second = await executors.describe()
    assert (first["name"], first["alive"]) == ("cpu(0)", True)
    assert first["available_bytes"] > 0
    assert second == {"name": "cpu(1)", "alive": False}


async def test_stopped_executors_are_dead(executors: Executors) -> None:
    assert executors.dead() == []
    await executors.stop()
    assert executors.dead() == ["cpu(0)", "cpu(1)"]
    assert await executors.describe() == [
        {"name": "cpu(0)", "alive": False},
        {"name": "cpu(1)", "alive": False},
    ]


async def test_if_one_fails_to_start_none_is_left_starting() -> None:
    executors, slow = Executors(), Slow("cpu(0)", make_loop)
    executors.add(slow)
    executors.add(Broken("cpu(1)", make_loop))
    with pytest.raises(ExecutorGone, match="did not answer"):
        await executors.start()
    assert slow.was_given_up


async def test_if_one_fails_to_stop_the_others_have_stopped() -> None:
    executors, other = Executors(), InProcessClient("cpu(0)", make_loop)
    executors.add(Broken("cpu(1)", make_loop))
    executors.add(other)
    await other.start()
    with pytest.raises(ExecutorGone, match="is gone"):
        await executors.stop()
    assert not other.is_alive()
