"""A database and a data directory that do not belong together are refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.domain.module import SINGLE, ModuleRecord
from app.errors.tree import StartError
from app.files.directory_id import proposed_id, read_id
from app.services.operations.directory_claim import claim_directory
from app.services.operations.liveness import Liveness
from app.store.data_directory import directory_of
from app.store.modules import insert_module
from app.store.store import Store
from served.deaths import dying_at


class Server:
    """A store and a directory; present once it has claimed the directory."""

    def __init__(self, database: Path, data_dir: Path) -> None:
        data_dir.mkdir(exist_ok=True)
        self.data_dir = data_dir
        self.liveness = Liveness(data_dir / "servers")
        self.store = Store(f"sqlite:///{database}")
        self.store.open()

    def claim(self) -> bool:
        """Claim the directory, as a server does at every start."""
        self.liveness.leave()
        self.liveness = Liveness(self.data_dir / "servers")
        return claim_directory(self.store, self.data_dir, self.liveness)

    def add_module(self) -> None:
        with self.store.write() as connection:
            insert_module(connection, ModuleRecord(name="a", symbols={SINGLE: "{}"}))

    def end(self) -> None:
        self.liveness.leave()
        self.store.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path / "one.db", tmp_path / "one")
    yield server
    server.end()


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Server]:
    """Another database for the same directory."""
    server = Server(tmp_path / "other.db", tmp_path / "one")
    yield server
    server.end()


def test_directory_and_database_get_a_common_permanent_id(server: Server) -> None:
    assert server.claim()
    identity = read_id(server.data_dir)
    assert identity is not None
    with server.store.read() as connection:
        assert directory_of(connection) == identity
    server.add_module()
    assert not server.claim()
    assert read_id(server.data_dir) == identity


def test_an_old_directory_gets_its_id_from_its_own_database(server: Server) -> None:
    server.add_module()
    assert not server.claim()
    assert read_id(server.data_dir) is not None


def test_an_empty_database_adopts_an_unused_directory(server: Server, other: Server) -> None:
    server.claim()
    with pytest.raises(StartError, match=r"in use by 1 other .*MODSERVE_DATABASE_URL"):
        other.claim()
    with other.store.read() as connection:
        assert directory_of(connection) is None
    server.liveness.leave()
    assert other.claim()
    with other.store.read() as connection:
        assert directory_of(connection) == read_id(server.data_dir)


def test_a_database_of_another_directory_is_refused(
    server: Server, other: Server, tmp_path: Path
) -> None:
    server.claim()
    server.liveness.leave()
    other.add_module()  # older than ids, and of another directory
    with pytest.raises(StartError, match="belongs to another data directory"):
        other.claim()
    third = Server(tmp_path / "one.db", tmp_path / "empty")
    with pytest.raises(StartError, match=r"which has no id.*is the disk mounted"):
        third.claim()
    fourth = Server(tmp_path / "fourth.db", tmp_path / "fourth")
    fourth.claim()
    fifth = Server(tmp_path / "fourth.db", tmp_path / "one")
    with pytest.raises(StartError, match="which has id"):
        fifth.claim()
    for one in (third, fourth, fifth):
        one.end()


def test_a_claim_interrupted_at_any_step_is_repeated(tmp_path: Path) -> None:
    for step in range(30):
        data_dir = tmp_path / f"data-{step}"
        server = Server(tmp_path / f"{step}.db", data_dir)
        server.add_module()
        with dying_at(step, server.store) as victim:
            server.claim()
        server.end()
        again = Server(tmp_path / f"{step}.db", data_dir)
        again.claim()
        with again.store.read() as connection:
            assert directory_of(connection) == read_id(data_dir) is not None
        assert proposed_id(data_dir) is None
        again.end()
        if victim.steps <= step:
            assert step > 3
            return
    raise AssertionError("it has too many steps")


def test_a_damaged_id_is_reported_with_advice(server: Server) -> None:
    server.claim()
    (server.data_dir / "directory-id").write_bytes(b"\xff\x00 no id")
    with pytest.raises(StartError, match="32 hexadecimal digits"):
        server.claim()
