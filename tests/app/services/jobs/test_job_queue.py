"""Jobs claimed by servers that die, seen from one that lives."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.domain.dataset import DatasetKind
from app.domain.job import JobEvent, JobKind, JobStatus
from app.errors.tree import Superseded
from app.link.job_messages import JobCancelled, JobDone, JobFailed, JobPaused, JobProgress
from app.services.jobs.submissions import JobLimits
from app.services.operations.liveness import Liveness

S = JobStatus

SERVER = """
    import sys, time
    from pathlib import Path
    from app.domain.moment import Moment
    from app.services.operations.notifier import Notifiers
    from app.services.jobs.job_queue import JobQueue
    from app.services.operations.liveness import Liveness
    from app.store.store import Store

    store = Store(sys.argv[1])
    liveness = Liveness(Path(sys.argv[2]))
    liveness.enter()
    now = Moment(1000.0, 1000.0)
    job = JobQueue(store, Notifiers(), liveness, clock=lambda: now).claim("cpu(0)")[0]
    print(job.id, job.attempt, liveness.server, flush=True)
    time.sleep(60)
"""


@contextmanager
def other_server(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """Run a server that claims a job and holds it; yield the process and its output."""
    url = f"sqlite:///{tmp_path / 'store.db'}"
    liveness = str(tmp_path / "data" / "servers")
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SERVER), url, liveness],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield process, process.stdout.readline().split()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_killed_servers_job_is_taken_over_at_once(bench, tmp_path: Path) -> None:
    job = bench.fit()
    with other_server(tmp_path) as (process, said):
        assert said[:2] == [str(job.id), "1"]
        assert bench.jobs.get(job.id).server == said[2]
        assert bench.queue.recover() == [], "the server is alive and the lease has not expired"
        assert bench.jobs.get(job.id).status is S.RUNNING
        process.send_signal(signal.SIGKILL)
        process.wait()
        recovered = bench.queue.recover()
    assert [(job.id, job.status, job.lost) for job in recovered] == [(job.id, S.QUEUED, 1)]
    assert bench.jobs.events(job.id)[-1].data == {"reason": "its server died"}
    claimed = bench.claim()
    assert (claimed.id, claimed.attempt) == (job.id, 2)
    with pytest.raises(Superseded):
        bench.record(JobDone(job_id=job.id, attempt=1))


def test_a_server_without_a_presence_file_keeps_its_jobs_until_the_lease_expires(
    make_bench, tmp_path: Path
) -> None:
    bench, elsewhere = make_bench(), make_bench()
    bench.upload("digits", b"1,2\n", DatasetKind.CSV)
    job = bench.fit()
    assert elsewhere.claim().id == job.id
    (bench.data_dir / "servers" / f"{elsewhere.liveness.server}.lock").unlink()
    elsewhere.liveness.leave()
    assert bench.queue.recover() == []
    bench.clock.now += 10.5
    assert [job.status for job in bench.queue.recover()] == [S.QUEUED]
    assert bench.jobs.events(job.id)[-1].data == {"reason": "its lease expired"}


def test_renewed_jobs_are_left_alone(bench) -> None:
    job = bench.fit()
    bench.claim()
    for _ in range(3):
        bench.clock.now += 8
        kept, void = bench.queue.renew([(job.id, 1), (job.id, 7), (99, 1)])
        assert [job.id for job in kept] == [job.id]
        assert void == [(job.id, 7), (99, 1)]
        assert bench.queue.recover() == []


def test_presence_files_of_dead_servers_are_removed_when_no_job_names_them(
    bench, tmp_path: Path
) -> None:
    bench.fit()
    with other_server(tmp_path) as (process, said):
        lock = bench.data_dir / "servers" / f"{said[2]}.lock"
        process.kill()
        process.wait()
        assert lock.exists()
        bench.queue.recover()
        assert lock.exists(), "needed for the job just taken over"
        bench.queue.recover()
        assert not lock.exists()
    assert (bench.data_dir / "servers" / f"{bench.liveness.server}.lock").exists()


def test_presence_ends_with_leaving(tmp_path: Path) -> None:
    one, two = Liveness(tmp_path), Liveness(tmp_path)
    one.enter()
    assert not two.is_dead(one.server)
    one.leave()
    assert two.is_dead(one.server)
    assert one.is_dead(one.server)
    assert not two.is_dead("never-heard-of")


@pytest.mark.parametrize(
    ("message", "status", "event"),
    [
        (JobDone(job_id=1, attempt=1, result={"a": 1}), S.SUCCEEDED, JobEvent.SUCCEEDED),
        (JobFailed(job_id=1, attempt=1, code="c", message="m"), S.FAILED, JobEvent.FAILED),
        (JobCancelled(job_id=1, attempt=1), S.CANCELLED, JobEvent.CANCELLED),
        (JobPaused(job_id=1, attempt=1), S.QUEUED, JobEvent.RELEASED),
    ],
)
def test_the_last_message_ends_the_attempt(bench, message, status, event) -> None:
    bench.fit()
    bench.claim()
    assert bench.record(message).status is status
    last = bench.jobs.events(1)[-1]
    assert last.type is event
    if status is S.FAILED:
        assert bench.jobs.get(1).error == {"code": "c", "message": "m", "field": None}
    with pytest.raises(Superseded):
        bench.record(message)


def test_a_requested_pause_pauses(bench) -> None:
    job = bench.fit()
    bench.claim()
    assert bench.queue.requests([job.id]) == []
    bench.jobs.pause(job.id)
    assert [asked.id for asked in bench.queue.requests([job.id])] == [job.id]
    assert bench.record(JobPaused(job_id=1, attempt=1)).status is S.PAUSED


def test_an_attempt_that_lost_its_job_cannot_give_it_back(bench) -> None:
    bench.fit()
    bench.claim()
    assert bench.queue.release(1, 7, "x") is None
    assert bench.queue.lose(1, 7, "x") is None
    assert bench.queue.fail(1, 7, "c", "m") is None
    assert bench.queue.fail(99, 1, "c", "m") is None
    assert bench.jobs.get(1).status is S.RUNNING
    assert bench.queue.fail(1, 1, "c", "m").status is S.FAILED


def test_tidying_thins_out_reports(bench) -> None:
    bench.fit()
    bench.claim()
    for batch in range(9):
        bench.record(JobProgress(job_id=1, attempt=1, epoch=0, epochs=1, batch=batch))
    bench.queue.tidy([1])
    rows = bench.jobs.events(1, types=[JobEvent.PROGRESS])
    assert [row.data["batch"] for row in rows] == [4, 5, 6, 7, 8]


@pytest.mark.parametrize("step", [7200.0, -7200.0])
def test_limits_do_not_follow_the_machines_clock(bench, step: float) -> None:
    params, limits = bench.fit().params, JobLimits(deadline_seconds=100.0, timeout_seconds=50.0)
    bench.jobs.cancel(1)
    job = bench.jobs.submit("a", JobKind.FIT, params, limits)
    bench.claim()
    bench.clock.set_forward = step
    assert bench.queue.expire() == []
    assert bench.queue.recover() == []
    shown = bench.jobs.get(job.id)
    assert shown.deadline_at == bench.clock.now + step + 100.0, "as the machine's clock says now"
    assert bench.jobs.list_jobs().items[0] == shown
    assert bench.jobs.outlook([shown])[0].eta_seconds is None
    bench.clock.now += 49.0
    bench.queue.renew([(job.id, 1)])
    assert bench.queue.expire() == []
    bench.clock.now += 2.0
    assert [late.is_expiring for late in bench.queue.expire()] == [True]
    ended = bench.queue.release(job.id, 1, "stopped")
    assert (ended.ran_seconds, ended.error["field"]) == (51.0, "timeout_seconds")


def test_a_clock_that_jumps_ahead_makes_no_history_old(bench) -> None:
    job = bench.jobs.submit("a", JobKind.FIT, bench.fit().params, None, "key")
    for number in (1, job.id):
        bench.jobs.cancel(number)
    year = 365 * 86400.0
    bench.clock.set_forward = year
    bench.queue.tidy([])
    assert bench.jobs.remove_surplus(None, 90 * 86400.0) == 0
    assert bench.jobs.submit("a", JobKind.FIT, job.params, None, "key").id == job.id
    bench.clock.set_forward = 0.0
    bench.clock.now += year
    bench.queue.tidy([])
    assert bench.jobs.remove_surplus(None, 90 * 86400.0) == 2
    assert bench.jobs.submit("a", JobKind.FIT, job.params, None, "key").id != job.id
