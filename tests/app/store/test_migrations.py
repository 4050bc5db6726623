"""The schema: made from empty and from every older version, and equal to what queries expect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, create_engine, inspect, text
from sqlalchemy.exc import IntegrityError

from app.errors import Unavailable
from app.store.migrations import LATEST, MIGRATIONS, current_version, migrate
from app.store.schema import metadata
from app.store.store import Store


def describe(connection: Connection, table: str) -> dict[str, Any]:
    found = inspect(connection)
    return {
        "columns": [
            (row["name"], str(row["type"].as_generic()).replace("FLOAT", "DOUBLE"), row["nullable"])
            for row in found.get_columns(table)
            if row["name"] != "id"  # a key: spelt differently, never null
        ],
        "key": found.get_pk_constraint(table)["constrained_columns"],
        "checks": sorted(
            (row["name"], "".join(row["sqltext"].split()))
            for row in found.get_check_constraints(table)
        ),
        "foreign": sorted(
            (row["constrained_columns"], row["referred_table"], row["options"])
            for row in found.get_foreign_keys(table)
        ),
        "unique": sorted(row["column_names"] for row in found.get_unique_constraints(table)),
        "indexes": sorted(
            (row["name"], row["column_names"], row["unique"]) for row in found.get_indexes(table)
        ),
    }


def test_migrated_schema_is_the_one_that_queries_expect(store: Store) -> None:
    engine = create_engine("sqlite://")
    with store.read() as migrated, engine.begin() as declared:
        metadata.create_all(declared)
        tables = set(inspect(migrated).get_table_names()) - {"schema_version"}
        assert tables == set(metadata.tables)
        for table in tables:
            assert describe(migrated, table) == describe(declared, table), table
    engine.dispose()


@pytest.mark.parametrize("version", range(LATEST + 1))
def test_every_older_version_is_brought_up_to_date(tmp_path: Path, version: int) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'old.db'}")
    with engine.begin() as connection:
        if version:
            migrate(connection, MIGRATIONS[:version])
        assert current_version(connection) == version
    with engine.begin() as connection:
        assert migrate(connection) == (version, LATEST)
        assert migrate(connection) == (LATEST, LATEST)
    engine.dispose()


def test_later_migration_keeps_the_rows(two_modules: Store) -> None:
    later = (*MIGRATIONS, ("ALTER TABLE modules ADD COLUMN note TEXT",))
    with two_modules.write() as connection:
        assert migrate(connection, later) == (LATEST, LATEST + 1)
        rows = connection.execute(text("SELECT name, note FROM modules ORDER BY name")).all()
    assert [tuple(row) for row in rows] == [("a", None), ("b", None)]


def test_failing_migration_changes_nothing(store: Store) -> None:
    broken = (*MIGRATIONS, ("CREATE TABLE extra (id INTEGER)", "INSERT INTO nowhere VALUES (1)"))
    with pytest.raises(Unavailable, match="no such table: nowhere"), store.write() as connection:
        migrate(connection, broken)
    with store.read() as connection:
        assert current_version(connection) == LATEST
        assert not inspect(connection).has_table("extra")


def test_newer_database_is_refused(store: Store) -> None:
    with store.write() as connection:
        connection.execute(text("INSERT INTO schema_version VALUES (99, 0)"))
    with pytest.raises(Unavailable, match="schema 99"):
        store.open()


@pytest.mark.parametrize(
    ("change", "constraint"),
    [
        ("status = 'done'", "jobs_status"),
        ("status = 'running'", "jobs_lease"),
        ("lease_until = 1, server = 'x'", "jobs_lease"),
        ("requested = 'pause'", "jobs_requested_running"),
        ("status = 'succeeded', finished_at = 1", "jobs_result"),
        ("status = 'failed', finished_at = 1", "jobs_error"),
        ("status = 'cancelled'", "jobs_finished"),
        ("lost = 4", "jobs_counts"),
        ("module_id = 99", "FOREIGN KEY"),
    ],
)
def test_database_itself_refuses_states_that_cannot_be(
    two_modules: Store, change: str, constraint: str
) -> None:
    insert = text(
        "INSERT INTO jobs (module_id, kind, status, params, priority, attempt, lost, max_attempts,"
        " lease_seconds, progress, created_at, updated_at)"
        " VALUES (1, 'fit', 'queued', '{}', 0, 0, 0, 3, 30, '{}', 0, 0)"
    )
    with two_modules.write() as connection:
        connection.execute(insert)
    with (
        pytest.raises(IntegrityError, match=constraint),
        two_modules.write() as connection,
    ):
        connection.execute(text(f"UPDATE jobs SET {change}"))


def test_database_itself_refuses_two_running_jobs_of_a_module(two_modules: Store) -> None:
    insert = text(
        "INSERT INTO jobs (module_id, kind, status, params, priority, attempt, lost, max_attempts,"
        " lease_seconds, progress, created_at, updated_at, lease_until, server)"
        " VALUES (:module, 'fit', 'running', '{}', 0, 1, 0, 3, 30, '{}', 0, 0, 9, 's')"
    )
    with two_modules.write() as connection:
        connection.execute(insert, {"module": 1})
        connection.execute(insert, {"module": 2})
    with pytest.raises(IntegrityError, match="UNIQUE"), two_modules.write() as connection:
        connection.execute(insert, {"module": 1})
