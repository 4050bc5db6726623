"""Jobs as clients see them."""

from __future__ import annotations

import asyncio
import threading

import pytest
from sqlalchemy import event

from app.domain.job import Job, JobEvent, JobKind, JobStatus
from app.domain.module import BindSpec, InitSpec, InputDesc, OptimizerSpec, ParamsSource
from app.errors.tree import IdempotencyMismatch, IllegalTransition, Invalid, NotFound, WrongStage
from app.link.job_messages import JobCheckpoint, JobDone, JobLog, JobMetric, JobProgress
from app.services.jobs.jobs import JobFilter
from app.services.jobs.submissions import JobLimits, Submission, read_submission
from app.store.jobs import dataset_is_used

SCORE = {"dataset": "digits", "batch_size": 2}
FIT = {**SCORE, "epochs": 2, "optimizer": {"name": "sgd"}}


def test_a_submitted_job_is_queued_with_defaults_filled_in(bench) -> None:
    job = bench.fit()
    assert (job.status, job.kind, job.module) == (JobStatus.QUEUED, JobKind.FIT, "a")
    assert job.params["metrics"] == ["accuracy"]
    assert (job.lease_seconds, job.max_attempts, job.created_at) == (10.0, 3, 1000.0)
    assert bench.jobs.get(job.id) == job
    assert [row.type for row in bench.jobs.events(job.id)] == [JobEvent.SUBMITTED]


@pytest.mark.parametrize(
    ("module", "changes", "error", "message"),
    [
        ("nowhere", {}, NotFound, "module 'nowhere'"),
        ("a", {"dataset": "nothing"}, NotFound, "dataset 'nothing'"),
        ("a", {"validation": {"dataset": "nothing"}}, NotFound, "dataset 'nothing'"),
        ("a", {"epochs": 0}, Invalid, "epochs"),
        ("a", {"optimizer": None}, Invalid, "optimizer"),
        ("a", {"inputs": {"data": "dta"}}, Invalid, r"inputs.data.array: .* did you mean 'data'"),
        (
            "a",
            {"inputs": {"data": {"array": "data", "lengths": "sizes"}}},
            Invalid,
            "inputs.data.lengths: got sizes, expected an array of dataset 'digits'",
        ),
        (
            "a",
            {"inputs": {"data": {"array": "data", "shape": [2, 2]}}},
            Invalid,
            r"inputs.data.shape: got \[2, 2\], expected the elements of an example of shape \(3,\)",
        ),
        (
            "a",
            {"validation": {"dataset": "digits", "inputs": {"data": "images"}}},
            Invalid,
            "validation.inputs.data.array",
        ),
    ],
)
def test_a_job_that_could_only_fail_is_refused(bench, module, changes, error, message) -> None:
    with pytest.raises(error, match=message):
        bench.fit(module, **changes)
    assert bench.jobs.list_jobs().items == ()


@pytest.mark.parametrize("priority", [1001, -1001])
def test_priorities_are_limited(bench, priority: int) -> None:
    with pytest.raises(Invalid, match="priority"):
        bench.jobs.submit("a", JobKind.SCORE, SCORE, JobLimits(priority=priority))


def test_score_needs_parameters_or_an_earlier_fit(bench) -> None:
    with pytest.raises(WrongStage, match="/v1/modules/a/bind"):
        bench.jobs.submit("a", JobKind.SCORE, SCORE)
    fit = bench.fit()
    assert bench.jobs.submit("a", JobKind.SCORE, SCORE).id > fit.id
    bind = BindSpec(data_shapes=(InputDesc(name="data", shape=(2, 3)),))
    bench.modules.change(
        "b", lambda b: b.evolve(bind=bind, init=InitSpec(), params=ParamsSource.INIT)
    )
    assert bench.jobs.submit("b", JobKind.SCORE, SCORE).status is JobStatus.QUEUED


def test_a_module_may_supply_its_own_optimizer(bench) -> None:
    bench.modules.change("a", lambda a: a.evolve(optimizer=OptimizerSpec()))
    assert bench.fit(optimizer=None).params["optimizer"] is None


