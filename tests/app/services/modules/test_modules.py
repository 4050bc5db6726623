"""Modules as database rows with their directories."""

from __future__ import annotations

import pytest

from app.domain.checkpoint import CheckpointTag
from app.domain.module import (
    SINGLE,
    BindSpec,
    InitSpec,
    InputDesc,
    ModuleRecord,
    OptimizerSpec,
    ParamsSource,
    Stage,
)
from app.errors.tree import AlreadyExists, IdempotencyMismatch, InUse, Invalid, Unavailable
from app.store.modules import save_module

BIND = BindSpec(data_shapes=(InputDesc(name="data", shape=(2, 3)),))


def record(name: str = "new", **changes: object) -> ModuleRecord:
    return ModuleRecord(name=name, symbols={SINGLE: "{}"}).evolve(**changes)


@pytest.mark.parametrize("name", ["..", "a/b", "", ".x", "x" * 129])
def test_invalid_names_are_refused(bench, name: str) -> None:
    with pytest.raises(Invalid, match="name"):
        bench.modules.create(record(name))


def test_the_default_bucket_must_be_among_the_symbols(bench) -> None:
    with pytest.raises(Invalid, match="default_bucket_key: got 30, expected one of the keys"):
        bench.modules.create(record(symbols={"10": "{}"}, default_bucket_key="30"))
    with pytest.raises(Invalid, match="bucket key"):
        bench.modules.create(record(symbols={SINGLE: "{}", "1" * 300: "{}"}))


def test_a_repeated_idempotency_key_creates_one_module(bench) -> None:
    created = bench.modules.create(record(), "key")
    assert created.created_at == 1000.0
    assert bench.modules.create(record(), "key") == created
    with pytest.raises(AlreadyExists):
        bench.modules.create(record())
    with pytest.raises(IdempotencyMismatch):
        bench.modules.create(record("other"), "key")


def test_a_fit_updates_the_record(bench) -> None:
    prepared = bench.modules.prepared("a", BIND, InitSpec(), OptimizerSpec(name="adam"))
    assert prepared.stage is Stage.READY
    assert prepared.params is ParamsSource.INIT
    saved = bench.modules.saved("a", CheckpointTag(2), saved_states=True)
    assert (saved.params, saved.checkpoint) == (ParamsSource.CHECKPOINT, CheckpointTag(2))
    resumed = bench.modules.prepared("a", BIND, None, OptimizerSpec(name="adam"))
    assert resumed.params is ParamsSource.CHECKPOINT
    assert bench.modules.get("a") == resumed


def test_lists_are_paged(bench) -> None:
    page = bench.modules.list_modules(limit=1)
    assert [module.name for module in page.items] == ["a"]
    assert [module.name for module in bench.modules.list_modules(page.next_cursor).items] == ["b"]
    with pytest.raises(Invalid, match="cursor"):
        bench.modules.list_modules("../x")


def test_deletion_removes_the_files_and_waits_for_jobs(bench) -> None:
    directory = bench.data_dir / "modules" / "a"
    (directory / "checkpoints" / "1").mkdir(parents=True)
    job = bench.fit("a")
    with pytest.raises(InUse, match="unfinished jobs"):
        bench.modules.delete("a")
    bench.jobs.cancel(job.id)
    bench.modules.delete("a")
    assert bench.modules.directories.names() == ["b"]
    assert bench.modules.directories.hidden() == []
    assert bench.jobs.list_jobs().items == ()


def test_unknown_files_block_a_module_of_their_name(bench) -> None:
    stranger = bench.data_dir / "modules" / "new" / "checkpoints" / "1"
    stranger.mkdir(parents=True)
    with pytest.raises(AlreadyExists, match="modserve recover"):
        bench.modules.create(record())
    assert stranger.exists()


def test_every_change_is_written_to_the_file(bench) -> None:
    created = bench.modules.create(record(), "key")
    assert bench.modules.directories.read("new") == created.evolve(id=0)
    changed = bench.modules.change("new", lambda new: new.evolve(bind=BIND))
    assert bench.modules.directories.read("new") == changed.evolve(id=0)
    bench.modules.delete("new")
    assert "new" not in bench.modules.directories.names()


def test_changes_refused_by_the_database_are_not_in_the_file(bench) -> None:
    before = bench.modules.directories.read("a")
    with pytest.raises(Unavailable, match="all the time"):
        bench.modules.change("a", lambda a: changed_meanwhile(bench, a))
    assert bench.modules.directories.read("a") == before


def changed_meanwhile(bench, record: ModuleRecord) -> ModuleRecord:
    """Return a changed record, after another server has saved a change of its own."""
    with bench.store.write() as connection:
        save_module(connection, record.evolve(version=record.version + 1), record.version)
    return record.evolve(bind=BIND)
