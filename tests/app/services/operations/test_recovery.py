"""After a crash at any step, and with another database or none, files on disk are found again."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.domain.checkpoint import CheckpointTag
from app.domain.dataset import DatasetKind
from app.domain.module import (
    SINGLE,
    BindSpec,
    InitSpec,
    InputDesc,
    ModuleRecord,
    ParamsSource,
)
from app.errors.tree import NotFound, StorageFull
from app.files.checkpoint_files import (
    MANIFEST,
    admit_attempt,
    list_tags,
    remove_checkpoint,
    write_checkpoint,
)
from app.files.durable_files import is_locked
from app.services.operations.recovery_report import Outcome
from served.deaths import dying_at, full_at

T = CheckpointTag
BIND = BindSpec(data_shapes=(InputDesc(name="data", shape=(2, 3)),))
MOST_STEPS = 60


def write(bench: Any, module: str, tag: CheckpointTag, **who: int) -> Path:
    root = bench.checkpoints.root(module)
    if who:
        admit_attempt(root, who["job_id"], who["attempt"])
    with write_checkpoint(root, tag, module=module, **who) as writer:
        (writer.directory / f"{module}-{tag.epoch:04}.params").write_bytes(b"w")
    return root / str(tag)


def outcomes(bench: Any, *, rebuild: bool = False) -> dict[str, Outcome]:
    report = bench.recovery.run(rebuild=rebuild)
    return {f"{one.kind} {one.name}": one.outcome for one in report.findings}


def is_consistent(bench: Any) -> bool:
    """Return whether disk and database agree and nothing unfinished is left."""
    modules = {one.name: one for one in bench.modules.list_modules().items}
    datasets = {one.name: one for one in bench.datasets.list_datasets().items}
    for name, row in modules.items():
        file = bench.modules.directories.read(name)
        assert file.evolve(version=1, generation=1, updated_at=0, id=0) == row.evolve(
            version=1, generation=1, updated_at=0, id=0
        )
    assert sorted(modules) == bench.modules.directories.names()
    files = {f"{name}.json" for name in datasets} | {one.file_name for one in datasets.values()}
    assert {path.name for path in (bench.data_dir / "datasets").iterdir()} == files
    return not [path for path in (bench.data_dir / "modules").rglob(".*-*")]


def new(name: str = "new") -> ModuleRecord:
    return ModuleRecord(name=name, symbols={SINGLE: "{}"})


CHANGES: dict[str, Callable[[Any], object]] = {
    "create": lambda bench: bench.modules.create(new(), "key"),
    "change": lambda bench: bench.modules.change("a", lambda a: a.evolve(bind=BIND)),
    "delete": lambda bench: bench.modules.delete("a"),
    "upload": lambda bench: bench.upload("more", b"1,2\n", DatasetKind.CSV),
    "replace": lambda bench: bench.upload("digits", b"1,2\n", DatasetKind.CSV),
    "remove": lambda bench: bench.datasets.delete("digits"),
}


def state(bench: Any) -> object:
    """Return what clients can see, except version numbers."""
    modules = [(one.name, one.bind) for one in bench.modules.list_modules().items]
    datasets = [(one.name, one.sha256) for one in bench.datasets.list_datasets().items]
    return modules, datasets


@pytest.fixture
def make_world(make_fresh: Any) -> Callable[[], Any]:
    """Return a function that makes a server with modules ``a``, ``b`` and dataset ``digits``."""

    def make() -> Any:
        bench = make_fresh()
        for name in ("a", "b"):
            bench.modules.create(new(name))
        bench.upload("digits", b"1,2\n3,4\n", DatasetKind.CSV)
        return bench

    return make


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_interrupted_at_any_step_is_made_completely_or_not_at_all(
    make_world: Callable[[], Any], make_fresh: Any, change: str
) -> None:
    make_change = CHANGES[change]
    for step in range(MOST_STEPS):
        bench = make_world()
        before = state(bench)
        with dying_at(step, bench.store) as victim:
            make_change(bench)
        if victim.steps <= step:
            assert step > 5, "there were steps to die at"
            assert state(bench) != before
            return
        bench = make_fresh(again=bench)
        bench.recovery.run(rebuild=False)
        assert is_consistent(bench), step
        # To create a module a second time does nothing, thanks to its idempotency key.
        if state(bench) == before or change == "create":
            make_change(bench)
        bench.recovery.run(rebuild=False)
        assert is_consistent(bench), step
        assert state(bench) != before
    raise AssertionError(f"it has more than {MOST_STEPS} steps")


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_interrupted_at_any_step_is_complete_in_another_database(
    make_world: Callable[[], Any], make_fresh: Any, change: str
) -> None:
    for step in range(MOST_STEPS):
        bench = make_world()
        before = state(bench)
        with dying_at(step, bench.store) as victim:
            CHANGES[change](bench)
        other = make_fresh(bench.data_dir)
        bench.liveness.leave()
        other.recovery.run(rebuild=True)
        assert is_consistent(other), step
        if victim.steps <= step:
            assert state(other) == state(bench) != before
            return
    raise AssertionError(f"it has more than {MOST_STEPS} steps")


@pytest.mark.parametrize("change", [*CHANGES, "save", "add_files"])
def test_a_full_disk_leaves_everything_unchanged(
    make_world: Callable[[], Any], make_fresh: Any, change: str
) -> None:
    for step in range(MOST_STEPS):
        bench = make_world()
        write(bench, "b", T(1))
        before = state(bench)
        try:
            with full_at(step, bench.store) as victim:
                (CHANGES | MORE)[change](bench)
        except StorageFull:
            assert victim.steps > step
        else:
            assert victim.steps <= step or change in {"delete", "remove"}
            assert step > 1, "there were steps that need space"
            assert change in MORE or state(bench) != before
            return
        assert state(bench) == before, step
        bench.recovery.run(rebuild=False)
        assert is_consistent(bench), step
        assert state(bench) == before, step
    raise AssertionError(f"it has more than {MOST_STEPS} steps")


def add_files(bench: Any) -> None:
    with bench.checkpoints.begin_upload("a", T(4), "a-0004.params") as upload:
        upload.write(b"w")
        bench.checkpoints.add_files("a", T(4), {"a-0004.params": upload})


MORE: dict[str, Callable[[Any], object]] = {
    "save": lambda bench: bench.checkpoints.saved("b", T(1)),
    "add_files": add_files,
}


@pytest.mark.parametrize("change", [*CHANGES, *MORE])
def test_no_file_is_written_while_the_database_is_locked(
    make_world: Callable[[], Any], monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    bench = make_world()
    write(bench, "b", T(1))
    steps = []

    def watched(function: Any) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            steps.append(function.__name__)
            assert bench.store._group._writer is None, function.__name__
            return function(*arguments, **options)

        return call

    for name in ("rename", "replace", "link", "unlink", "mkdir", "rmdir", "fsync"):
        monkeypatch.setattr(os, name, watched(getattr(os, name)))
    (CHANGES | MORE)[change](bench)
    bench.recovery.run(rebuild=False)
    assert len(steps) > 2


def test_an_empty_database_imports_what_is_on_disk(
    make_world: Callable[[], Any], make_fresh: Any
) -> None:
    bench = make_world()
    write(bench, "a", T(2), job_id=7, attempt=1)
    bench.modules.change("a", lambda a: a.evolve(bind=BIND, init=InitSpec()))
    bench.checkpoints.saved("a", T(2))
    bench.modules.create(new("keyed"), "key")
    bench.liveness.leave()
    other = make_fresh(bench.data_dir)
    assert set(outcomes(other).values()) == {Outcome.IMPORTED}
    assert state(other) == state(bench)
    module = other.modules.get("a")
    assert (module.params, module.checkpoint) == (ParamsSource.CHECKPOINT, T(2))
    assert module.generation > bench.modules.get("a").generation, "a generation not used before"
    assert [one.tag for one in other.checkpoints.list_checkpoints("a").items] == [T(2)]
    assert other.modules.create(new("keyed"), "key").name == "keyed", "the request is recognized"
    assert other.fit("a", dataset="digits").id > 7, "ids of jobs that files name are not reused"
    assert outcomes(other) == {}


def test_files_of_unknown_origin_are_left_alone(bench: Any) -> None:
    strangers = [
        bench.data_dir / "modules" / "stranger" / "checkpoints" / "1" / "x.params",
        bench.data_dir / "modules" / ".hidden" / "x",
        bench.data_dir / "datasets" / "orphan-0123.csv",
        bench.checkpoints.root("a") / ".incoming-mine" / "x",
        bench.checkpoints.root("a") / "notes.txt",
    ]
    for path in strangers:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"1\n")
    found = outcomes(bench)
    assert found == {"module stranger": Outcome.LEFT, "dataset orphan-0123.csv": Outcome.LEFT}
    assert all(path.exists() for path in strangers)
    assert [one.name for one in bench.modules.list_modules().items] == ["a", "b"]


def test_leftovers_of_a_dead_server_are_removed_and_work_of_a_living_one_is_not(bench: Any) -> None:
    datasets = bench.data_dir / "datasets"
    root = bench.checkpoints.root("a")
    write(bench, "a", T(1))
    dead = [
        datasets / ".upload-x-0123456789ab",
        datasets / ".output-99-1",
        root / ".upload-x-0123456789ab",
        bench.data_dir / "modules" / "a" / ".part-module.json-0123456789ab",
    ]
    for path in dead:
        path.write_bytes(b"half")
    (bench.data_dir / "modules" / ".trash-c-0123456789ab").mkdir()
    job = bench.fit("b")
    bench.claim()
    output = bench.datasets.output_path(job.id, 1)
    output.write_bytes(b"in the making")
    with bench.datasets.begin("living") as upload:
        upload.write(b"1,2\n")
        assert outcomes(bench) == {}
        assert not any(path.exists() for path in dead)
        assert upload.path.exists()
        assert output.exists()
    assert bench.modules.directories.hidden() == []


def test_database_and_disk_agree_afterwards(bench: Any) -> None:
    for tag in (T(1), T(2)):
        write(bench, "a", tag)
        bench.checkpoints.saved("a", tag)
    write(bench, "a", T(3))
    bench.checkpoints.directory("a", T(1)).rename(bench.data_dir / "elsewhere")
    bench.recovery.run(rebuild=False)
    assert [one.tag for one in bench.checkpoints.list_checkpoints("a").items] == [T(3), T(2)]
    assert bench.modules.get("a").checkpoint == T(2), "an upload is not loaded"


def test_an_unreported_checkpoint_of_a_dead_fit_belongs_to_its_module(bench: Any) -> None:
    write(bench, "a", T(1), job_id=1, attempt=1)
    bench.checkpoints.saved("a", T(1))
    write(bench, "a", T(2), job_id=1, attempt=1)
    assert outcomes(bench) == {"checkpoint a/2": Outcome.ADOPTED}
    assert bench.modules.get("a").checkpoint == T(2)


def test_a_chosen_checkpoint_stays_chosen(bench: Any, make_fresh: Any) -> None:
    for tag in (T(1), T(2)):
        write(bench, "a", tag, job_id=1, attempt=1)
        bench.checkpoints.saved("a", tag)
    bench.clock.now = 10.0**10  # after the checkpoints were written
    bench.modules.change("a", lambda a: a.evolve(checkpoint=T(1)))
    assert outcomes(bench) == {}
    other = make_fresh(bench.data_dir)
    other.recovery.run(rebuild=False)
    assert bench.modules.get("a").checkpoint == other.modules.get("a").checkpoint == T(1)


def test_a_directory_of_an_older_release_gets_its_records(bench: Any) -> None:
    for path in (bench.data_dir / "modules").glob("*/module.json"):
        path.unlink()
    (bench.data_dir / "datasets" / "digits.json").unlink()
    assert set(outcomes(bench).values()) == {Outcome.WRITTEN}
    assert is_consistent(bench)


def test_a_directory_of_an_older_release_is_rebuilt_as_far_as_possible_without_its_database(
    bench: Any, make_fresh: Any
) -> None:
    symbol = (
        '{"nodes": [{"op": "null", "name": "data"}, {"op": "null", "name": "w"}, '
        '{"op": "FullyConnected", "name": "fc"}, {"op": "null", "name": "softmax_label"}]}'
    )
    with write_checkpoint(bench.checkpoints.root("a"), T(3), module="a") as writer:
        (writer.directory / "a-symbol.json").write_text(symbol)
        name = b"\x05\0\0\0\0\0\0\0arg:w"
        (writer.directory / "a-0003.params").write_bytes(b"head" + name)
    for path in (bench.data_dir / "modules").glob("*/module.json"):
        path.unlink()
    (bench.data_dir / "datasets" / "digits.json").unlink()
    other = make_fresh(bench.data_dir)
    assert outcomes(other) == {
        "module a": Outcome.LEFT,
        "module b": Outcome.LEFT,
        f"dataset {bench.datasets.get('digits').file_name}": Outcome.LEFT,
    }
    assert outcomes(other, rebuild=True) == {
        "module a": Outcome.REBUILT,
        "module b": Outcome.LEFT,
        "dataset digits": Outcome.IMPORTED,
    }
    rebuilt = other.modules.get("a")
    assert (rebuilt.params, rebuilt.checkpoint) == (ParamsSource.CHECKPOINT, T(3))
    assert (rebuilt.data_names, rebuilt.label_names) == (("data",), ("softmax_label",))
    assert rebuilt.bind is None
    assert other.datasets.get("digits").arrays == bench.datasets.get("digits").arrays


@pytest.mark.parametrize("damage", [b"", b"{}", b'{"format": 1}', b"\xff\xfe", None])
def test_a_damaged_record_is_set_aside_and_the_rest_works(
    bench: Any, make_fresh: Any, damage: bytes | None
) -> None:
    module = bench.data_dir / "modules" / "a" / "module.json"
    dataset = bench.data_dir / "datasets" / "digits.json"
    for path in (module, dataset):
        content = path.read_bytes()
        flipped = content.replace(b'"created_at": ', b'"created_at": 3')
        assert flipped != content
        path.write_bytes(flipped if damage is None else damage)
    other = make_fresh(bench.data_dir)
    expected = {"module a": Outcome.LEFT, "module b": Outcome.IMPORTED}
    assert outcomes(other) == {**expected, "dataset digits": Outcome.LEFT}
    found = outcomes(bench)
    assert found == {"module a": Outcome.DAMAGED, "dataset digits": Outcome.DAMAGED}
    assert is_readable(bench)
    assert module.with_name("module.json.damaged-1").exists()
    assert dataset.with_name("digits.json.damaged-1").exists()


def is_readable(bench: Any) -> bool:
    return (
        bench.modules.directories.read("a").name == "a"
        and bench.datasets.get("digits").name == "digits"
    )


def test_damage_is_reported_and_affects_nothing_else(bench: Any) -> None:
    for tag in (T(1), T(2)):
        write(bench, "a", tag)
        bench.checkpoints.saved("a", tag)
    (bench.checkpoints.directory("a", T(1)) / MANIFEST).write_bytes(b"{")
    bench.datasets.path(bench.datasets.get("digits")).write_bytes(b"")
    assert outcomes(bench) == {
        "checkpoint a/1": Outcome.DAMAGED,
        "dataset digits": Outcome.DAMAGED,
    }
    assert bench.checkpoints.directory("a", T(1)).exists()
    assert [one.tag for one in bench.checkpoints.list_checkpoints("a").items] == [T(2)]
    with pytest.raises(NotFound):
        bench.checkpoints.get("a", T(9))


def test_the_resume_point_of_an_unknown_job_becomes_a_checkpoint(
    bench: Any, make_fresh: Any
) -> None:
    job = bench.fit("a")
    claimed = bench.claim()
    write(bench, "a", T(1), job_id=job.id, attempt=1)
    bench.checkpoints.saved("a", T(1))
    bench.resume_points.keep(claimed, T(1))
    write(bench, "a", T(2))
    bench.checkpoints.saved("a", T(2))
    bench.checkpoints.delete("a", T(1))
    other = make_fresh(bench.data_dir)
    other.recovery.run(rebuild=False)
    assert [one.tag for one in other.checkpoints.list_checkpoints("a").items] == [T(2), T(1)]
    assert other.resume_points.roots("a") == []


def test_the_resume_point_of_a_finished_job_is_released(bench: Any) -> None:
    job = bench.fit("a")
    claimed = bench.claim()
    write(bench, "a", T(5), job_id=job.id, attempt=1)
    bench.resume_points.keep(claimed, T(5))
    bench.queue.release(job.id, 1, "x")
    bench.jobs.cancel(job.id)
    bench.recovery.run(rebuild=False)
    assert bench.resume_points.roots("a") == []


def test_a_look_at_what_a_server_is_changing_finds_nothing(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for tag in (T(1), T(2)):
        write(bench, "a", tag)
        bench.checkpoints.saved("a", tag)
    changes: list[Callable[[], object]] = [
        lambda: bench.modules.change("a", lambda a: a.evolve(bind=BIND)),
        lambda: bench.modules.create(new("made")),
    ]
    read = bench.modules.directories.read

    def read_late(name: str) -> ModuleRecord:
        while changes:  # after the rows were read
            changes.pop()()
        return read(name)

    monkeypatch.setattr(bench.modules.directories, "read", read_late)

    def list_early(root: Path) -> list[CheckpointTag]:
        found = list_tags(root)
        if T(1) in found:
            remove_checkpoint(root, T(1))
        return found

    monkeypatch.setattr("app.services.modules.checkpoint_recovery.list_tags", list_early)
    assert bench.recovery.look().findings == ()
    assert not changes


def test_a_look_at_datasets_waits_for_the_change_of_one(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = bench.recovery._datasets._directory
    names = directory.names
    locks = []

    def watched() -> list[str]:
        locks.append(is_locked(directory.root))
        return names()

    monkeypatch.setattr(directory, "names", watched)
    assert bench.recovery.look().findings == ()
    assert locks[0]


def test_a_look_reports_damage_and_changes_nothing(bench: Any) -> None:
    write(bench, "a", T(1))
    (bench.checkpoints.root("a") / "1" / MANIFEST).write_bytes(b"{")
    (bench.data_dir / "modules" / "b" / "module.json").unlink()
    (bench.data_dir / "datasets" / "digits.json").write_bytes(b"{")
    found = {f"{one.kind} {one.name}": one.outcome for one in bench.recovery.look().findings}
    assert found == {
        "checkpoint a/1": Outcome.DAMAGED,
        "module b": Outcome.LEFT,
        "dataset digits": Outcome.DAMAGED,
    }
    assert not (bench.data_dir / "modules" / "b" / "module.json").exists()
