"""Restoring modules: calls to the executor, what is recorded, and sharing a restore."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from app.domain.checkpoint import CheckpointTag
from app.domain.module import BindSpec, InitSpec, InputDesc, ModuleRecord, OptimizerSpec
from app.domain.restoration import RestoreStatus
from app.errors.tree import ExecutorGone, HostError, ModuleFailed, NotFound
from app.files.checkpoint_files import write_checkpoint
from app.link.client import Buffers, Reply, Tensors, TensorSpecs
from app.services.modules.restoration import Restoration
from app.services.modules.restore_log import RestoreLog
from app.services.operations.executors import Executors

BIND = BindSpec(data_shapes=(InputDesc(name="data", shape=(2, 3)),))


class RecordingExecutor:
    """An ``ExecutorClient`` that records calls; ``errors`` are raised one by one, then none."""

    name = "cpu(0)"

    def __init__(self) -> None:
        self.calls: list[tuple[str, Mapping[str, Any]]] = []
        self.errors: list[BaseException] = []
        self.is_up = True
        self.names: list[str] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    def is_alive(self) -> bool:
        return self.is_up

    def reserve(self, specs: TensorSpecs) -> Buffers:
        raise AssertionError("nothing is restored from tensors")

    async def call(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        tensors: Tensors | Buffers | None = None,
    ) -> Reply:
        assert params is not None
        if method == "resident_modules":
            return Reply({"names": self.names})
        self.calls.append((method, params))
        await self.may_answer.wait()
        if self.errors:
            raise self.errors.pop(0)
        return Reply({})

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        raise AssertionError("nobody listens")
        yield

    def restored_from(self) -> list[str | None]:
        """Return the checkpoint of each requested restore."""
        found = [
            params.get("checkpoint") for name, params in self.calls if name == "restore_module"
        ]
        return [None if path is None else Path(path).name for path in found]


@pytest.fixture
async def executor() -> RecordingExecutor:
    return RecordingExecutor()


@pytest.fixture
def log(bench: Any) -> RestoreLog:
    return RestoreLog(bench.store, bench.clock)


@pytest.fixture
def restoration(bench: Any, log: RestoreLog, executor: RecordingExecutor) -> Restoration:
    """The restoration of the bench's modules."""
    executors = Executors()
    executors.add(executor)
    return Restoration(log, bench.modules, bench.checkpoints, executors)


def save(bench: Any, *epochs: int) -> None:
    """Save checkpoints of module ``a``; the last one is its newest."""
    for epoch in epochs:
        root = bench.checkpoints.root("a")
        with write_checkpoint(root, CheckpointTag(epoch), module="a") as writer:
            (writer.directory / f"a-{epoch:04d}.params").write_bytes(b"values")
        bench.checkpoints.saved("a", CheckpointTag(epoch))


def status(bench: Any, log: RestoreLog) -> RestoreStatus:
    (found,) = log.statuses([bench.modules.get("a")])
    return found


async def test_a_start_restores_nothing_and_records_what_is_lost(
    bench: Any, log: RestoreLog, executor: RecordingExecutor, restoration: Restoration
) -> None:
    save(bench, 1)
    bench.modules.mark_unsaved("b")
    before = bench.modules.get("a")
    await restoration.executor_started("cpu(0)")
    assert executor.calls == []
    assert bench.modules.get("a") == before
    assert bench.modules.get("b").lost


async def test_a_restore_sends_everything_and_changes_the_generation(
    bench: Any, log: RestoreLog, executor: RecordingExecutor, restoration: Restoration
) -> None:
    bench.modules.change("a", lambda a: a.evolve(bind=BIND, optimizer=OptimizerSpec()))
    bench.modules.change("a", lambda a: a.with_init(InitSpec(seed=3)))
    await restoration.restore("a")
    ((method, params),) = executor.calls
    assert method == "restore_module"
    assert params["record"]["generation"] == 2
    assert params["record"]["init"]["seed"] == 3
    assert bench.modules.get("a").generation == 2
    assert status(bench, log) == RestoreStatus()


