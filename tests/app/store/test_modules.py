"""Rows of modules, datasets, checkpoints and keys."""

from __future__ import annotations

import pytest
from sqlalchemy import update

from app.domain.checkpoint import CheckpointManifest, CheckpointTag, FileDigest
from app.domain.dataset import ArrayInfo, DatasetKind, DatasetRecord
from app.domain.job import Job, JobKind, JobStatus
from app.domain.module import (
    SINGLE,
    BindSpec,
    InitSpec,
    InputDesc,
    ModuleKind,
    ModuleRecord,
    OptimizerSpec,
    ParamsSource,
)
from app.errors.tree import AlreadyExists, IdempotencyMismatch, InUse, NotFound, PreconditionFailed
from app.store import queue
from app.store.checkpoints import (
    forget_checkpoint,
    indexed_tags,
    list_checkpoints,
    put_checkpoint,
)
from app.store.datasets import delete_dataset, get_dataset, insert_dataset, list_datasets
from app.store.filters import CheckpointFilter, DatasetFilter, JobFilter, ModuleFilter
from app.store.idempotency import forget_keys_before, recall, remember
from app.store.jobs import list_jobs
from app.store.modules import (
    delete_module,
    get_module,
    insert_module,
    list_modules,
    save_module,
)
from app.store.schema import modules
from app.store.store import Store
from served.moments import at
from served.stored_jobs import insert_job

FULL = ModuleRecord(
    name="full",
    kind=ModuleKind.BUCKETING,
    symbols={"10": '{"a":1}', "20": '{"b":2}'},
    default_bucket_key="20",
    data_names=("data", "length"),
    label_names=(),
    state_names=("h",),
    fixed_param_names=("w",),
    fixed_param_patterns=("conv",),
    excluded_param_patterns=("bias",),
    compression_params={"type": "2bit", "threshold": 0.5},
    executor="cpu(1)",
    contexts=("cpu(1)", "cpu(2)"),
    bind=BindSpec(data_shapes=(InputDesc(name="data", shape=(4, 8)),), grad_req={"w": "add"}),
    init=InitSpec(initializer="xavier", options={"magnitude": 2.0}, seed=3),
    optimizer=OptimizerSpec(name="adam", options={"learning_rate": 0.1}),
    params=ParamsSource.CHECKPOINT,
    checkpoint=CheckpointTag(3, 7),
    generation=4,
)


def test_a_module_is_read_back_as_written(store: Store) -> None:
    with store.write() as connection:
        created = insert_module(connection, FULL)
        assert created == FULL.evolve(id=created.id)
        assert get_module(connection, "full") == created


def test_a_taken_name_is_refused_and_the_transaction_continues(two_modules: Store) -> None:
    with two_modules.write() as connection:
        with pytest.raises(AlreadyExists, match="module 'a'"):
            insert_module(connection, FULL.evolve(name="a"))
        insert_module(connection, FULL)
    with two_modules.read() as connection:
        assert get_module(connection, "full").stage.value == "ready"


def test_a_concurrent_change_is_refused(two_modules: Store) -> None:
    with two_modules.write() as connection:
        seen = get_module(connection, "a")
        changed = seen.evolve(init=InitSpec(), version=seen.version + 1, updated_at=5.0)
        saved = save_module(connection, changed, seen.version)
        assert get_module(connection, "a") == saved == changed
        assert saved.etag != seen.etag
        with pytest.raises(PreconditionFailed, match="version of module 'a' is 2"):
            save_module(connection, changed, seen.version)


def test_lists_are_paged_by_name(two_modules: Store) -> None:
    with two_modules.write() as connection:
        insert_module(connection, FULL)
        first = list_modules(connection, ModuleFilter(), None, 2)
        assert [record.name for record in first.items] == ["a", "b"]
        assert first.next_cursor == "b"
        last = list_modules(connection, ModuleFilter(), first.next_cursor, 2)
        assert [record.name for record in last.items] == ["full"]
        assert last.items[0].symbols == FULL.symbols
        assert last.next_cursor is None


def test_deleting_a_module_deletes_everything_it_owns(two_modules: Store) -> None:
    manifest = CheckpointManifest(
        module="a", epoch=1, prefix="a", files={}, created_at=1.0, metrics={"accuracy": 0.5}
    )
    with two_modules.write() as connection:
        identity = get_module(connection, "a").id
        insert_job(connection, Job(kind=JobKind.FIT, module="a"), (), 0.0)
        put_checkpoint(connection, manifest)
        delete_module(connection, identity)
        with pytest.raises(NotFound):
            get_module(connection, "a")
        with pytest.raises(NotFound):
            delete_module(connection, identity)
        assert list_jobs(connection, JobFilter(), None, 10).items == ()
        for table in ("symbols", "checkpoints", "jobs", "events"):
            count = connection.exec_driver_sql(f"SELECT COUNT(*) FROM {table}").scalar_one()
            assert count == (1 if table == "symbols" else 0), table


