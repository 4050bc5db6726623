"""Concurrent writers share a commit, and each still fails or succeeds on its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from sqlalchemy import Connection, NestedTransaction, event, text
from sqlalchemy.exc import OperationalError

from app.errors.tree import StorageFull
from app.store.store import Store

pytestmark = pytest.mark.parametrize("kind", ["sqlite"])  # others allow concurrent commits
WRITERS = 5
Write = Callable[[Connection], None]


def insert(name: str) -> Write:
    statement = text("INSERT INTO counters (name, value) VALUES (:name, 1)")
    return lambda connection: connection.execute(statement, {"name": name}) and None


def names(store: Store) -> set[str]:
    with store.read() as connection:
        return set(connection.scalars(text("SELECT name FROM counters WHERE value = 1")))


@contextmanager
def together(store: Store, *writes: Write) -> Iterator[list[Future[None]]]:
    """Make writers run as one group: the first finishes once all others are waiting."""
    group = store._group
    assert group is not None
    has_begun = threading.Event()

    def run(write: Write, is_first: bool) -> None:
        with store.write() as connection:
            has_begun.set()
            deadline = time.monotonic() + 20
            while is_first and group._waiting < len(writes) - 1:
                assert time.monotonic() < deadline
                time.sleep(0.001)
            write(connection)

    with ThreadPoolExecutor(len(writes)) as pool:
        futures = [pool.submit(run, writes[0], True)]
        assert has_begun.wait(20)
        futures += [pool.submit(run, write, False) for write in writes[1:]]
        yield futures


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep a group open however slow this machine is."""
    monkeypatch.setattr("app.store.group_commit._LONGEST_SECONDS", 60.0)


@pytest.fixture
def commits(store: Store, unhurried: None) -> list[int]:
    """The store's commits from now on."""
    counted: list[int] = []
    event.listen(store._engine, "commit", lambda connection: counted.append(1))
    return counted


def test_waiting_writers_share_one_commit(store: Store, commits: list[int]) -> None:
    wanted = {f"writer {number}" for number in range(WRITERS)}
    with together(store, *map(insert, sorted(wanted))) as futures:
        for future in futures:
            future.result(20)
    assert len(commits) == 1
    assert names(store) >= wanted


def test_no_writer_returns_before_the_commit(store: Store, unhurried: None) -> None:
    done_at_commit: list[bool] = []
    with together(store, insert("a"), insert("b"), insert("c")) as futures:
        event.listen(
            store._engine,
            "commit",
            lambda connection: done_at_commit.extend(future.done() for future in futures),
        )
        for future in futures:
            future.result(20)
    assert done_at_commit
    assert not any(done_at_commit)


def test_a_failing_writer_does_not_affect_the_others(store: Store, commits: list[int]) -> None:
    def fail(connection: Connection) -> None:
        insert("half")(connection)
        raise ValueError("a change of mind")

    with together(store, insert("a"), fail, insert("b")) as futures:
        with pytest.raises(ValueError, match="a change of mind"):
            futures[1].result(20)
        futures[0].result(20)
        futures[2].result(20)
    assert len(commits) == 1
    assert {"a", "b"} <= names(store)
    assert "half" not in names(store)


def test_a_failed_commit_fails_the_whole_group_and_later_ones_work(
    store: Store, unhurried: None
) -> None:
    def refuse(connection: Connection) -> None:
        raise OperationalError("COMMIT", None, Exception("database or disk is full"))

    event.listen(store._engine, "commit", refuse)
    with together(store, insert("a"), insert("b")) as futures:
        for future in futures:
            with pytest.raises(StorageFull):
                future.result(20)
    event.remove(store._engine, "commit", refuse)
    assert not {"a", "b"} & names(store)
    with store.write() as connection:
        insert("later")(connection)
    assert "later" in names(store)


def test_an_unexpected_commit_error_leaves_no_one_waiting(store: Store, unhurried: None) -> None:
    def refuse(connection: Connection) -> None:
        raise MemoryError("no room for the commit")

    event.listen(store._engine, "commit", refuse)
    with together(store, insert("a"), insert("b")) as futures:
        outcomes = [future.exception(20) for future in futures]
    event.remove(store._engine, "commit", refuse)
    # The last of the group sees the original error, the other that its change was not made.
    assert sorted(type(one).__name__ for one in outcomes) == ["MemoryError", "Unavailable"]
    assert not {"a", "b"} & names(store)
    with store.write() as connection:
        insert("later")(connection)
    assert "later" in names(store)


def test_if_rolling_back_fails_nothing_is_committed(
    store: Store, unhurried: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: NestedTransaction) -> None:
        raise MemoryError("no room for the rollback")

    def fail(connection: Connection) -> None:
        insert("half")(connection)
        monkeypatch.setattr(NestedTransaction, "rollback", refuse)
        raise ValueError("a change of mind")

    with together(store, insert("a"), fail) as futures:
        outcomes = [future.exception(20) for future in futures]
    monkeypatch.undo()
    assert [type(one).__name__ for one in outcomes] == ["Unavailable", "ValueError"]
    assert not {"a", "half"} & names(store)


def test_a_writer_that_fills_the_disk_fails_alone(store: Store, commits: list[int]) -> None:
    def fill(connection: Connection) -> None:
        connection.exec_driver_sql("PRAGMA max_page_count = 1")
        connection.exec_driver_sql("CREATE TABLE large AS SELECT zeroblob(10000000) AS data")

    with together(store, insert("a"), fill, insert("b")) as futures:
        outcomes = [future.exception(20) for future in futures]
    assert outcomes[0] is outcomes[2] is None
    assert isinstance(outcomes[1], StorageFull)
    assert {"a", "b"} <= names(store)


def test_a_transaction_aborted_by_the_database_fails_its_whole_group(
    store: Store, unhurried: None
) -> None:
    def lose(connection: Connection) -> None:
        connection.exec_driver_sql("ROLLBACK")  # as SQLite may do after an I/O error
        raise OperationalError("INSERT", None, Exception("database or disk is full"))

    with together(store, insert("a"), lose) as futures:
        for future in futures:
            with pytest.raises(StorageFull):
                future.result(20)
    assert "a" not in names(store)
    with store.write() as connection:
        insert("later")(connection)
    assert "later" in names(store)


def test_a_nested_transaction_in_the_same_thread_is_refused(store: Store) -> None:
    with (
        store.write(),
        pytest.raises(RuntimeError, match="already in a write transaction"),
        store.write(),
    ):
        pass
    with store.write() as connection:
        insert("later")(connection)
    assert "later" in names(store)