async def test_unsaved_parameters_are_never_replaced_by_older_ones(
    bench: Any, executor: RecordingExecutor, restoration: Restoration
) -> None:
    save(bench, 1)
    bench.modules.mark_unsaved("a")
    await restoration.restore("a")
    ((_, params),) = executor.calls
    assert params["record"]["lost"] is True
    assert params.get("checkpoint") is None
    assert bench.modules.get("a").lost


async def test_a_module_already_on_its_device_is_left_as_it_is(
    bench: Any, executor: RecordingExecutor, restoration: Restoration
) -> None:
    executor.names = ["a"]
    bench.modules.mark_unsaved("a")
    before = bench.modules.get("a")
    await restoration.retry("a")
    await restoration.restore("a")
    assert executor.calls == []
    assert bench.modules.get("a") == before


async def test_a_module_that_reached_its_device_since_the_check_is_not_lost(
    bench: Any, executor: RecordingExecutor, restoration: Restoration
) -> None:
    save(bench, 1)
    resident = restoration.resident

    async def changed_behind(client: Any) -> frozenset[str]:
        found = await resident(client)
        if not executor.names:  # as after a job or call that restored it
            executor.names = ["a"]
            bench.modules.mark_unsaved("a")
        return found

    restoration.resident = changed_behind  # type: ignore[method-assign]
    await restoration.restore("a")
    assert executor.calls == []
    record = bench.modules.get("a")
    assert (record.durable, record.lost, record.generation) == (False, False, 1)


async def test_concurrent_requests_share_one_restore(
    bench: Any, executor: RecordingExecutor, restoration: Restoration
) -> None:
    executor.may_answer.clear()
    asked = [asyncio.create_task(restoration.restore("a")) for _ in range(5)]
    while not executor.calls:
        await asyncio.sleep(0)
    asked[0].cancel()  # its caller hangs up; the others still wait
    executor.may_answer.set()
    await asyncio.gather(*asked[1:])
    assert len(executor.calls) == 1
    assert not restoration._under_way


async def test_a_damaged_checkpoint_falls_back_to_the_one_before(
    bench: Any, log: RestoreLog, executor: RecordingExecutor, restoration: Restoration
) -> None:
    save(bench, 2, 9, 5)
    (bench.checkpoints.root("a") / "5" / "a-0005.params").write_bytes(b"other")
    await restoration.restore("a")
    assert executor.restored_from() == ["2"], "9 comes after 5, not before it"
    found = status(bench, log)
    assert found.restored_from == CheckpointTag(2)
    assert found.warning is not None
    assert "checkpoint 5" in found.warning
    assert log.remarkable() == {"a": found}
    assert found.failure is None
    assert await restoration.warning("a") == found.warning
    save(bench, 6)
    assert await restoration.warning("a") is None
    assert status(bench, log) == RestoreStatus()


async def test_one_the_engine_cannot_read_falls_back_too(
    bench: Any, log: RestoreLog, executor: RecordingExecutor, restoration: Restoration
) -> None:
    save(bench, 1, 2)
    executor.errors = [HostError("invalid", "fc_weight: got shape (1,), expected (3,)")]
    await restoration.restore("a")
    assert executor.restored_from() == ["2", "1"]
    assert "fc_weight" in str(status(bench, log).warning)


async def test_without_a_valid_checkpoint_the_module_fails_until_repaired(
    bench: Any, log: RestoreLog, executor: RecordingExecutor, restoration: Restoration
) -> None:
    save(bench, 1)
    file = bench.checkpoints.root("a") / "1" / "a-0001.params"
    content = file.read_bytes()
    file.write_bytes(b"other")
    for _ in range(2):
        with pytest.raises(ModuleFailed, match="no checkpoint before it") as refused:
            await restoration.restore("a")
        assert "params/init" not in str(refused.value)
    assert executor.calls == []
    file.write_bytes(content)
    await restoration.retry("a")
    assert executor.restored_from() == ["1"]
    assert status(bench, log) == RestoreStatus()


