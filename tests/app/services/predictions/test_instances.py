"""Choosing an instance and keeping instances ready, without processes."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from app.domain.module import BindSpec, InputDesc, ModuleRecord
from app.domain.serving import ServingSpec
from app.domain.versions import VersionSpec
from app.errors.tree import ExecutorGone, ExecutorKilled, HostError
from app.link.client import Reply
from app.link.signatures import Signature, Target
from app.services.modules.module_access import ModuleAccess
from app.services.modules.restoration import Restoration
from app.services.modules.restore_log import RestoreLog
from app.services.modules.version_files import VersionPlace
from app.services.operations.executors import Executors
from app.services.predictions import instances as instances_module
from app.services.predictions.instances import Instances, InstanceState

BIND = BindSpec(data_shapes=(InputDesc(name="data", shape=(4, 5)),))
PUT_AWAY = HostError("not_resident", "module 'a@1' is not on its device at the moment")


class FakeExecutor:
    """Accepts everything unless told to fail."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_up = True
        self.fails: Exception | None = None
        self.waits: asyncio.Event | None = None
        self.asked: list[tuple[str, str]] = []

    def is_alive(self) -> bool:
        return self.is_up

    async def call(self, method: str, params: Any = None, tensors: Any = None) -> Reply:
        module = params["record"]["name"] if "record" in params else params["module"]
        self.asked.append((method, module))
        if self.waits is not None:
            await self.waits.wait()
        if self.fails is not None:
            raise self.fails
        return Reply({})

    def count(self, method: str) -> int:
        return sum(one == method for one, _ in self.asked)


class Files:
    """Versions that always exist."""

    def find(self, record: ModuleRecord, version: int) -> VersionPlace:
        return VersionPlace(f"key {version}", Path(f"/versions/{version}"))


class Bed:
    """Two executors, and the instances of module ``a`` on them."""

    def __init__(self, bench: Any) -> None:
        self.home, self.other = FakeExecutor("cpu(0)"), FakeExecutor("cpu(1)")
        executors = Executors()
        for one in (self.home, self.other):
            executors.add(one)  # type: ignore[arg-type]
        log = RestoreLog(bench.store)
        restoration = Restoration(log, bench.modules, bench.checkpoints, executors)
        self.access = ModuleAccess(bench.modules, bench.checkpoints, executors, restoration)
        self.all = Instances(self.access, Files(), executors, log)  # type: ignore[arg-type]
        self.record = bench.modules.change("a", lambda record: served(record))

    async def settle(self) -> None:
        """Wait until all loads have finished."""
        while loads := [
            task
            for group in self.all._groups.values()
            for one in group.instances
            for task in one.loads.values()
        ]:
            await asyncio.wait(loads)
            await asyncio.sleep(0)

    def chosen(self, version: int = 1) -> str | None:
        found = self.all.choose(self.record, str(version), f"key {version}")
        return None if found is None else found.executor

    def states(self) -> list[InstanceState]:
        return [one.state for one in self.all.facts(self.record)]


def served(record: ModuleRecord, **changes: Any) -> ModuleRecord:
    serving = ServingSpec(instances=2)
    versions = VersionSpec(promoted=1)
    return record.evolve(**{"serving": serving, "versions": versions, "bind": BIND} | changes)


@pytest.fixture
async def bed(bench: Any) -> Bed:
    return Bed(bench)


@pytest.fixture
async def ready(bed: Bed) -> Bed:
    bed.access.remember(bed.record)
    await bed.settle()
    return bed


