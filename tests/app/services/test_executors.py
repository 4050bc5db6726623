"""The executors of a server: found by name, described, and known when they are down."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from app.errors import ExecutorGone, Invalid
from app.executor.main import make_loop
from app.link.inprocess import InProcessClient
from app.link.process import ProcessOptions
from app.link.supervisor import Supervisor
from app.services.executors import Executors


class Dying(InProcessClient):
    """An executor that is alive when looked at, and gone when called."""

    async def call(self, *args: Any, **options: Any) -> Any:
        raise ExecutorGone("cpu(1) died")


@pytest.fixture
async def executors() -> AsyncIterator[Executors]:
    executors = Executors()
    executors.add(InProcessClient("cpu(0)", make_loop))
    executors.add(Dying("cpu(1)", make_loop))
    await executors.start()
    yield executors
    await executors.stop()


async def test_status_is_of_those_with_a_process_of_their_own(executors: Executors) -> None:
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
async def test_one_that_is_not_there(
    executors: Executors, find: Callable[[Executors], Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        find(executors)


async def test_one_that_dies_while_it_is_described_is_told_as_dead(executors: Executors) -> None:
    first, second = await executors.describe()
    assert (first["name"], first["alive"]) == ("cpu(0)", True)
    assert first["available_bytes"] > 0
    assert second == {"name": "cpu(1)", "alive": False}


async def test_those_that_are_stopped_are_dead(executors: Executors) -> None:
    assert executors.dead() == []
    await executors.stop()
    assert executors.dead() == ["cpu(0)", "cpu(1)"]
    assert await executors.describe() == [
        {"name": "cpu(0)", "alive": False},
        {"name": "cpu(1)", "alive": False},
    ]