@pytest.mark.parametrize("code", ["unavailable", "out_of_memory", "too_large", "storage_full"])
async def test_temporary_errors_are_not_held_against_a_module(
    bench: Any, log: RestoreLog, executor: RecordingExecutor, restoration: Restoration, code: str
) -> None:
    save(bench, 1, 2)
    executor.errors = [HostError(code, "not now")]
    with pytest.raises(HostError, match="not now"):
        await restoration.restore("a")
    assert status(bench, log) == RestoreStatus()
    assert executor.restored_from() == ["2"]


async def test_two_deaths_quarantine_a_module(
    bench: Any, log: RestoreLog, executor: RecordingExecutor, restoration: Restoration
) -> None:
    for deaths in (1, 2):
        executor.errors = [ExecutorGone("it died")]
        with pytest.raises(ExecutorGone):
            await restoration.restore("a")
        assert status(bench, log).is_under_way
        await restoration.executor_started("cpu(0)")
        assert status(bench, log) == RestoreStatus(deaths=deaths)
    with pytest.raises(ModuleFailed, match=r"2 times.*POST /v1/modules/a/restore"):
        await restoration.restore("a")
    await restoration.restore("b")
    await restoration.retry("a")
    assert status(bench, log) == RestoreStatus()


async def test_a_death_between_two_successful_restores_is_forgotten(
    bench: Any, log: RestoreLog, executor: RecordingExecutor, restoration: Restoration
) -> None:
    executor.errors = [ExecutorGone("it died")]
    with pytest.raises(ExecutorGone):
        await restoration.restore("a")
    await restoration.executor_started("cpu(0)")
    await restoration.restore("a")
    assert status(bench, log) == RestoreStatus()


async def test_a_death_in_another_modules_call_does_not_count(
    bench: Any, log: RestoreLog, restoration: Restoration
) -> None:
    log.begin(bench.modules.get("a"))
    log.executor_started("cpu(0)", killers=["b"])
    assert status(bench, log) == RestoreStatus()
    log.begin(bench.modules.get("a"))
    log.executor_started("cpu(0)", killers=["a"])
    assert status(bench, log) == RestoreStatus(deaths=1)
    log.begin(bench.modules.get("a"))
    log.executor_started("gpu(0)")
    assert status(bench, log).is_under_way


async def test_a_server_stopping_during_a_restore_is_not_a_death(
    bench: Any, log: RestoreLog, executor: RecordingExecutor, restoration: Restoration
) -> None:
    executor.may_answer.clear()
    asked = asyncio.create_task(restoration.restore("a"))
    while not executor.calls:
        await asyncio.sleep(0)
    await restoration.stop()
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert status(bench, log) == RestoreStatus()


async def test_an_executor_that_is_down_is_not_the_modules_fault(
    bench: Any, log: RestoreLog, executor: RecordingExecutor, restoration: Restoration
) -> None:
    executor.is_up = False
    with pytest.raises(ExecutorGone, match="is down"):
        await restoration.restore("a")
    assert status(bench, log) == RestoreStatus()
    with pytest.raises(NotFound):
        await restoration.restore("nowhere")


async def test_a_server_stopping_while_a_restore_is_recorded_is_not_a_death(
    bench: Any, log: RestoreLog, restoration: Restoration, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin, has_asked, may_note = log.begin, threading.Event(), threading.Event()

    def begin_late(known: ModuleRecord) -> ModuleRecord | None:
        has_asked.set()
        may_note.wait(30)
        return begin(known)

    monkeypatch.setattr(log, "begin", begin_late)
    asked = asyncio.create_task(restoration.restore("a"))
    await asyncio.to_thread(has_asked.wait, 30)
    stopping = asyncio.create_task(restoration.stop())
    await asyncio.sleep(0)
    may_note.set()
    await stopping
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert bench.modules.get("a").generation == 2, "the restore was recorded"
    assert status(bench, log) == RestoreStatus()