def test_jobs_are_filtered_and_paged_newest_first(two_modules: Store) -> None:
    with two_modules.write() as connection:
        for module, kind in [("a", JobKind.FIT), ("b", JobKind.FIT), ("a", JobKind.SCORE)] * 2:
            insert_job(connection, Job(kind=kind, module=module), (), 0.0)
        page = list_jobs(connection, JobFilter(modules=["a"]), None, 3)
        assert [job.id for job in page.items] == [6, 4, 3]
        assert page.next_cursor == "3"
        rest = list_jobs(connection, JobFilter(modules=["a"]), 3, 3)
        assert [job.id for job in rest.items] == [1]
        scores = list_jobs(connection, JobFilter(kinds=[JobKind.SCORE]), None, 10)
        assert [job.id for job in scores.items] == [6, 3]
        queued = list_jobs(connection, JobFilter(statuses=[JobStatus.QUEUED]), None, 9)
        assert len(queued.items) == 6


def test_checkpoints_are_listed_furthest_first(two_modules: Store) -> None:
    def manifest(epoch: int, batch: int, size: int = 1) -> CheckpointManifest:
        files = {"x": FileDigest(size=size, sha256="0" * 64)}
        return CheckpointManifest(
            module="a", epoch=epoch, batch=batch, prefix="a", files=files, created_at=1.0
        )

    with two_modules.write() as connection:
        for epoch, batch in [(1, 0), (2, 0), (1, 50)]:
            put_checkpoint(connection, manifest(epoch, batch))
        put_checkpoint(connection, manifest(2, 0, size=9))
        page = list_checkpoints(connection, "a", CheckpointFilter(), None, 2)
        assert [m.tag for m in page.items] == [(2, 0), (1, 50)]
        assert page.items[0].size == 9
        rest = list_checkpoints(
            connection, "a", CheckpointFilter(), CheckpointTag.parse(page.next_cursor), 2
        )
        assert [m.tag for m in rest.items] == [(1, 0)]
        forget_checkpoint(connection, "a", CheckpointTag(2))
        assert indexed_tags(connection, "a") == {(1, 50), (1, 0)}
        with pytest.raises(NotFound):
            list_checkpoints(connection, "nowhere", CheckpointFilter(), None, 2)


def test_a_dataset_in_use_is_kept_until_its_job_is_over(two_modules: Store) -> None:
    record = DatasetRecord(
        name="mnist",
        kind=DatasetKind.NPZ,
        arrays=(ArrayInfo(name="x", shape=(4, 2), dtype="uint8"),),
        examples=4,
        size=10,
        sha256="ab" * 32,
    )
    with two_modules.write() as connection:
        created = insert_dataset(connection, record)
        assert get_dataset(connection, "mnist") == created
        assert list_datasets(connection, DatasetFilter(), None, 5).items == (created,)
        with pytest.raises(AlreadyExists):
            insert_dataset(connection, record)
        job = insert_job(connection, Job(kind=JobKind.FIT, module="a"), [created.id], 0.0)
        with pytest.raises(InUse, match="mnist"):
            delete_dataset(connection, "mnist")
        queue.request_cancel(connection, job.id, at(1.0))
        assert delete_dataset(connection, "mnist") == created
        with pytest.raises(NotFound):
            get_dataset(connection, "mnist")


def test_idempotency_keys_are_recalled_refused_and_forgotten(store: Store) -> None:
    with store.write() as connection:
        assert recall(connection, "jobs", "k", "f1") is None
        remember(connection, "jobs", "k", "f1", "7", now=10.0)
        assert recall(connection, "jobs", "k", "f1") == "7"
        assert recall(connection, "modules", "k", "f1") is None
        with pytest.raises(IdempotencyMismatch, match="Idempotency-Key"):
            recall(connection, "jobs", "k", "f2")
        forget_keys_before(connection, 10.0)
        assert recall(connection, "jobs", "k", "f1") == "7"
        forget_keys_before(connection, 10.5)
        assert recall(connection, "jobs", "k", "f1") is None


def test_bucket_keys_of_different_types_stay_distinct(store: Store) -> None:
    with store.write() as connection:
        insert_module(connection, ModuleRecord(name="m", symbols={SINGLE: "s"}))
        assert get_module(connection, "m").symbols == {"null": "s"}


def test_rows_of_older_servers_may_lack_newer_fields(store: Store) -> None:
    with store.write() as connection:
        record = insert_module(connection, FULL)
        spec = {
            "default_bucket_key": "20",
            "data_names": ["data"],
            "label_names": [],
            "state_names": [],
            "fixed_param_names": ["w"],
            "contexts": ["cpu(0)"],
        }
        connection.execute(update(modules).where(modules.c.id == record.id).values(spec=spec))
    with store.read() as connection:
        found = get_module(connection, "full")
    assert (found.fixed_param_names, found.fixed_param_patterns) == (("w",), ())
    assert found.compression_params is None
