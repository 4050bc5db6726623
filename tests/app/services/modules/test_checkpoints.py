"""The checkpoint service: recording, listing, uploading, pruning, resuming, recovering."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from app.domain.checkpoint import BestPolicy, CheckpointTag, FileDigest
from app.domain.job import Job
from app.domain.module import ModuleRecord, ParamsSource
from app.errors.tree import Conflict, Damaged, InUse, Invalid, NotFound, TooLarge
from app.files import checkpoint_files
from app.files.checkpoint_files import MANIFEST, admit_attempt, link_files, write_checkpoint
from app.link.job_messages import JobCancelled, JobCheckpoint, JobDone, JobFailed
from app.services.modules import checkpoints

T = CheckpointTag


def write(bench, module: str, tag: CheckpointTag, content: bytes = b"w", **who: int) -> Path:
    """Write a checkpoint like an executor."""
    root = bench.checkpoints.root(module)
    if who:
        admit_attempt(root, who["job_id"], who["attempt"])
    with write_checkpoint(root, tag, module=module, **who) as writer:
        (writer.directory / f"{module}-{tag.epoch:04}.params").write_bytes(content)
    return root / str(tag)


def save(bench, module: str, *tags: CheckpointTag, **who: int) -> None:
    for tag in tags:
        write(bench, module, tag, **who)
        bench.checkpoints.saved(module, tag)


def listed(bench, module: str) -> list[CheckpointTag]:
    return [manifest.tag for manifest in bench.checkpoints.list_checkpoints(module).items]


def running(bench, module: str = "a") -> Job:
    job = bench.fit(module)
    claimed = bench.claim()
    assert claimed.id == job.id
    return claimed


def report(bench, job: Job, tag: CheckpointTag, content: bytes = b"w") -> None:
    """Write a checkpoint and report it, like a fit."""
    write(bench, job.module, tag, content, job_id=job.id, attempt=job.attempt)
    message = JobCheckpoint(job_id=job.id, attempt=job.attempt, epoch=tag.epoch, batch=tag.batch)
    assert bench.enter(message) is not None


def content_of(directory: Path | None) -> bytes | None:
    return None if directory is None else next(directory.glob("*.params")).read_bytes()


async def chunks(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


def test_a_saved_checkpoint_is_listed_and_becomes_the_restore_point(bench) -> None:
    save(bench, "a", T(1), T(2), T(1, 50))
    assert listed(bench, "a") == [T(2), T(1, 50), T(1)]
    page = bench.checkpoints.list_checkpoints("a", limit=2)
    rest = bench.checkpoints.list_checkpoints("a", page.next_cursor, 2)
    assert [manifest.tag for manifest in rest.items] == [T(1)]
    module = bench.modules.get("a")
    assert (module.checkpoint, module.params) == (T(1, 50), ParamsSource.CHECKPOINT)
    assert bench.checkpoints.verify("a", T(2)) == bench.checkpoints.directory("a", T(2))


def test_missing_checkpoints_are_not_found(bench) -> None:
    for call in (
        lambda: bench.checkpoints.list_checkpoints("nowhere"),
        lambda: bench.checkpoints.get("a", T(1)),
        lambda: bench.checkpoints.verify("nowhere", T(1)),
        lambda: bench.checkpoints.delete("a", T(1)),
    ):
        with pytest.raises(NotFound):
            call()


def test_files_are_found_only_by_their_exact_name(bench) -> None:
    save(bench, "a", T(1))
    with bench.checkpoints.open_file("a", T(1), "a-0001.params") as file:
        assert file.read() == b"w"
    with bench.checkpoints.open_file("a", T(1), MANIFEST) as file:
        assert b"a-0001.params" in file.read()
    with pytest.raises(NotFound, match=r"the checkpoint has a-0001\.params"):
        bench.checkpoints.open_file("a", T(1), "other.params")
    for name in ("../1/a-0001.params", "/etc/passwd", "..", ""):
        with pytest.raises(Invalid, match="file"):
            bench.checkpoints.open_file("a", T(1), name)
    (bench.checkpoints.directory("a", T(1)) / "a-0001.params").write_bytes(b"")
    with pytest.raises(Damaged, match="got 0 bytes, expected 1 bytes"):
        bench.checkpoints.open_file("a", T(1), "a-0001.params")


def test_an_open_file_outlives_its_checkpoint(bench) -> None:
    save(bench, "a", T(1))
    save(bench, "a", T(2))
    with bench.checkpoints.open_file("a", T(1), "a-0001.params") as file:
        bench.checkpoints.delete("a", T(1))
        assert file.read() == b"w"


def test_a_checkpoint_removed_while_it_is_linked_is_not_found(bench, tmp_path) -> None:
    save(bench, "a", T(1))
    directory = bench.checkpoints.directory("a", T(1))
    with pytest.raises(NotFound):
        link_files(directory, ["a-0001.params", "gone"], tmp_path)
    with pytest.raises(NotFound):
        link_files(directory.parent / "9", ["a-0001.params"], tmp_path)


def test_an_incomplete_checkpoint_is_refused_and_can_be_deleted(bench) -> None:
    save(bench, "a", T(1), T(2))
    (bench.checkpoints.directory("a", T(1)) / MANIFEST).unlink()
    with pytest.raises(Damaged, match="half-written"):
        bench.checkpoints.verify("a", T(1))
    bench.checkpoints.delete("a", T(1))
    assert listed(bench, "a") == [T(2)]


def test_the_restore_point_cannot_be_deleted(bench) -> None:
    save(bench, "a", T(1), T(2))
    with pytest.raises(InUse, match="restored from"):
        bench.checkpoints.delete("a", T(2))
    bench.checkpoints.delete("a", T(1))
    assert listed(bench, "a") == [T(2)]
    assert not bench.checkpoints.directory("a", T(1)).exists()


async def test_a_checkpoint_is_uploaded_file_by_file(bench) -> None:
    upload = bench.checkpoints.upload
    first = await upload("a", T(7), "net-symbol.json", chunks(b"{", b"}"))
    assert set(first.files) == {"net-symbol.json"}
    second = await upload("a", T(7), "net-0007.params", chunks(b"p" * 100))
    assert set(second.files) == {"net-symbol.json", "net-0007.params"}
    assert second.prefix == "net"
    third = await upload("a", T(7), "net-0007.params", chunks(b"new"))
    assert third.files["net-0007.params"].size == 3
    assert third.etag != second.etag
    assert bench.checkpoints.verify("a", T(7)).name == "7"
    assert listed(bench, "a") == [T(7)]
    assert bench.modules.get("a").checkpoint is None, "it is not loaded yet"
    assert [p.name for p in bench.checkpoints.root("a").iterdir()] == ["7"]


def test_several_files_are_uploaded_at_once(bench) -> None:
    service = bench.checkpoints
    with (
        service.begin_upload("a", T(1), "n-symbol.json") as symbol,
        service.begin_upload("a", T(1), "n-0001.params") as params,
    ):
        symbol.write(b"{}")
        params.write(b"pp")
        service.add_files("a", T(1), {"n-symbol.json": symbol, "n-0001.params": params})
    assert service.get("a", T(1)).size == 4


async def test_files_uploaded_concurrently_are_all_kept(bench) -> None:
    names = [f"net-{number:04}.params" for number in range(8)]
    upload = bench.checkpoints.upload
    await asyncio.gather(*(upload("a", T(1), name, chunks(name.encode())) for name in names))
    assert set(bench.checkpoints.get("a", T(1)).files) == set(names)
    assert bench.checkpoints.verify("a", T(1)).name == "1"


async def test_a_damaged_file_is_not_fixed_by_uploading_another(bench) -> None:
    save(bench, "a", T(1))
    params = bench.checkpoints.directory("a", T(1)) / "a-0001.params"
    params.write_bytes(b"x")
    with pytest.raises(Damaged, match=r"a-0001\.params"):
        await bench.checkpoints.upload("a", T(1), "a-0001.states", chunks(b"s"))
    assert set(bench.checkpoints.get("a", T(1)).files) == {"a-0001.params"}
    with pytest.raises(Damaged):
        bench.checkpoints.verify("a", T(1))
    await bench.checkpoints.upload("a", T(1), "a-0001.params", chunks(b"w"))
    assert bench.checkpoints.verify("a", T(1)) == params.parent


async def test_invalid_uploads_are_refused(bench) -> None:
    upload = bench.checkpoints.upload
    for name in ("../x.params", MANIFEST, ".hidden.params", "", "x.bin"):
        with pytest.raises(Invalid, match="file"):
            await upload("a", T(1), name, chunks(b"x"))
    with pytest.raises(NotFound):
        await upload("nowhere", T(1), "x.params", chunks(b"x"))
    await upload("a", T(1), "x.params", chunks(bytes(700_000)))
    with pytest.raises(TooLarge, match="MODSERVE_MAX_CHECKPOINT_BYTES"):
        await upload("a", T(1), "y.params", chunks(bytes(400_000)))
    with pytest.raises(TooLarge):
        await upload("a", T(1), "y.params", chunks(b""), announced_bytes=400_000)
    await upload("a", T(1), "x.params", chunks(bytes(900_000)))
    assert set(bench.checkpoints.get("a", T(1)).files) == {"x.params"}


def test_two_concurrent_uploads_cannot_exceed_the_limit_together(bench) -> None:
    service = bench.checkpoints
    with (
        service.begin_upload("a", T(1), "x.params") as first,
        service.begin_upload("a", T(1), "y.params") as second,
    ):
        for name, file in (("x.params", first), ("y.params", second)):
            file.write(bytes(700_000))
            if name == "x.params":
                service.add_files("a", T(1), {name: file})
        with pytest.raises(TooLarge, match=r"got 1,400,000, .*MODSERVE_MAX_CHECKPOINT_BYTES"):
            service.add_files("a", T(1), {"y.params": second})
    assert set(service.get("a", T(1)).files) == {"x.params"}


def test_an_upload_does_not_revive_a_deleted_module(bench, monkeypatch: pytest.MonkeyPatch) -> None:
    service, get, hash_files = bench.checkpoints, bench.modules.get, checkpoint_files._digest_all

    def delete_behind(name: str) -> ModuleRecord:
        monkeypatch.undo()
        record = get(name)
        bench.modules.delete(name)
        return record

    def delete_before(directory: Path) -> dict[str, FileDigest]:
        monkeypatch.undo()
        bench.modules.delete("a")
        return hash_files(directory)

    with service.begin_upload("a", T(1), "x.params") as upload:
        upload.write(b"x")
        monkeypatch.setattr(checkpoint_files, "_digest_all", delete_before)
        with pytest.raises(NotFound, match="module"):
            service.add_files("a", T(1), {"x.params": upload})
    monkeypatch.setattr(bench.modules, "get", delete_behind)
    with pytest.raises(NotFound, match="module"):
        service.begin_upload("b", T(1), "x.params")
    root = bench.modules.directories.root
    assert [path.name for path in root.iterdir() if path.name[0] != "."] == []


async def test_readers_always_find_a_complete_checkpoint_during_replacement(bench) -> None:
    await bench.checkpoints.upload("a", T(1), "x.params", chunks(b"0"))
    is_over = threading.Event()

    def look() -> int:
        count = 0
        while not is_over.is_set():
            assert bench.checkpoints.verify("a", T(1)).name == "1"
            count += 1
        return count

    looking = asyncio.create_task(asyncio.to_thread(look))
    for i in range(10):
        await bench.checkpoints.upload("a", T(1), "x.params", chunks(str(i).encode()))
    is_over.set()
    assert await looking > 0
    assert (bench.checkpoints.verify("a", T(1)) / "x.params").read_bytes() == b"9"


def test_pruning_keeps_the_newest_and_those_in_use(bench) -> None:
    save(bench, "a", T(1), T(2), T(2, 10), T(3), T(3, 10))
    assert bench.checkpoints.prune("a") == [T(2, 10)], "by default all ends of epochs are kept"
    bench.modules.change("a", lambda a: a.evolve(checkpoint=T(1)))
    assert bench.checkpoints.prune("a", keep=1) == [T(2)]
    assert listed(bench, "a") == [T(3, 10), T(3), T(1)]
    save(bench, "a", T(4))
    assert bench.checkpoints.prune("a", keep=2) == [T(3, 10), T(1)]


def test_pruning_spares_what_a_fit_puts_in_place_meanwhile(
    bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later training writes under the tags of an earlier one while old ones are removed."""
    save(bench, "a", T(1), T(2), T(3), T(4))
    choose, content = checkpoints.tags_to_keep, b"of the later fit"

    def choose_while_written(*given: Any) -> set[CheckpointTag]:
        kept = choose(*given)
        write(bench, "a", T(2), content, job_id=9, attempt=1)
        return kept

    monkeypatch.setattr(checkpoints, "tags_to_keep", choose_while_written)
    assert bench.checkpoints.prune("a", keep=1) == [T(3), T(1)]
    bench.checkpoints.saved("a", T(2))
    assert content_of(bench.checkpoints.verify("a", T(2))) == content
    assert bench.modules.get("a").checkpoint == T(2)