def test_a_repeated_idempotency_key_makes_one_job_and_a_different_request_is_refused(bench) -> None:
    params = bench.fit().params

    def submit(**changes: object) -> Job:
        return bench.jobs.submit("a", JobKind.FIT, {**params, **changes}, idempotency_key="k")

    first = submit()
    bench.jobs.cancel(first.id)
    assert submit().id == first.id
    assert submit().status is JobStatus.CANCELLED
    with pytest.raises(IdempotencyMismatch):
        submit(epochs=9)
    assert len(bench.jobs.list_jobs().items) == 2


def test_jobs_submitted_together_share_a_transaction_and_get_their_own_answers(bench) -> None:
    def asked(module: str, key: str | None = None, **changes: object) -> Submission:
        params = {**FIT, **changes}
        return read_submission(module, JobKind.FIT, params, idempotency_key=key)

    commits = []
    event.listen(bench.store._engine, "commit", lambda _: commits.append(1))
    made = bench.jobs.submit_all([asked("b"), asked("nowhere"), asked("a"), asked("b", epochs=7)])
    assert len(commits) == 1
    assert [one.module if isinstance(one, Job) else type(one) for one in made] == [
        *("b", NotFound, "a", "b")
    ]
    assert [bench.jobs.get(made[place].id) for place in (0, 2, 3)] == [made[0], *made[2:]]
    assert made[3].params["epochs"] == 7
    assert made[0].id < made[3].id, "jobs of one module stay in their order"
    kinds = [row.type for place in (0, 2, 3) for row in bench.jobs.events(made[place].id)]
    assert kinds == [JobEvent.SUBMITTED] * 3
    with bench.store.read() as connection:
        assert dataset_is_used(connection, "digits")


def test_jobs_submitted_together_under_one_key_become_one(bench) -> None:
    def asked(module: str, key: str) -> Submission:
        return read_submission(module, JobKind.FIT, FIT, idempotency_key=key)

    asked_for = [asked("a", "k"), asked("a", "l"), asked("a", "k"), asked("b", "k")]
    first, other, again, misused = bench.jobs.submit_all(asked_for)
    assert (again.id, other.id != first.id) == (first.id, True)
    assert isinstance(misused, IdempotencyMismatch)
    assert len(bench.jobs.list_jobs().items) == 2


def test_the_list_is_filtered_and_paged(bench) -> None:
    ids = [bench.fit(module).id for module in "aab"]
    page = bench.jobs.list_jobs(JobFilter(modules=["a"]), limit=1)
    assert [job.id for job in page.items] == [ids[1]]
    rest = bench.jobs.list_jobs(JobFilter(modules=["a"]), page.next_cursor, limit=1)
    assert [job.id for job in rest.items] == [ids[0]]
    assert rest.next_cursor is None


@pytest.mark.parametrize("cursor", ["", "x", "-1", "1.5", "٣", "9" * 19])
def test_an_invalid_cursor_is_refused(bench, cursor: str) -> None:
    with pytest.raises(Invalid, match="cursor"):
        bench.jobs.list_jobs(cursor=cursor)


def test_pause_resume_cancel_and_retry_of_a_waiting_job(bench) -> None:
    job = bench.fit()
    assert bench.jobs.pause(job.id).status is JobStatus.PAUSED
    assert bench.jobs.resume(job.id).status is JobStatus.QUEUED
    assert bench.jobs.cancel(job.id).status is JobStatus.CANCELLED
    with pytest.raises(IllegalTransition, match="retry it"):
        bench.jobs.resume(job.id)
    assert bench.jobs.retry(job.id).status is JobStatus.QUEUED


def test_metrics_come_in_pages(bench) -> None:
    job = bench.fit()
    claimed = bench.claim()
    for epoch in range(5):
        who = {"job_id": claimed.id, "attempt": claimed.attempt}
        bench.record(JobMetric(**who, epoch=epoch, part="train", metrics={}))
    epochs, cursor = [], None
    for size in (2, 2, 1):
        page = bench.jobs.metrics(job.id, cursor, 2)
        assert len(page.items) == size
        epochs += [row.data["epoch"] for row in page.items]
        cursor = page.next_cursor
    assert (epochs, cursor) == ([0, 1, 2, 3, 4], None)
    with pytest.raises(Invalid, match="cursor"):
        bench.jobs.metrics(job.id, "x")