async def test_instances_load_the_promoted_version_before_they_are_asked(bed: Bed) -> None:
    bed.other.waits = asyncio.Event()
    bed.access.remember(bed.record)
    await asyncio.sleep(0)
    assert bed.chosen() == "cpu(0)"
    while bed.chosen() is None or not bed.other.asked:
        await asyncio.sleep(0.001)
    assert bed.states()[1] is InstanceState.LOADING
    bed.all.begin("cpu(0)", 5)
    assert bed.chosen() == "cpu(0)"
    bed.other.waits.set()
    await bed.settle()
    assert bed.chosen() == "cpu(1)"
    assert bed.states() == [InstanceState.READY] * 2
    (restored, name), (loaded, same) = bed.other.asked
    assert (restored, loaded) == ("restore_module", "load_version")
    assert name == same
    assert re.fullmatch("a@[0-9a-f]{16}", name)
    assert bed.home.asked == [("load_version", "a")]


async def test_the_instance_with_the_fewest_examples_is_chosen(ready: Bed) -> None:
    assert ready.chosen() == "cpu(0)", "of equal instances, the one at home"
    ready.all.begin("cpu(0)", 3)
    assert ready.chosen() == "cpu(1)"
    ready.all.begin("cpu(1)", 4)
    assert ready.chosen() == "cpu(0)"
    ready.all.end("cpu(1)", 4)
    assert ready.chosen() == "cpu(1)"
    ready.other.is_up = False
    assert ready.chosen() == "cpu(0)"
    ready.home.is_up, ready.other.is_up = False, True
    assert ready.chosen() == "cpu(1)"
    assert ready.states() == [InstanceState.DOWN, InstanceState.READY]


async def test_another_version_is_loaded_on_demand(ready: Bed) -> None:
    ready.home.is_up = False
    assert ready.chosen(7) == "cpu(0)", "no instance has it, so the home reports what is wrong"
    ready.home.is_up = True
    await ready.settle()
    ready.all.begin("cpu(0)", 1)
    assert ready.chosen(7) == "cpu(1)"
    assert ready.chosen(1) == "cpu(1)"


