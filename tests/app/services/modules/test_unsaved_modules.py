"""Saving unsaved parameters at a clean stop: their tags, and what a death or full disk leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from app.domain.checkpoint import CheckpointTag
from app.domain.module import SINGLE, InitSpec, ModuleRecord
from app.errors.tree import StorageFull, refined
from app.files.checkpoint_files import write_checkpoint
from app.link.client import Reply
from app.services.modules.module_access import ModuleAccess
from app.services.modules.restoration import Restoration
from app.services.modules.restore_log import RestoreLog
from app.services.modules.unsaved_modules import UnsavedModules
from app.services.operations.executors import Executors
from served.deaths import dying_at, full_at

T = CheckpointTag
MOST_STEPS = 60


class SavingExecutor:
    """The part of an ``ExecutorClient`` that saves need; it writes files as a real one does."""

    name = "cpu(0)"

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.error: Exception | None = None
        self.is_up = True
        self.hangs = False

    def is_alive(self) -> bool:
        return self.is_up

    async def call(self, method: str, params: Mapping[str, Any], tensors: object = None) -> Reply:
        assert method == "save_checkpoint"
        self.asked.append(params["module"])
        if self.hangs:
            await asyncio.sleep(60)
        if self.error is not None:
            raise self.error
        await asyncio.to_thread(self._write, **params)
        return Reply({})

    def _write(self, module: str, root: str, epoch: int, batch: int, **_: object) -> None:
        try:
            with write_checkpoint(Path(root), T(epoch, batch), module=module) as writer:
                (writer.directory / f"{module}-{epoch:04}.params").write_bytes(b"new")
        except OSError as error:
            raise refined(error) from error


def make_unsaved(bench: Any, executor: SavingExecutor, seconds: float = 15.0) -> UnsavedModules:
    executors = Executors()
    executors.add(executor)  # type: ignore[arg-type]
    restoration = Restoration(RestoreLog(bench.store), bench.modules, bench.checkpoints, executors)
    access = ModuleAccess(bench.modules, bench.checkpoints, executors, restoration)
    return UnsavedModules(bench.modules, bench.checkpoints, executors, access, seconds)


def write(bench: Any, module: str, tag: CheckpointTag) -> None:
    """Save a checkpoint of a module, from which it would be restored."""
    with write_checkpoint(bench.checkpoints.root(module), tag, module=module) as writer:
        (writer.directory / f"{module}-{tag.epoch:04}.params").write_bytes(b"old")
    bench.checkpoints.saved(module, tag)


@pytest.fixture
def make_world(make_fresh: Any) -> Callable[[], Any]:
    """Return a function that makes a server with module ``a``: checkpoint 1 and unsaved changes."""

    def make() -> Any:
        bench = make_fresh()
        bench.modules.create(ModuleRecord(name="a", symbols={SINGLE: "{}"}))
        write(bench, "a", T(1))
        bench.modules.mark_unsaved("a")
        return bench

    return make


def tags(bench: Any, module: str = "a") -> list[str]:
    return [str(one.tag) for one in bench.checkpoints.list_checkpoints(module).items]


async def test_unsaved_parameters_are_saved_under_the_tag_after_their_checkpoint(
    make_world: Callable[[], Any],
) -> None:
    bench, executor = make_world(), SavingExecutor()
    for name in ("durable", "lost", "elsewhere", "new"):
        bench.modules.create(ModuleRecord(name=name, symbols={SINGLE: "{}"}))
    bench.modules.change("lost", lambda one: one.evolve(durable=False, lost=True))
    bench.modules.change("elsewhere", lambda one: one.evolve(durable=False, executor="cpu(1)"))
    bench.modules.change("new", lambda one: one.with_init(InitSpec()))
    await make_unsaved(bench, executor).save()
    assert executor.asked == ["a", "new"]
    assert tags(bench) == ["1.1", "1"]
    assert tags(bench, "new") == ["0.1"]
    for name in ("a", "new"):
        assert bench.modules.get(name).durable
    assert bench.modules.get("a").checkpoint == T(1, 1)
    assert bench.checkpoints.latest_version("a") == 1  # the version called latest is unchanged


async def test_no_checkpoint_is_overwritten(make_world: Callable[[], Any]) -> None:
    bench = make_world()
    write(bench, "a", T(1, 1))
    write(bench, "a", T(1))
    bench.modules.mark_unsaved("a")
    before = bench.checkpoints.get("a", T(1, 1))
    await make_unsaved(bench, SavingExecutor()).save()
    assert tags(bench) == ["1.2", "1.1", "1"]
    assert bench.checkpoints.get("a", T(1, 1)) == before


@pytest.mark.parametrize("fault", ["refused", "down", "slow", "crash"])
async def test_modules_that_cannot_be_saved_are_logged_and_the_server_stops(
    make_world: Callable[[], Any], caplog: pytest.LogCaptureFixture, fault: str
) -> None:
    bench, executor = make_world(), SavingExecutor()
    bench.modules.create(ModuleRecord(name="b", symbols={SINGLE: "{}"}))
    bench.modules.mark_unsaved("b")
    executor.is_up, executor.hangs = fault != "down", fault == "slow"
    executor.error = {"refused": StorageFull(), "crash": ZeroDivisionError("a fault")}.get(fault)
    await make_unsaved(bench, executor, seconds=0.2 if fault == "slow" else 15.0).save()
    said = [line for line in caplog.messages if "not saved at the stop" in line]
    assert len(said) == 2
    assert said[0].startswith("module a:")
    why = {"refused": "disk", "down": "down", "slow": "no longer than 0.2 s", "crash": "a fault"}
    assert why[fault] in said[0], said
    assert not bench.modules.get("a").durable


async def test_the_server_stops_even_if_the_store_fails(
    make_world: Callable[[], Any], caplog: pytest.LogCaptureFixture
) -> None:
    bench, executor = make_world(), SavingExecutor()
    with bench.store.write() as connection:
        connection.exec_driver_sql("ALTER TABLE modules RENAME TO elsewhere")
    await make_unsaved(bench, executor).save()
    assert executor.asked == []
    assert "after an error" in caplog.text


def test_a_server_that_dies_during_a_save_has_saved_all_of_it_or_nothing(
    make_world: Callable[[], Any], make_fresh: Any
) -> None:
    outcomes = set()
    for step in range(MOST_STEPS):
        bench = make_world()
        with dying_at(step, bench.store) as victim:
            asyncio.run(make_unsaved(bench, SavingExecutor()).save())
        again = make_fresh(again=bench)
        again.recovery.run(rebuild=False)
        RestoreLog(again.store).executor_started("cpu(0)")
        record = again.modules.get("a")
        outcomes.add(record.lost)
        again.checkpoints.verify("a", T(1))
        if not record.lost:
            assert record.is_restored_from(T(1, 1)), step
            again.checkpoints.verify("a", T(1, 1))
        if victim.steps <= step:
            assert not record.lost
            assert outcomes == {True, False}
            return
    raise AssertionError(f"it has more than {MOST_STEPS} steps")


def test_a_disk_that_fills_up_during_a_save_is_logged_and_the_server_stops(
    make_world: Callable[[], Any], make_fresh: Any, caplog: pytest.LogCaptureFixture
) -> None:
    for step in range(MOST_STEPS):
        bench = make_world()
        caplog.clear()
        with full_at(step, bench.store) as victim:
            asyncio.run(make_unsaved(bench, SavingExecutor()).save())
        again = make_fresh(again=bench)
        again.recovery.run(rebuild=False)
        RestoreLog(again.store).executor_started("cpu(0)")
        record = again.modules.get("a")
        again.checkpoints.verify("a", T(1))
        if victim.steps <= step:
            assert step > 5, "there were steps that need space"
            assert record.is_restored_from(T(1, 1))
            return
        assert "not saved at the stop" in caplog.text, step
        if not record.lost:
            assert record.is_restored_from(T(1, 1)), step
            again.checkpoints.verify("a", T(1, 1))
    raise AssertionError(f"it has more than {MOST_STEPS} steps")