def test_pruning_spares_what_is_not_recorded_yet(bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if the clock was put back, so that it seems to be the oldest."""
    save(bench, "a", T(1), T(2))
    monkeypatch.setattr(checkpoint_files.time, "time", lambda: 1.0)
    write(bench, "a", T(3), b"newest", job_id=9, attempt=1)
    assert bench.checkpoints.prune("a", keep=1) == [T(1)]
    bench.checkpoints.saved("a", T(3))
    assert content_of(bench.checkpoints.verify("a", T(3))) == b"newest"


def test_what_a_fit_has_just_written_is_not_deleted_for_what_it_replaced(bench) -> None:
    save(bench, "a", T(1), T(2))
    write(bench, "a", T(1), b"new", job_id=9, attempt=1)
    with pytest.raises(Conflict, match="just written checkpoint 1"):
        bench.checkpoints.delete("a", T(1))
    bench.checkpoints.saved("a", T(1))
    assert content_of(bench.checkpoints.verify("a", T(1))) == b"new"
    bench.checkpoints.delete("a", T(2))
    assert listed(bench, "a") == [T(1)]


def test_a_job_resumes_from_its_furthest_valid_checkpoint(bench) -> None:
    job = running(bench)
    assert bench.resume_points.begin_attempt(job) is None
    report(bench, job, T(1), b"one")
    report(bench, job, T(1, 5), b"one and a bit")
    assert content_of(bench.resume_points.begin_attempt(job)) == b"one and a bit"
    written_before_death = write(bench, "a", T(2), b"two", job_id=job.id, attempt=1)
    assert bench.resume_points.begin_attempt(job) == written_before_death
    (written_before_death / "a-0002.params").write_bytes(b"tw")
    said: list[str] = []
    assert content_of(bench.resume_points.begin_attempt(job, said.append)) == b"one and a bit"
    (warning,) = said
    assert "checkpoints/2" in warning
    assert "a-0002.params" in warning
    write(bench, "a", T(9), b"of another job", job_id=job.id + 1, attempt=1)
    assert content_of(bench.resume_points.begin_attempt(job)) == b"one and a bit"


def test_a_paused_job_keeps_its_checkpoint_when_another_overwrites_it(bench) -> None:
    job = running(bench)
    report(bench, job, T(1), b"mine")
    bench.jobs.pause(job.id)
    bench.queue.release(job.id, job.attempt, "asked")
    other = running(bench)
    report(bench, other, T(1), b"theirs")
    assert content_of(bench.checkpoints.directory("a", T(1))) == b"theirs"
    assert content_of(bench.resume_points.begin_attempt(job)) == b"mine"
    assert content_of(bench.resume_points.begin_attempt(other)) == b"theirs"


@pytest.mark.parametrize(
    ("last", "is_kept"), [(JobDone, False), (JobCancelled, False), (JobFailed, True)]
)
def test_the_checkpoint_of_a_finished_job_is_released(bench, last, is_kept: bool) -> None:
    job = running(bench)
    report(bench, job, T(1))
    more = {"code": "c", "message": "m"} if last is JobFailed else {}
    assert bench.enter(last(job_id=job.id, attempt=job.attempt, **more)) is not None
    pinned = bench.data_dir / "modules" / "a" / "resume" / str(job.id)
    assert pinned.exists() == is_kept


def test_the_best_checkpoint_of_a_job_is_never_pruned(bench) -> None:
    policy = BestPolicy(part="train", metric="loss", mode="min", count=1)
    root = bench.checkpoints.root("a")
    admit_attempt(root, 7, 1)
    for epoch, loss in ((1, 0.5), (2, 0.1), (3, 0.3), (4, 0.2)):
        with write_checkpoint(root, T(epoch), module="a", job_id=7, attempt=1) as writer:
            writer.metrics, writer.keep_best = {"train": {"loss": loss}}, policy
        bench.checkpoints.saved("a", T(epoch))
        bench.checkpoints.prune("a", keep=1)
    assert listed(bench, "a") == [T(4), T(2)]


def test_a_checkpoint_loaded_during_an_upload_is_not_replaced(
    bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, hash_files = bench.checkpoints, checkpoint_files._digest_all
    write(bench, "a", T(1))

    def load_behind(directory: Path) -> dict[str, FileDigest]:
        monkeypatch.undo()
        bench.modules.saved("a", T(1), saved_states=False)
        return hash_files(directory)

    with service.begin_upload("a", T(1), "a-0001.params") as upload:
        upload.write(b"others")
        monkeypatch.setattr(checkpoint_files, "_digest_all", load_behind)
        with pytest.raises(InUse, match=r"a-0001\.params"):
            service.add_files("a", T(1), {"a-0001.params": upload})
    assert bench.modules.get("a").checkpoint == T(1)
    assert content_of(service.directory("a", T(1))) == b"w"
    hidden = [path.name for path in service.root("a").iterdir() if path.name != "1"]
    assert not any("incoming" in name for name in hidden)


async def test_the_restore_point_is_not_replaced(bench) -> None:
    service = bench.checkpoints
    save(bench, "a", T(1))
    name = "a-0001.params"
    kept = content_of(service.directory("a", T(1)))
    assert kept is not None
    with pytest.raises(InUse, match=name):
        await service.upload("a", T(1), name, chunks(b"others"))
    assert content_of(service.directory("a", T(1))) == kept
    await service.upload("a", T(1), name, chunks(kept))  # the same content is not a change
    await service.upload("a", T(1), "a-0001.states", chunks(b"s"))
    save(bench, "a", T(2))
    await service.upload("a", T(1), name, chunks(b"others"))
    assert content_of(service.directory("a", T(1))) == b"others"


def test_an_upload_does_not_go_to_another_module_of_the_same_name(
    bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, hash_files = bench.checkpoints, checkpoint_files._digest_all
    record = bench.modules.get("a")

    def make_anew(directory: Path) -> dict[str, FileDigest]:
        monkeypatch.undo()
        bench.modules.delete("a")
        bench.modules.create(record.evolve(id=0, version=1))
        return hash_files(directory)

    with service.begin_upload("a", T(1), "x.params") as upload:
        upload.write(b"x")
        monkeypatch.setattr(checkpoint_files, "_digest_all", make_anew)
        with pytest.raises(NotFound, match="deleted meanwhile"):
            service.add_files("a", T(1), {"x.params": upload}, of=record)
    assert not service.list_checkpoints("a").items


def test_only_the_module_that_is_meant_is_deleted(bench) -> None:
    record = bench.modules.get("a")
    bench.modules.delete("a")
    bench.modules.create(record.evolve(id=0, version=1))
    with pytest.raises(NotFound, match="deleted meanwhile"):
        bench.modules.delete("a", record.id)
    assert bench.modules.get("a").id != record.id
