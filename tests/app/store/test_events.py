"""The event log: ordered, replayed from an id, thinned out."""

from __future__ import annotations

import threading

from app.domain.job import Job, JobEvent, JobKind
from app.store import queue
from app.store.events import events_after, newest_event_id, thin_out
from app.store.store import Store
from served.moments import at
from served.stored_jobs import insert_job


def running(store: Store, module: str) -> Job:
    with store.write() as connection:
        insert_job(connection, Job(kind=JobKind.FIT, module=module), (), 0.0)
        (job,) = queue.claim(
            connection, queue.next_jobs(connection, "cpu(0)", at(0.0), 1), "cpu(0)", "s", at(0.0)
        )
    assert job is not None
    return job


def report(store: Store, job: Job, kind: JobEvent, batch: int) -> None:
    with store.write() as connection:
        queue.record(connection, job.id, job.attempt, kind, {"batch": batch}, at(1.0))


def test_a_reader_resumes_after_the_last_id_it_saw(two_modules: Store) -> None:
    a, b = running(two_modules, "a"), running(two_modules, "b")
    for batch in range(3):
        report(two_modules, a, JobEvent.PROGRESS, batch)
        report(two_modules, b, JobEvent.METRIC, batch)
    with two_modules.read() as connection:
        everything = events_after(connection, 0, 100)
        of_a = events_after(connection, 0, 100, a.id)
        rest = events_after(connection, of_a[2].id, 100, a.id)
        metrics = events_after(connection, 0, 100, b.id, [JobEvent.METRIC])
        assert newest_event_id(connection) == everything[-1].id == 10
        assert len(events_after(connection, 0, 4)) == 4
    assert {row.job_id for row in of_a} == {a.id}
    assert [row.data.get("batch") for row in of_a] == [None, None, 0, 1, 2]
    assert rest == of_a[3:]
    assert [row.type for row in metrics] == [JobEvent.METRIC] * 3


def test_ids_become_visible_in_order(two_modules: Store) -> None:
    """A reader never misses an event with a smaller id that appears later."""
    jobs = [running(two_modules, "a"), running(two_modules, "b")]
    seen: list[int] = []
    done = threading.Event()

    def follow() -> None:
        last = 0
        while True:
            is_last = done.is_set()
            with two_modules.read() as connection:
                rows = events_after(connection, last, 1000)
            seen.extend(row.id for row in rows)
            last = seen[-1] if seen else 0
            if is_last:
                return

    def write(job: Job) -> None:
        for batch in range(50):
            report(two_modules, job, JobEvent.PROGRESS, batch)

    reader = threading.Thread(target=follow)
    writers = [threading.Thread(target=write, args=(job,)) for job in jobs]
    for thread in (reader, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    reader.join()
    assert seen == list(range(1, 105))


def test_thinning_keeps_the_newest_and_all_other_kinds(two_modules: Store) -> None:
    job = running(two_modules, "a")
    for batch in range(10):
        report(two_modules, job, JobEvent.PROGRESS, batch)
        report(two_modules, job, JobEvent.METRIC, batch)
    with two_modules.write() as connection:
        assert thin_out(connection, job.id, JobEvent.PROGRESS, 3) == 7
        assert thin_out(connection, job.id, JobEvent.PROGRESS, 3) == 0
        assert thin_out(connection, job.id, JobEvent.LOG, 3) == 0
        left = events_after(connection, 0, 100, job.id)
    progress = [row.data["batch"] for row in left if row.type is JobEvent.PROGRESS]
    assert progress == [7, 8, 9]
    assert sum(row.type is JobEvent.METRIC for row in left) == 10


def test_ids_are_never_reused(two_modules: Store) -> None:
    job = running(two_modules, "a")
    report(two_modules, job, JobEvent.PROGRESS, 0)
    report(two_modules, job, JobEvent.PROGRESS, 1)
    with two_modules.write() as connection:
        newest = newest_event_id(connection)
        thin_out(connection, job.id, JobEvent.PROGRESS, 1)
    report(two_modules, job, JobEvent.LOG, 2)
    with two_modules.read() as connection:
        assert newest_event_id(connection) == newest + 1
