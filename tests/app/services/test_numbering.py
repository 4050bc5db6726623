"""Numbers of versions only grow, and a version in use is never replaced."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from app.domain.checkpoint import CheckpointTag
from app.domain.fit_epochs import FitEpochs, epochs_of
from app.domain.job import Job, JobKind
from app.domain.versions import VersionSpec
from app.errors.tree import Conflict, InUse
from app.files.checkpoint_files import admit_attempt, copy_checkpoint, write_checkpoint
from app.link.job_messages import JobCheckpoint, JobDone, JobFailed
from app.services.jobs.submissions import JobLimits, read_submission

T = CheckpointTag
FIT = {"dataset": "digits", "batch_size": 2, "optimizer": {"name": "sgd"}}


def write(bench: Any, tag: CheckpointTag, content: bytes = b"w", **who: int) -> Path:
    root = bench.checkpoints.root("a")
    if who:
        admit_attempt(root, who["job_id"], who["attempt"])
    with write_checkpoint(root, tag, module="a", **who) as writer:
        (writer.directory / "a.params").write_bytes(content)
    return root / str(tag)


def save(bench: Any, *epochs: int) -> None:
    for epoch in epochs:
        write(bench, T(epoch))
        bench.checkpoints.saved("a", T(epoch))


def train(bench: Any, job: Job, *epochs: int) -> None:
    """Write and report checkpoints like an attempt of a fit."""
    for epoch in epochs:
        write(bench, T(epoch), job_id=job.id, attempt=job.attempt)
        message = JobCheckpoint(job_id=job.id, attempt=job.attempt, epoch=epoch, batch=0)
        assert bench.enter(message) is not None


def begun(bench: Any, job: Job) -> Job:
    claimed = bench.claim()
    assert claimed is not None
    assert claimed.id == job.id
    return claimed


def keep(bench: Any, version: int, **roles: Any) -> None:
    """Put a version to use, as ``Versions`` does."""
    versions = bench.checkpoints.versions_root("a")
    versions.mkdir(exist_ok=True)
    copy_checkpoint(bench.checkpoints.directory("a", T(version)), versions)
    bench.modules.change("a", lambda a: a.evolve(versions=VersionSpec(**roles)))


async def chunks(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


def test_a_fit_goes_on_counting(bench: Any) -> None:
    first = bench.fit(epochs=8)
    assert epochs_of(first) == FitEpochs(0, 8)
    first = begun(bench, first)
    assert bench.runs.start_message(first).begin_epoch == 0
    train(bench, first, 1, 5, 8)
    bench.enter(JobDone(job_id=first.id, attempt=1, result={"checkpoint": "8"}))
    second = bench.fit(epochs=3)
    assert epochs_of(second) == FitEpochs(8, 11)
    assert list(FitEpochs(8, 11).versions) == [9, 10, 11]
    assert bench.runs.start_message(begun(bench, second)).begin_epoch == 8
    assert second.params["epochs"] == 3, "as submitted"


def test_fits_that_wait_count_on_from_each_other(bench: Any) -> None:
    save(bench, 2)
    assert [epochs_of(bench.fit(epochs=n)) for n in (3, 1)] == [(2, 5), (5, 6)]
    at_once = [read_submission("a", JobKind.FIT, FIT | {"epochs": n}) for n in (2, 4)]
    assert [epochs_of(one) for one in bench.jobs.submit_all(at_once)] == [(6, 8), (8, 12)]


def test_a_fit_that_starts_before_others_keeps_its_numbers_and_they_get_higher_ones(
    bench: Any,
) -> None:
    late = bench.fit(epochs=3)
    soon = bench.jobs.submit("a", JobKind.FIT, FIT | {"epochs": 2}, JobLimits(priority=-1))
    assert epochs_of(soon) == (3, 5)
    soon = begun(bench, soon)
    assert epochs_of(soon) == (3, 5), "as its submission was answered"
    train(bench, soon, 4, 5)
    bench.enter(JobDone(job_id=soon.id, attempt=1, result={"checkpoint": "5"}))
    late = begun(bench, late)
    assert epochs_of(late) == (5, 8)
    assert epochs_of(bench.jobs.get(late.id)) == (5, 8)


def test_what_a_fit_begins_with_gets_a_number_if_it_is_only_in_memory(bench: Any) -> None:
    save(bench, 4)
    bench.modules.change("a", lambda a: a.with_set_params())
    assert epochs_of(bench.fit(epochs=2)) == (5, 7)


def test_numbers_of_deleted_versions_are_not_used_again(bench: Any) -> None:
    save(bench, 1, 2, 7, 3)
    bench.checkpoints.delete("a", T(2))
    assert bench.modules.get("a").highest_deleted is None
    bench.checkpoints.delete("a", T(7))
    assert epochs_of(bench.fit(epochs=1)) == (7, 8)
    bench.modules.change("a", lambda a: a.evolve(checkpoint=T(1)))
    bench.checkpoints.delete("a", T(3))
    assert bench.modules.get("a").highest_deleted == 7


def test_numbers_that_retention_frees_are_not_used_again(bench: Any) -> None:
    save(bench, 5, 6, 2)
    assert bench.checkpoints.prune("a", keep=1) == [T(6), T(5)]
    assert epochs_of(bench.fit(epochs=1)) == (6, 7)


def test_a_fit_that_is_told_where_to_begin_does_and_the_newest_is_what_it_wrote(
    bench: Any,
) -> None:
    save(bench, 1, 2, 3, 4)
    job = bench.fit(begin_epoch=0, epochs=2)
    assert epochs_of(job) == (0, 2)
    job = begun(bench, job)
    assert epochs_of(job) == (0, 2)
    train(bench, job, 1, 2)
    assert bench.checkpoints.latest_version("a") == 2
    assert bench.modules.get("a").checkpoint == T(2)


@pytest.mark.parametrize(
    "roles",
    [{"promoted": 2}, {"labels": {"stable": 2}}, {"promoted": 4, "earlier": (2,)}],
    ids=["promoted", "labelled", "promoted before"],
)
async def test_a_version_in_use_is_not_replaced(bench: Any, roles: dict[str, Any]) -> None:
    save(bench, 1, 2, 3, 4)
    job = begun(bench, bench.fit(begin_epoch=1, epochs=3))  # before it was in use
    keep(bench, 2, **roles)
    before = (bench.checkpoints.directory("a", T(2)) / "a.params").read_bytes()
    with pytest.raises(InUse, match=r"version 2 of module 'a' is in use .*leave out begin_epoch"):
        bench.fit(begin_epoch=0, epochs=3)
    with pytest.raises(Conflict, match="version 2 of module 'a' is in use"):
        write(bench, T(2), b"other", job_id=job.id, attempt=job.attempt)
    with pytest.raises(InUse, match="upload under another epoch"):
        await bench.checkpoints.upload("a", T(2), "a.params", chunks(b"other"))
    with pytest.raises(InUse, match="save under another epoch"):
        bench.checkpoints.require_savable("a", T(2))
    assert (bench.checkpoints.directory("a", T(2)) / "a.params").read_bytes() == before
    bench.enter(JobFailed(job_id=job.id, attempt=job.attempt, code="conflict", message="no"))
    # Tags within the next epoch are free, and so are other numbers, and files may be added.
    bench.checkpoints.require_savable("a", T(2, 5))
    bench.checkpoints.require_savable("a", T(7))
    await bench.checkpoints.upload("a", T(2), "more.params", chunks(b"added"))


def test_a_fit_may_write_its_own_version_again(bench: Any) -> None:
    job = begun(bench, bench.fit(epochs=3))
    train(bench, job, 1)
    keep(bench, 1, promoted=1)
    write(bench, T(1), b"the same bits", job_id=job.id, attempt=job.attempt)


async def test_nobody_takes_a_number_that_a_fit_is_to_write(bench: Any) -> None:
    save(bench, 2)
    job = bench.fit(epochs=2)
    await bench.checkpoints.upload("a", T(3), "x.params", chunks(b"x"))  # it has not started
    job = begun(bench, job)
    assert epochs_of(job) == (3, 5)
    for tag in (T(4), T(5)):
        with pytest.raises(InUse, match=f"version {tag} .* job {job.id} is to write"):
            await bench.checkpoints.upload("a", tag, "x.params", chunks(b"x"))
        with pytest.raises(InUse, match=f"job {job.id}"):
            bench.checkpoints.require_savable("a", tag)
    bench.checkpoints.require_savable("a", T(6))


def test_a_retry_does_not_replace_what_others_have_written_since(bench: Any) -> None:
    first = begun(bench, bench.fit(epochs=4))
    train(bench, first, 1, 2)
    failed = JobFailed(job_id=first.id, attempt=1, code="invalid", message="no")
    bench.enter(failed)
    second = begun(bench, bench.fit(epochs=1))
    assert epochs_of(second) == (2, 3)
    train(bench, second, 3)
    bench.enter(JobDone(job_id=second.id, attempt=1, result={"checkpoint": "3"}))
    with pytest.raises(Conflict, match="has got version 3 since"):
        bench.jobs.retry(first.id)
    assert bench.jobs.get(first.id).status == "failed"
    bench.modules.change("a", lambda a: a.evolve(checkpoint=T(2)))
    bench.checkpoints.delete("a", T(3))
    assert bench.jobs.retry(first.id).status == "queued"


def test_a_fit_of_an_older_server_begins_at_epoch_0(bench: Any) -> None:
    save(bench, 9)
    job = Job(kind=JobKind.FIT, module="a", params={"begin_epoch": 0, "epochs": 2})
    assert epochs_of(job) == (0, 2)
    assert epochs_of(Job(kind=JobKind.SCORE, module="a")) is None