async def test_an_instance_that_lost_the_version_is_not_chosen_until_reloaded(
    ready: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, other = ready.all._groups["a"].instances
    ready.all.begin("cpu(0)", 1)
    assert ready.all.note_lost(other, "1", "key 1", PUT_AWAY)
    loads = ready.other.count("load_version")
    assert ready.chosen() == "cpu(0)"
    await ready.settle()
    assert ready.other.count("load_version") == loads, "it is not reloaded at once"
    assert ready.states()[1] is InstanceState.FAILED
    assert "memory" in (ready.all.facts(ready.record)[1].reason or "")
    clock = instances_module.time.monotonic
    monkeypatch.setattr(instances_module.time, "monotonic", lambda: clock() + 2)
    assert ready.chosen() == "cpu(0)"
    await ready.settle()
    assert ready.chosen() == "cpu(1)"
    assert ready.states()[1] is InstanceState.READY


async def test_a_request_is_not_repeated_elsewhere_after_a_death(ready: Bed) -> None:
    _, other = ready.all._groups["a"].instances
    assert not ready.all.note_lost(other, "1", "key 1", ExecutorKilled("while it ran predict"))
    assert ready.all.note_lost(other, "1", "key 1", ExecutorGone("it waited"))
    assert not ready.all.note_lost(other, "1", "key 1", HostError("invalid", "data"))
    assert other.versions == set()


async def test_a_new_process_gets_the_version_again(ready: Bed) -> None:
    ready.all.begin("cpu(0)", 1)
    ready.all.executor_started("cpu(1)")
    assert ready.chosen() == "cpu(0)"
    await ready.settle()
    assert ready.chosen() == "cpu(1)"


async def test_a_version_that_kills_its_executor_is_left_out(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    bed.other.fails = ExecutorKilled("while it ran restore_module of module 'a@1'")
    bed.access.remember(bed.record)
    await bed.settle()
    clock = instances_module.time.monotonic
    for passed in range(1, 200):
        monkeypatch.setattr(instances_module.time, "monotonic", lambda n=passed: clock() + 3 * n)
        assert bed.chosen() == "cpu(0)"
        await bed.settle()
    assert bed.other.count("restore_module") == 2
    fact = bed.all.facts(bed.record)[1]
    assert fact.state is InstanceState.FAILED
    assert "its executor died of it" in (fact.reason or "")
    bed.other.fails = None
    bed.access.remember(bed.record)  # as after any change
    await bed.settle()
    assert bed.states()[1] is InstanceState.READY


@pytest.mark.parametrize(
    ("change", "is_removed"),
    [
        ({"serving": ServingSpec()}, True),
        ({"serving": ServingSpec(instances=2, is_loaded=False)}, True),
        ({"bind": BindSpec(data_shapes=(InputDesc(name="data", shape=(8, 5)),))}, True),
        ({"serving": ServingSpec(instances=2, max_batch_size=3)}, False),
        ({"versions": VersionSpec(promoted=2)}, False),
    ],
    ids=["one", "unloaded", "bound anew", "batch size", "promoted"],
)
async def test_a_surplus_replica_is_removed(
    ready: Bed, change: dict[str, Any], is_removed: bool
) -> None:
    name = ready.other.asked[0][1]
    changed = ready.record.evolve(version=9, **change)
    ready.access.remember(changed)
    chosen = ready.all.choose(changed, "1", "key 1")
    assert chosen is None or chosen.is_home
    await asyncio.gather(*ready.all._tasks)
    await ready.settle()
    assert (("delete_module", name) in ready.other.asked) is is_removed
    if change.get("bind") is not None:
        assert ready.all.choose(ready.record, "1", "key 1") is None, "the record is outdated"


async def test_a_deleted_module_has_no_instances(ready: Bed) -> None:
    name = ready.other.asked[0][1]
    ready.access.forget("a")
    assert ready.chosen() is None
    await asyncio.gather(*ready.all._tasks)
    assert ready.other.asked[-1] == ("delete_module", name)


async def test_errors_name_the_module_as_clients_do(ready: Bed) -> None:
    home, other = ready.all._groups["a"].instances
    error = other.told(HostError("invalid", f"module {other.module!r}: no", "data"))
    assert isinstance(error, HostError)
    assert (error.message, error.field_name) == ("module 'a': no", "data")
    killed = other.told(ExecutorKilled(f"while it ran predict of module {other.module!r}"))
    assert isinstance(killed, ExecutorKilled)
    assert str(killed) == "while it ran predict of module 'a'"
    assert home.told(PUT_AWAY) is PUT_AWAY


async def test_equal_targets_are_the_same_object(ready: Bed) -> None:
    home, other = ready.all._groups["a"].instances
    target = Target({"module": "a", "version": "key 1"}, Signature([]), 3)
    assert home.target(target) is target
    assert other.target(target) is other.target(target)
    assert other.target(target).params == {"module": other.module, "version": "key 1"}
    assert other.target(target).rows == 3


async def test_a_record_read_before_a_change_does_not_hide_it(
    bench: Any, bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One call reads the record while another one changes it."""
    before = bench.modules.get("b")
    changed = bench.modules.change("b", lambda record: record.evolve(durable=False))
    is_read = asyncio.Event()

    async def record(name: str) -> ModuleRecord:
        await is_read.wait()
        return before

    monkeypatch.setattr(bed.access, "record", record)
    asked = asyncio.create_task(bed.access.known("b"))
    await asyncio.sleep(0)
    bed.access.remember(changed)
    is_read.set()
    assert (await asked).version == changed.version
    assert bed.access.known_now("b") is changed


async def test_the_record_left_by_a_fit_is_used_unless_older(bench: Any, bed: Bed) -> None:
    first = bench.modules.get("b")
    bed.access.refresh(first)
    assert bed.access.known_now("b") is None, "the record was not in use"
    bed.access.remember(first)
    second = bench.modules.change("b", lambda record: record.evolve(bind=BIND))
    bed.access.refresh(second)
    bed.access.refresh(first)
    assert bed.access.known_now("b") is second
    bed.access.refresh(second.evolve(id=99, version=99))
    assert bed.access.known_now("b") is second, "a record of another module with the same name"
