"""The schema is the one that queries expect, made from scratch or migrated from any version."""

from __future__ import annotations

import importlib
import shutil
from pathlib import Path
from typing import Any

import pytest
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, inspect, text
from sqlalchemy.exc import IntegrityError

from app.domain.job import JobEvent
from app.errors.tree import StartError, Unavailable
from app.store import migrations
from app.store.events import events_after
from app.store.migrations import current_revision, latest_revision, migrate, revisions
from app.store.schema import metadata
from app.store.store import Store


def describe(connection: Connection, table: str) -> dict[str, Any]:
    found = inspect(connection)
    return {
        "columns": [
            (row["name"], str(row["type"].as_generic()).replace("FLOAT", "DOUBLE"), row["nullable"])
            for row in found.get_columns(table)
            if row["name"] != "id"  # primary keys are declared differently, but equivalently
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


def test_the_migrated_schema_is_the_one_queries_expect(store: Store, empty_url: str) -> None:
    engine = create_engine(empty_url)
    with store.read() as migrated, engine.begin() as declared:
        metadata.create_all(declared)
        tables = set(inspect(migrated).get_table_names()) - {"alembic_version"}
        assert tables == set(metadata.tables)
        for table in tables:
            assert describe(migrated, table) == describe(declared, table), table
    engine.dispose()


@pytest.mark.parametrize("revision", [None, *revisions()])
def test_every_older_revision_is_migrated(empty_url: str, revision: str | None) -> None:
    engine = create_engine(empty_url)
    with engine.begin() as connection:
        if revision is not None:
            migrate(connection, revision)
        assert current_revision(connection) == revision
    for _ in range(2):
        with engine.begin() as connection:
            migrate(connection)
            assert current_revision(connection) == latest_revision()
    engine.dispose()


def test_a_database_from_before_alembic_is_migrated(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'old.db'}")
    with engine.begin() as connection:
        migrate(connection, "0001")
        connection.execute(text("DROP TABLE alembic_version"))
        connection.execute(text("CREATE TABLE schema_version (version INTEGER, applied_at REAL)"))
        connection.execute(text("INSERT INTO schema_version VALUES (1, 0)"))
        connection.execute(text("UPDATE counters SET value = 7 WHERE name = 'events'"))
    with engine.begin() as connection:
        assert current_revision(connection) == "0001"
        migrate(connection)
        assert current_revision(connection) == latest_revision()
        assert connection.scalar(text("SELECT value FROM counters WHERE name = 'events'")) == 7
        assert not inspect(connection).has_table("schema_version")
    engine.dispose()


def test_events_of_older_databases_get_their_module_and_executor(empty_url: str) -> None:
    engine = create_engine(empty_url)
    with engine.begin() as connection:
        migrate(connection, "0006")
        connection.execute(
            text(
                "INSERT INTO modules (id, name, kind, executor, spec, generation, version,"
                " created_at, updated_at) VALUES (7, 'net', 'module', 'cpu(0)', '{}', 1, 1, 0, 0)"
            )
        )
        connection.execute(
            text(
                "INSERT INTO jobs (id, module_id, kind, status, params, priority, attempt, lost,"
                " max_attempts, lease_seconds, progress, created_at, updated_at, executor)"
                " VALUES (3, 7, 'fit', 'queued', '{}', 0, 0, 0, 3, 30, '{}', 0, 0, 'cpu(0)')"
            )
        )
        connection.execute(
            text(
                "INSERT INTO events (id, job_id, attempt, kind, status, data, created_at)"
                " VALUES (5, 3, 0, 'submitted', 'queued', '{\"kind\": \"fit\"}', 1)"
            )
        )
        migrate(connection)
        (found,) = events_after(connection, 0, 10)
        assert (found.id, found.job_id, found.type) == (5, 3, JobEvent.SUBMITTED)
        assert (found.module, found.executor, found.data) == ("net", "cpu(0)", {"kind": "fit"})
    engine.dispose()


def test_a_failing_migration_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = importlib.import_module("app.store.migrations.versions.v0001_initial")
    broken = (*first._STATEMENTS[:3], "INSERT INTO nowhere VALUES (1)")
    source = Path(first.__file__ or "").read_text()
    folder = tmp_path / "migrations"
    shutil.copytree(Path(migrations.__file__).parent, folder)
    (folder / "versions" / "v0001_initial.py").write_text(
        source + f"\n\n_STATEMENTS = {broken!r}\n"
    )
    monkeypatch.setattr(migrations, "_FOLDER", folder)
    url = f"sqlite:///{tmp_path / 'new.db'}"
    with pytest.raises(StartError, match="no such table: nowhere"):
        Store(url).open()
    engine = create_engine(url)
    with engine.connect() as connection:
        assert inspect(connection).get_table_names() == []
    engine.dispose()


def test_a_newer_database_is_refused(store: Store) -> None:
    with store.write() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(Unavailable, match="schema 9999"):
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
        ("module_id = 99", "(?i)foreign key"),
    ],
)
def test_the_database_itself_refuses_impossible_states(
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


def test_the_database_itself_refuses_two_running_jobs_of_a_module(two_modules: Store) -> None:
    insert = text(
        "INSERT INTO jobs (module_id, kind, status, params, priority, attempt, lost, max_attempts,"
        " lease_seconds, progress, created_at, updated_at, lease_until, server)"
        " VALUES (:module, 'fit', 'running', '{}', 0, 1, 0, 3, 30, '{}', 0, 0, 9, 's')"
    )
    with two_modules.write() as connection:
        connection.execute(insert, {"module": 1})
        connection.execute(insert, {"module": 2})
    with pytest.raises(IntegrityError, match=r"(?i)unique"), two_modules.write() as connection:
        connection.execute(insert, {"module": 1})


def test_files_are_named_after_their_revisions() -> None:
    scripts = ScriptDirectory.from_config(migrations._config())
    assert [script.revision for script in scripts.walk_revisions()][::-1] == revisions()
