"""Events of modules and executors: written together with the change, and limited in number."""

from __future__ import annotations

from typing import Any

import pytest

from app.domain.declaration import FolderModel
from app.domain.events import ServerEvent
from app.domain.module import SINGLE, BindSpec, InputDesc, ModuleRecord
from app.domain.restoration import MOST_DEATHS, RestoreStatus
from app.errors.tree import InUse, StorageFull
from app.services.modules.restore_log import RestoreLog

BIND = BindSpec(data_shapes=(InputDesc(name="data", shape=(4, 8)),))
E = ServerEvent


def told(bench: Any) -> list[tuple[str, str | None]]:
    rows = bench.jobs.events()
    return [(row.type, row.module) for row in rows if row.job_id is None]


def test_a_modules_life_cycle_causes_events(bench: Any) -> None:
    bench.modules.create(ModuleRecord(name="new", symbols={SINGLE: "{}"}))
    bench.modules.change("new", lambda new: new.evolve(bind=BIND))
    marked = bench.modules.mark_unsaved("new")
    bench.modules.mark_unsaved("new")  # no second event: the module is unsaved already
    bench.modules.unmark(bench.modules.get("new"))
    bench.modules.delete("new")
    assert told(bench)[-5:] == [
        (E.MODULE_CREATED, "new"),
        (E.MODULE_BOUND, "new"),
        (E.MODULE_PARAMS_CHANGED, "new"),
        (E.MODULE_CHANGED, "new"),
        (E.MODULE_DELETED, "new"),
    ]
    (row,) = [one for one in bench.jobs.events() if one.type is E.MODULE_PARAMS_CHANGED]
    assert (row.executor, row.status, row.attempt) == (marked.executor, None, None)


def test_refused_and_failed_changes_cause_no_event(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.fit("a")
    before = told(bench)
    with pytest.raises(InUse):
        bench.modules.delete("a")

    def fail(*arguments: Any) -> None:
        raise StorageFull

    monkeypatch.setattr("app.services.modules.modules.append_events", fail)
    with pytest.raises(StorageFull):
        bench.modules.change("a", lambda a: a.evolve(bind=BIND))
    assert bench.modules.get("a").bind is None, "no change without its event"
    assert told(bench) == before


def test_followers_are_woken(bench: Any) -> None:
    ticket = bench.notifiers.events.ticket()
    bench.modules.change("a", lambda a: a.evolve(bind=BIND))
    assert bench.notifiers.events.ticket() > ticket


def test_events_of_a_model_in_the_models_folder_name_the_model(bench: Any) -> None:
    folder = FolderModel(model="net", signature="0" * 64)
    before = told(bench)
    record = ModuleRecord(name="net.folder-0", symbols={SINGLE: "{}"}, folder=folder)
    created = bench.modules.create(record)
    bench.modules.change(created.name, lambda one: one.evolve(bind=BIND))
    assert told(bench) == before
    RestoreLog(bench.store).evicted(created.name)
    assert told(bench) == [*before, (E.MODULE_EVICTED, "net")]


def test_the_death_of_an_executor_lists_what_is_lost(bench: Any) -> None:
    log = RestoreLog(bench.store, bench.clock, bench.notifiers.events)
    bench.modules.mark_unsaved("b")
    before = len(told(bench))
    log.begin(bench.modules.get("a"))
    log.executor_lost("cpu(0)", "killed")
    log.executor_started("cpu(0)", restarts=1)
    log.executor_started("cpu(0)", restarts=2)
    assert told(bench)[before:] == [
        (E.EXECUTOR_LOST, None),
        (E.EXECUTOR_RESTARTED, None),
        (E.MODULE_PARAMS_LOST, "b"),
        (E.EXECUTOR_RESTARTED, None),
    ]
    lost = bench.jobs.events(types=[E.EXECUTOR_LOST])[0]
    assert (lost.executor, lost.data) == ("cpu(0)", {"reason": "killed"})


def test_quarantine_is_reported_once(bench: Any) -> None:
    log = RestoreLog(bench.store, bench.clock)
    before = len(told(bench))
    for _ in range(MOST_DEATHS):
        log.begin(bench.modules.get("a"))
        log.executor_started("cpu(0)", ["a"], restarts=1)
    log.executor_started("cpu(0)", ["a"], restarts=1)
    log.end("b", lambda _: RestoreStatus(fault="it is damaged"))
    log.end("b", lambda _: RestoreStatus(fault="it is damaged"))
    log.forget("b")
    log.begin(bench.modules.get("b"))
    log.end("b", lambda _: RestoreStatus(), is_restored=True)
    found = [one for one in told(bench)[before:] if one[1] is not None]
    assert found == [
        (E.MODULE_QUARANTINED, "a"),
        (E.MODULE_QUARANTINED, "b"),
        (E.MODULE_RESTORED, "b"),
    ]
    reasons = [row.data["reason"] for row in bench.jobs.events(types=[E.MODULE_QUARANTINED])]
    assert reasons == ["its restore ended the executor's process 2 times", "it is damaged"]


def test_only_the_latest_are_kept(bench: Any) -> None:
    bench.fit("a")
    for number in range(20):
        bench.modules.change("a", lambda a, n=number: a.evolve(labels={"out": (str(n),)}))
    rows = bench.jobs.events()
    bench.jobs.forget_events(5)
    left = bench.jobs.events()
    of_server = [row for row in rows if row.job_id is None]
    of_jobs = [row for row in rows if row.job_id is not None]
    assert [row.id for row in left if row.job_id is None] == [row.id for row in of_server][-5:]
    assert [row for row in left if row.job_id is not None] == of_jobs
    bench.jobs.forget_events(5)
    assert bench.jobs.events() == left
