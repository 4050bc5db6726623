"""Damage inside a JSON column: one row is put aside, the others are read, files mend what they can.

The damage is done to the bytes in the database, as a flipped bit on the disk would.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from sqlalchemy import JSON

from app.domain.checkpoint import CheckpointTag
from app.domain.dataset import DatasetKind
from app.domain.job import JobStatus
from app.domain.module import SINGLE, InitSpec, ModuleRecord, OptimizerSpec, ParamsSource
from app.errors.database import RowDamaged
from app.errors.tree import NotFound
from app.files.checkpoint_files import admit_attempt, write_checkpoint
from app.link.job_messages import JobDone, JobFailed, JobProgress
from app.services.operations.recovery_report import Outcome
from app.store.schema import metadata

T = CheckpointTag
S = JobStatus

DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "cut": lambda content: content[: len(content) // 2],
    "no object": lambda content: b"7",
    "a flipped bit in a bracket": lambda content: bytes([content[0] ^ 1]) + content[1:],
    "no UTF-8": lambda content: content[:1] + b"\xff" + content[2:],
}


def columns() -> list[tuple[str, str]]:
    """Return all columns of JSON, as (table, column)."""
    found = [
        (table.name, column.name)
        for table in metadata.sorted_tables
        for column in table.columns
        if isinstance(column.type, JSON)
    ]
    assert len(found) == 13
    return found


def database(bench: Any) -> str:
    return str(bench.store._engine.url.database)


def spoil(
    bench: Any, table: str, column: str, damage: Callable[[bytes], bytes], where: str
) -> None:
    """Damage the value of one row."""
    with closing(sqlite3.connect(database(bench))) as connection, connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        query = f"SELECT id, CAST({column} AS BLOB) FROM {table} WHERE {where}"
        if table == "checkpoints":
            query = query.replace("id,", "module_id,")
        (row,) = connection.execute(query).fetchall()
        assert row[1] is not None
        connection.execute(
            f"UPDATE {table} SET {column} = CAST(? AS TEXT) WHERE {where}",
            (damage(row[1]),),
        )


CHOSEN: dict[str, Any] = {
    "params": ParamsSource.CHECKPOINT,
    "checkpoint": T(1),
    "init": InitSpec(),
    "optimizer": OptimizerSpec(name="sgd"),
}


@pytest.fixture
def world(make_fresh: Any) -> Any:
    """A server with two modules, with checkpoints, and two datasets."""
    bench = make_fresh()
    for name in ("a", "b"):
        bench.modules.create(ModuleRecord(name=name, symbols={SINGLE: "{}"}))
        bench.upload(f"data-{name}", b"1,2\n3,4\n", DatasetKind.CSV)
        for epoch in (1, 2):
            root = bench.checkpoints.root(name)
            admit_attempt(root, 1, 1)
            with write_checkpoint(root, T(epoch), module=name, job_id=1, attempt=1) as writer:
                (writer.directory / f"{name}-{epoch:04}.params").write_bytes(b"w")
            bench.checkpoints.saved(name, T(epoch))
        bench.modules.change(name, lambda one: one.evolve(**CHOSEN))
    return bench


def shown(bench: Any) -> object:
    """Return what clients can see of modules, datasets and checkpoints, but for versions."""
    modules = bench.modules.list_modules().items
    return (
        [one.evolve(version=1, generation=1, updated_at=0) for one in modules],
        bench.datasets.list_datasets().items,
        [bench.checkpoints.list_checkpoints(one.name).items for one in modules],
    )


OF_FILES = [
    ("modules", "spec", "name = 'a'"),
    ("modules", "init", "name = 'a'"),
    ("modules", "optimizer", "name = 'a'"),
    ("datasets", "arrays", "name = 'data-a'"),
    ("checkpoints", "manifest", "module_id = 1 AND epoch = 2"),
]


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
@pytest.mark.parametrize(("table", "column", "where"), OF_FILES)
def test_what_files_have_is_written_anew(
    world: Any, make_fresh: Any, table: str, column: str, where: str, damage: Any
) -> None:
    before = shown(world)
    spoil(world, table, column, damage, where)
    assert shown(world) != before, "the damaged row is left out"
    assert [one.name for one in world.modules.list_modules(limit=1).items] in ([], ["a"])
    (looked,) = world.recovery.look().findings if table != "checkpoints" else [None]
    assert looked is None or looked.outcome is Outcome.DAMAGED
    again = make_fresh(again=world)
    (finding,) = again.recovery.run(rebuild=False).findings
    assert finding.outcome is Outcome.DAMAGED
    assert "its row in the server's database is damaged" in finding.detail
    assert shown(again) == before, "the checkpoint that a client chose stays, too"
    assert again.recovery.run(rebuild=False).findings == ()


def test_without_a_file_the_row_is_left_and_named(world: Any, make_fresh: Any) -> None:
    for table, column, where in OF_FILES[2:4]:
        spoil(world, table, column, DAMAGES["cut"], where)
    (world.data_dir / "modules" / "a").rename(world.data_dir / "elsewhere")
    (world.data_dir / "datasets" / "data-a.json").unlink()
    again = make_fresh(again=world)
    found = {f"{one.kind} {one.name}": one for one in again.recovery.run(rebuild=False).findings}
    assert found["module a"].outcome is found["dataset data-a"].outcome is Outcome.LEFT
    assert "is damaged" in found["module a"].detail
    for read in (lambda: again.modules.get("a"), lambda: again.datasets.get("data-a")):
        with pytest.raises(RowDamaged, match="is damaged"):
            read()
    assert [one.name for one in again.modules.list_modules().items] == ["b"]


def report(world: Any, job: Any, kind: type, **facts: Any) -> None:
    world.clock.now += 1.0
    world.record(kind(job_id=job.id, attempt=1, **facts))


@pytest.mark.parametrize(
    ("status", "column", "damage"),
    [
        *((S.RUNNING, "params", damage) for damage in DAMAGES.values()),
        (S.QUEUED, "params", DAMAGES["cut"]),
        (S.PAUSED, "params", DAMAGES["cut"]),
        (S.RUNNING, "progress", DAMAGES["cut"]),
        (S.QUEUED, "setback", DAMAGES["cut"]),
    ],
)
def test_an_unfinished_job_fails_and_others_go_on(
    world: Any, caplog: pytest.LogCaptureFixture, column: str, damage: Any, status: JobStatus
) -> None:
    jobs = [world.fit(name, dataset="data-a") for name in ("a", "a", "b")]
    world.queue.claim("cpu(0)", 2)
    if column == "setback":
        world.queue.lose(jobs[0].id, 1, "died")
        world.queue.claim("cpu(0)")
    if status is not S.RUNNING:
        world.jobs.pause(jobs[0].id)
        world.queue.release(jobs[0].id, world.jobs.get(jobs[0].id).attempt, "stopped")
    if status is S.QUEUED:
        world.jobs.resume(jobs[0].id)
    spoil(world, "jobs", column, damage, f"id = {jobs[0].id}")

    assert [job.id for job in world.jobs.list_jobs().items] == [jobs[2].id, jobs[1].id]
    kept, void = world.queue.renew([(jobs[0].id, 1), (jobs[2].id, 1)])
    assert ([job.id for job in kept], void) == ([jobs[2].id], [(jobs[0].id, 1)])
    world.queue.recover()
    failed = world.jobs.get(jobs[0].id)
    assert (failed.status, failed.error["code"]) == (S.FAILED, "row_damaged")
    assert (failed.requested, failed.lease_until, failed.server) == (None, None, None)
    assert ("damaged" in failed.params) == (column == "params")
    assert world.jobs.events(jobs[0].id)[-1].status is S.FAILED
    assert len(world.jobs.list_jobs().items) == 3
    world.queue.recover()
    assert world.jobs.get(jobs[2].id).status is S.RUNNING
    assert [job.id for job in world.queue.claim("cpu(0)", 5)] == [jobs[1].id]


@pytest.mark.parametrize(
    ("column", "damage"),
    [
        *(("params", damage) for damage in DAMAGES.values()),
        *((name, DAMAGES["cut"]) for name in ("progress", "result", "error")),
    ],
)
def test_a_finished_job_is_left_out_and_can_be_deleted(
    world: Any, caplog: pytest.LogCaptureFixture, column: str, damage: Any
) -> None:
    jobs = [world.fit("a", dataset="data-a") for _ in range(3)]
    for job in jobs:
        world.claim()
        if column == "error":
            report(world, job, JobFailed, code="invalid", message="no", field=None)
        else:
            report(world, job, JobDone, result={"epochs": 2})
    spoil(world, "jobs", column, damage, f"id = {jobs[1].id}")
    with caplog.at_level(logging.WARNING):
        pages, cursor = [], None
        while not pages or cursor:
            page = world.jobs.list_jobs(cursor=cursor, limit=1)
            pages.append([job.id for job in page.items])
            cursor = page.next_cursor
        assert pages == [[jobs[2].id], [], [jobs[0].id]], "the pages go on behind it"
    assert f"job {jobs[1].id}: its row" in caplog.text
    with pytest.raises(RowDamaged):
        world.jobs.get(jobs[1].id)
    world.jobs.delete(jobs[1].id)
    with pytest.raises(NotFound):
        world.jobs.get(jobs[1].id)
    assert world.jobs.remove_surplus(1, None) == 1


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_event_is_left_out(world: Any, damage: Any) -> None:
    job = world.fit("a", dataset="data-a")
    world.claim()
    report(world, job, JobProgress, epoch=0, epochs=2, batch=1, batches=None, metrics={})
    before = world.jobs.events()
    spoil(world, "events", "data", damage, f"id = {before[-2].id}")
    assert world.jobs.events() == [*before[:-2], before[-1]]
    assert world.jobs.events(job.id) == [one for one in world.jobs.events() if one.job_id == job.id]