def test_jobs_are_counted_by_status(bench) -> None:
    for name in ("a", "b"):
        bench.fit(name)
    bench.claim()
    counts = bench.jobs.count()
    assert (counts[JobStatus.QUEUED], counts[JobStatus.RUNNING]) == (1, 1)
    assert set(counts) == set(JobStatus)


def test_events_of_an_unknown_job_are_not_found(bench) -> None:
    with pytest.raises(NotFound):
        bench.jobs.events(99)


async def test_a_follower_sees_past_and_future_events_until_the_end(bench) -> None:
    job = bench.fit()
    seen = []

    async def follow() -> None:
        async for row in bench.jobs.follow(job.id):
            if row is not None:
                seen.append(row)

    follower = asyncio.create_task(follow())
    while not seen:
        await asyncio.sleep(0.01)

    def work() -> None:
        claimed = bench.claim()
        who = {"job_id": claimed.id, "attempt": claimed.attempt}
        bench.record(JobProgress(**who, epoch=0, epochs=2, batch=1))
        bench.record(JobMetric(**who, epoch=0, part="train", metrics={"accuracy": 0.5}))
        bench.record(JobLog(**who, message="hello"))
        bench.record(JobCheckpoint(**who, epoch=1))
        bench.record(JobDone(**who, result={"accuracy": 0.5}))

    thread = threading.Thread(target=work)
    thread.start()
    await asyncio.wait_for(follower, 60.0)
    thread.join()
    E = JobEvent
    assert [row.type for row in seen] == [
        *(E.SUBMITTED, E.CLAIMED, E.PROGRESS, E.METRIC, E.LOG, E.CHECKPOINT, E.SUCCEEDED)
    ]
    assert seen[2].data["batch"] == 1
    assert seen[3].data == {
        "epoch": 0,
        "part": "train",
        "metrics": {"accuracy": 0.5},
        "seconds": None,
    }

    again = [row async for row in bench.jobs.follow(job.id, after=seen[4].id)]
    assert again == seen[5:]
    assert bench.jobs.newest_event_id() == seen[-1].id


async def test_a_follower_of_everything_sees_new_jobs(bench) -> None:
    bench.fit("a")
    after = bench.jobs.newest_event_id()
    stream = bench.jobs.follow(after=after)
    threading.Timer(0.05, lambda: bench.fit("b")).start()
    row = await anext(stream)
    while row is None:
        row = await anext(stream)
    assert row.type is JobEvent.SUBMITTED
    assert row.id == after + 1
    await stream.aclose()


async def test_the_end_of_past_events_is_signalled_only_once(bench) -> None:
    bench.fit("a")
    stream = bench.jobs.follow()
    assert (await anext(stream)).type is JobEvent.SUBMITTED
    assert await anext(stream) is None  # once, when all past events have been sent
    threading.Timer(0.05, lambda: bench.fit("b")).start()
    assert (await anext(stream)).type is JobEvent.SUBMITTED
    await stream.aclose()


async def test_all_streams_end_when_the_server_stops(bench) -> None:
    job = bench.fit()
    seen = []

    async def follow(job_id: int | None) -> None:
        async for row in bench.jobs.follow(job_id):
            if row is not None:
                seen.append(row)

    followers = [asyncio.create_task(follow(one)) for one in (job.id, None)]
    async with asyncio.timeout(60):
        while len(seen) < 2:
            await asyncio.sleep(0.01)
        bench.jobs.end_streams()
        await asyncio.gather(*followers)
    assert [row.type for row in seen] == [JobEvent.SUBMITTED] * 2
    assert [row async for row in bench.jobs.follow(job.id)] == []


async def test_following_an_unknown_job_is_refused(bench) -> None:
    with pytest.raises(NotFound):
        await anext(bench.jobs.follow(99))
