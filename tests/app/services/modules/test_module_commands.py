"""Calls on modules: locking, and what need not reach the executor."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import json
import shutil
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import numpy as np
import pytest

from app.domain.checkpoint import CheckpointTag
from app.domain.job import JobKind
from app.domain.module import SINGLE, BindSpec, InitSpec, InputDesc, ModuleRecord
from app.errors.tree import (
    AlreadyExists,
    Conflict,
    ExecutorGone,
    HostError,
    InUse,
    Invalid,
    ModuleFailed,
    NotFound,
    StorageFull,
)
from app.executor.main import make_loop
from app.link.calls import GetParams
from app.link.inprocess import InProcessClient
from app.services.jobs.submissions import read_submission
from app.services.modules import live_views
from app.services.modules import module_commands as commands_module
from app.services.modules.module_access import ModuleAccess
from app.services.modules.module_commands import ModuleCommands
from app.services.modules.restoration import Restoration
from app.services.modules.restore_log import RestoreLog
from app.services.operations.executors import Executors
from core.checkpoint import load_params
from served.perceptron import data_shape, label_shape, perceptron

FIT = {"dataset": "digits", "epochs": 1, "batch_size": 2, "optimizer": {"name": "sgd"}}


class Moody(InProcessClient):
    """An executor that may be down, or busy for a long time."""

    mood = "well"

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.asked: list[str] = []

    async def call(self, *args: Any, **options: Any) -> Any:
        self.asked.append(args[0])
        if self.mood == "gone":
            raise ExecutorGone("cpu(0) died")
        if self.mood == "busy":
            await asyncio.sleep(60)
        return await super().call(*args, **options)


@pytest.fixture
async def executor() -> AsyncIterator[Moody]:
    client = Moody("cpu(0)", make_loop)
    await client.start()
    yield client
    await client.stop()


@pytest.fixture
def access(bench: Any, executor: Moody) -> ModuleAccess:
    executors = Executors()
    executors.add(executor)
    log = RestoreLog(bench.store)
    restoration = Restoration(log, bench.modules, bench.checkpoints, executors)
    return ModuleAccess(bench.modules, bench.checkpoints, executors, restoration)


@pytest.fixture
def engine(bench: Any, access: ModuleAccess) -> ModuleCommands:
    executors, restoration = access._executors, access._restoration
    return ModuleCommands(
        bench.modules, bench.checkpoints, executors, restoration, access, max_nodes=100
    )


async def test_a_job_that_could_only_fail_is_refused(engine: ModuleCommands) -> None:
    await engine.check_job(read_submission("a", JobKind.FIT, FIT))
    with pytest.raises(HostError, match="did you mean 'sgd'"):
        await engine.check_job(
            read_submission("a", JobKind.FIT, {**FIT, "optimizer": {"name": "sgdd"}})
        )
    score = {"dataset": "digits", "batch_size": 2, "metrics": ["acuracy"]}
    with pytest.raises(HostError, match="acuracy"):
        await engine.check_job(read_submission("a", JobKind.SCORE, score))
    with pytest.raises(Invalid, match="epochs"):
        await engine.check_job(read_submission("a", JobKind.FIT, {**FIT, "epochs": 0}))
    with pytest.raises(NotFound, match="nowhere"):
        await engine.check_job(read_submission("nowhere", JobKind.FIT, FIT))


async def test_the_same_job_is_checked_with_the_executor_only_once(
    engine: ModuleCommands, executor: Moody
) -> None:
    good, bad = FIT, {**FIT, "optimizer": {"name": "sgdd"}}
    await engine.check_job(read_submission("a", JobKind.FIT, good))
    assert executor.asked == ["check_job"]
    await engine.check_job(read_submission("b", JobKind.FIT, good))
    assert executor.asked == ["check_job"]
    for _ in range(2):  # a refused one is refused again
        with pytest.raises(HostError, match="did you mean 'sgd'"):
            await engine.check_job(read_submission("a", JobKind.FIT, bad))
    assert executor.asked == ["check_job"] * 3
    with pytest.raises(NotFound, match="nowhere"):
        await engine.check_job(read_submission("nowhere", JobKind.FIT, good))


@pytest.mark.parametrize("mood", ["gone", "busy"])
async def test_a_job_can_be_queued_while_the_executor_does_not_answer(
    engine: ModuleCommands, executor: Moody, monkeypatch: pytest.MonkeyPatch, mood: str
) -> None:
    monkeypatch.setattr(commands_module, "_LONGEST_CHECK_SECONDS", 0.05)
    executor.mood = mood
    await engine.check_job(
        read_submission("a", JobKind.FIT, {**FIT, "optimizer": {"name": "sgdd"}})
    )


async def test_a_module_whose_job_was_just_claimed_is_not_unloaded(
    access: ModuleAccess, bench: Any
) -> None:
    """The store shows the job as running a moment before the executor hears of it."""
    bench.fit("a")
    job = bench.claim()
    with pytest.raises(InUse, match=f"job {job.id} works on module 'a'"):
        await access.serve("a", partial(dataclasses.replace, is_loaded=False))
    assert (await access.record("a")).serving.is_loaded


async def test_a_job_can_be_queued_while_its_module_does_not_fit_in_memory(
    engine: ModuleCommands, executor: Moody, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = executor.call

    async def have_no_room(method: str, *arguments: Any) -> Any:
        if method == "check_job":
            raise HostError("not_resident", "it is not on its device")
        if method == "restore_module":
            raise HostError("out_of_memory", "the device has not enough memory for it")
        return await call(method, *arguments)

    monkeypatch.setattr(executor, "call", have_no_room)
    metrics = [{"name": "acc", "outputs": ["fc_output"]}]
    await engine.check_job(read_submission("a", JobKind.FIT, {**FIT, "metrics": metrics}))


async def test_a_module_deleted_by_another_server_is_created_again(
    bench: Any, engine: ModuleCommands, executor: Moody
) -> None:
    first = ModuleRecord(name="net", symbols={SINGLE: symbol("first")}, label_names=())
    await engine.create(first)
    with pytest.raises(AlreadyExists):
        await engine.create(first.evolve(symbols={SINGLE: symbol("second")}))
    bench.modules.delete("net")
    await engine.create(first.evolve(symbols={SINGLE: symbol("second")}))
    _, live = await engine.describe("net")
    assert live is not None
    assert live["output_names"] == ["second_output"]


async def test_a_change_that_cannot_be_recorded_is_undone(
    bench: Any, engine: ModuleCommands, access: ModuleAccess, monkeypatch: pytest.MonkeyPatch
) -> None:
    await engine.create(ModuleRecord(name="net", symbols={SINGLE: perceptron().tojson()}))
    first, second = (
        BindSpec(data_shapes=(data_shape(rows),), label_shapes=(label_shape(rows),))
        for rows in (2, 5)
    )
    await engine.bind("net", first)
    await engine.init_params("net", InitSpec(seed=1))
    with monkeypatch.context() as patch:
        patch.setattr(bench.modules, "change", full_disk)
        with pytest.raises(StorageFull):
            await engine.bind("net", second)
        with pytest.raises(StorageFull):
            await engine.init_params("net", InitSpec(seed=2))
    reply = await access.ask_at("net", "get_params", GetParams(module="net"))
    weight = reply.tensors["fc1_weight"].copy()
    reply.release()
    record, live = await engine.describe("net")
    assert live is not None
    assert (record.bind, live["bind"]["data_shapes"][0]["shape"]) == (first, [2, 6])
    await engine.init_params("net", InitSpec(seed=1))
    again = await access.ask_at("net", "get_params", GetParams(module="net"))
    np.testing.assert_array_equal(again.tensors["fc1_weight"], weight)
    again.release()


async def test_a_change_half_made_on_the_device_is_undone(
    engine: ModuleCommands, access: ModuleAccess, executor: Moody, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bound(engine, "net")
    await engine.init_params("net", InitSpec(seed=1))
    reply = await access.ask_at("net", "get_params", GetParams(module="net"))
    weight = reply.tensors["fc1_weight"].copy()
    reply.release()
    call = executor.call

    async def run_out_of_memory(method: str, *arguments: Any) -> Any:
        reply = await call(method, *arguments)
        if method == "init_params":
            reply.release()
            raise HostError("out_of_memory", "the device has not enough memory for it")
        return reply

    with monkeypatch.context() as patch:
        patch.setattr(executor, "call", run_out_of_memory)
        with pytest.raises(HostError, match="not enough memory"):
            await engine.init_params("net", InitSpec(seed=2))
    again = await access.ask_at("net", "get_params", GetParams(module="net"))
    np.testing.assert_array_equal(again.tensors["fc1_weight"], weight)
    again.release()


@pytest.mark.parametrize("how", ["deleted", "replaced"])
async def test_a_checkpoint_that_changes_while_it_is_loaded_is_not_recorded(
    bench: Any,
    engine: ModuleCommands,
    access: ModuleAccess,
    executor: Moody,
    monkeypatch: pytest.MonkeyPatch,
    how: str,
) -> None:
    await bound(engine, "net")
    for epoch in (1, 2):
        await engine.init_params("net", InitSpec(seed=epoch))
        await engine.save_checkpoint("net", epoch, optimizer_states=False)
    call = executor.call

    async def change_meanwhile(method: str, *arguments: Any) -> Any:
        reply = await call(method, *arguments)
        if method == "load_checkpoint":
            bench.checkpoints.delete("net", CheckpointTag(1))
            if how == "replaced":
                source = bench.checkpoints.directory("net", CheckpointTag(2))
                target = bench.checkpoints.directory("net", CheckpointTag(1))
                shutil.copytree(source, target)
        return reply

    with monkeypatch.context() as patch:
        patch.setattr(executor, "call", change_meanwhile)
        with pytest.raises(Conflict, match="was replaced or deleted while it was loaded"):
            await engine.load_checkpoint("net", CheckpointTag(1), {})
    assert (await access.record("net")).checkpoint == CheckpointTag(2)
    prefix = bench.checkpoints.directory("net", CheckpointTag(2)) / "net"
    reply = await access.ask_at("net", "get_params", GetParams(module="net"))
    expected = load_params(str(prefix), 2)[0]["fc1_weight"].asnumpy()
    np.testing.assert_array_equal(reply.tensors["fc1_weight"], expected)
    reply.release()


async def test_a_checkpoint_is_not_deleted_while_its_module_is_being_changed(
    bench: Any, engine: ModuleCommands
) -> None:
    await bound(engine, "net")
    for epoch in (1, 2):
        await engine.init_params("net", InitSpec(seed=epoch))
        await engine.save_checkpoint("net", epoch, optimizer_states=False)
    with bench.modules.directories.locked("net"):
        deleting = asyncio.create_task(
            asyncio.to_thread(bench.checkpoints.delete, "net", CheckpointTag(1))
        )
        await asyncio.sleep(0.2)
        assert bench.checkpoints.directory("net", CheckpointTag(1)).is_dir()
    await deleting
    assert not bench.checkpoints.directory("net", CheckpointTag(1)).exists()


def full_disk(*arguments: Any, **options: Any) -> None:
    """Stand in for a write on a full disk."""
    raise StorageFull


async def test_with_the_executor_down_nothing_changes(
    bench: Any, engine: ModuleCommands, executor: Moody
) -> None:
    bind = BindSpec(data_shapes=(InputDesc(name="data", shape=(2, 3)),))
    bench.modules.change("a", lambda a: a.evolve(bind=bind).with_init(InitSpec(seed=1)))
    await executor.stop()
    with pytest.raises(ExecutorGone):
        await engine.set_params("a", {"fc_bias": np.zeros(3)}, {})
    assert bench.modules.get("a").durable
    bench.modules.change("a", lambda a: a.with_checkpoint(CheckpointTag(1), saved_states=False))
    await executor.start()
    with pytest.raises(ModuleFailed):  # there is no such checkpoint
        await engine.warm_up("a")
    with pytest.raises(HostError, match="nodes"):  # and its symbol cannot be read either
        await engine.set_params("a", {"fc_bias": np.zeros(3)}, {})
    assert bench.modules.get("a").durable
    with pytest.raises(ModuleFailed):
        await engine.warm_up("a")


def symbol(name: str) -> str:
    """Return a symbol whose only operator has this name."""
    nodes = [
        {"op": "null", "name": "data", "inputs": []},
        {"op": "relu", "name": name, "inputs": [[0, 0, 0]]},
    ]
    return json.dumps({"nodes": nodes, "arg_nodes": [0], "heads": [[1, 0, 0]]})


async def test_waiters_share_a_modules_lock_and_leave_nothing_behind(
    access: ModuleAccess,
) -> None:
    order: list[str] = []

    async def work(name: str) -> None:
        async with access.lock("a"):
            order.append(f"{name} begins")
            await asyncio.sleep(0.01)
            order.append(f"{name} ends")

    await asyncio.gather(*(work(name) for name in ("one", "two", "three")))
    assert order == [
        f"{name} {what}" for name in ("one", "two", "three") for what in ("begins", "ends")
    ]
    gc.collect()
    assert not access._locks


async def test_a_module_evicted_before_its_change_is_restored_first(
    engine: ModuleCommands,
    access: ModuleAccess,
    executor: Moody,
    bench: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await bound(engine, "net")
    await engine.init_params("net", InitSpec(seed=1))
    reply = await access.ask_at("net", "get_params", GetParams(module="net"))
    before = {name: value.copy() for name, value in reply.tensors.items()}
    reply.release()
    call = executor.call
    puts_away = iter([True])

    async def put_away_once(method: str, *arguments: Any) -> Any:
        if method == "set_params" and next(puts_away, False):
            (await call("delete_module", {"module": "net"})).release()
        return await call(method, *arguments)

    monkeypatch.setattr(executor, "call", put_away_once)
    bias = np.full_like(before["fc1_bias"], 7)
    await engine.set_params("net", {"fc1_bias": bias}, {"allow_missing": True})
    record = bench.modules.get("net")
    assert (record.durable, record.lost) == (False, False)
    reply = await access.ask_at("net", "get_params", GetParams(module="net"))
    np.testing.assert_array_equal(reply.tensors["fc1_bias"], bias)
    np.testing.assert_array_equal(reply.tensors["fc1_weight"], before["fc1_weight"])
    reply.release()


async def test_a_restore_by_another_call_in_the_meantime_loses_nothing(
    engine: ModuleCommands,
    access: ModuleAccess,
    executor: Moody,
    bench: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await bound(engine, "net")
    await engine.init_params("net", InitSpec(seed=1))
    call, puts_away = executor.call, iter([True])
    others: list[asyncio.Task[Any]] = []

    async def put_away_and_bring_back(method: str, *arguments: Any) -> Any:
        if method == "set_params" and next(puts_away, False):
            (await call("delete_module", {"module": "net"})).release()
            # Like a prediction that arrives between the mark and the call.
            others.append(asyncio.create_task(access.bring_back("net")))
            await asyncio.wait(others, timeout=0.5)  # no restore takes this long
        return await call(method, *arguments)

    monkeypatch.setattr(executor, "call", put_away_and_bring_back)
    with pytest.raises(HostError, match="of this name"):  # this unmarks the module
        await engine.set_params("net", {"fc9_bias": np.zeros(3, "f")}, {"allow_missing": True})
    await others[0]
    record = bench.modules.get("net")
    assert (record.durable, record.lost) == (True, False)
    (await access.ask_at("net", "get_params", GetParams(module="net"))).release()


async def test_a_refused_change_does_not_hide_that_a_job_left_unsaved_parameters(
    engine: ModuleCommands, executor: Moody, bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bound(engine, "net")
    await engine.init_params("net", InitSpec(seed=1))
    call = executor.call

    async def refuse_after_a_job_failed(method: str, *arguments: Any) -> Any:
        if method == "set_params":
            bench.modules.mark_unsaved("net")
            raise HostError("in_use", "a job runs on it")
        return await call(method, *arguments)

    monkeypatch.setattr(executor, "call", refuse_after_a_job_failed)
    with pytest.raises(HostError, match="a job runs on it"):
        await engine.set_params("net", {}, {"allow_missing": True})
    assert not bench.modules.get("net").durable


async def bound(engine: ModuleCommands, name: str) -> None:
    """Create and bind a perceptron."""
    await engine.create(ModuleRecord(name=name, symbols={SINGLE: perceptron().tojson()}))
    await engine.bind(name, BindSpec(data_shapes=(data_shape(2),), label_shapes=(label_shape(2),)))


async def test_a_module_is_described_as_last_known_while_its_executor_is_busy(
    engine: ModuleCommands, executor: Moody, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_views, "_LONGEST_WAIT_SECONDS", 0.05)
    await engine.create(ModuleRecord(name="net", symbols={SINGLE: perceptron().tojson()}))
    executor.mood = "busy"
    assert (await engine.describe("net"))[1] is None, "nothing was known yet"
    assert (await engine.describe("net"))[1] is None
    assert executor.asked.count("describe_module") == 1, "one call waits for the executor"
    executor.mood = "well"
    for task in engine._live_views._asked.values():
        task.cancel()
    await asyncio.sleep(0)
    record, known = await engine.describe("net")
    assert known is not None
    assert known["output_names"] == ["softmax_output"]
    executor.mood = "busy"
    began = asyncio.get_running_loop().time()
    assert await engine.describe("net") == (record, known)
    assert asyncio.get_running_loop().time() - began < 5
    executor.mood = "gone"
    for task in engine._live_views._asked.values():
        task.cancel()
    await asyncio.sleep(0)
    assert (await engine.describe("net"))[1] is None
