"""Checkpoints on disk: written completely or not at all, and damage is detected."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import textwrap
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from app.domain.checkpoint import CheckpointManifest, CheckpointTag
from app.errors.tree import Damaged, Invalid, NotFound
from app.files.attempt_fence import FENCE
from app.files.checkpoint_files import (
    MANIFEST,
    admit_attempt,
    copy_checkpoint,
    list_tags,
    read_manifest,
    recover,
    remove_checkpoint,
    verified,
    verify_checkpoint,
    write_checkpoint,
)

TAG = CheckpointTag(3)
FILES = {"lenet-symbol.json": b"{}", "lenet-0003.params": bytes(range(256)) * 8}


def save(root: Path, tag: CheckpointTag = TAG, files: dict[str, bytes] = FILES, **who: int) -> Path:
    if who:
        admit_attempt(root, who["job_id"], who["attempt"])
    with write_checkpoint(root, tag, module="lenet", **who) as writer:
        writer.metrics = {"accuracy": 0.5}
        for name, content in files.items():
            (writer.directory / name).write_bytes(content)
    return root / str(tag)


def hidden(root: Path) -> list[str]:
    names = {path.name for path in root.iterdir() if path.name.startswith(".")}
    return sorted(names - {FENCE})


def test_a_written_checkpoint_is_complete_and_describes_itself(tmp_path: Path) -> None:
    directory = save(tmp_path / "root", job_id=7, attempt=2)
    manifest = verify_checkpoint(directory)
    assert manifest.tag == TAG
    assert (manifest.job_id, manifest.attempt) == (7, 2)
    assert manifest.metrics == {"accuracy": 0.5}
    assert manifest.size == sum(map(len, FILES.values()))
    assert set(manifest.files) == set(FILES)
    assert hidden(tmp_path / "root") == []


def test_a_checkpoint_being_read_is_neither_replaced_nor_removed(tmp_path: Path) -> None:
    root = tmp_path / "root"
    directory = save(root)
    with ThreadPoolExecutor(2) as pool:
        with verified(directory) as manifest:
            changes = [
                pool.submit(remove_checkpoint, root, TAG),
                pool.submit(save, root, files={"lenet-0003.params": b"other"}),
            ]
            # Both are blocked; were one not, 0.2 s would be ample for it.
            assert not wait(changes, timeout=0.2, return_when=FIRST_COMPLETED).done
            assert read_bytes(directory, manifest) == FILES
        for change in changes:
            change.result(timeout=60)


def read_bytes(directory: Path, manifest: CheckpointManifest) -> dict[str, bytes]:
    return {name: (directory / name).read_bytes() for name in manifest.files}


def test_a_failed_write_leaves_the_old_one(tmp_path: Path) -> None:
    directory = save(tmp_path)
    before = read_manifest(directory)
    with pytest.raises(OSError, match="not-there"):
        save(tmp_path, files={"half": b"x", "not-there/file": b""})
    assert read_manifest(directory) == before
    assert hidden(tmp_path) == []


def test_a_checkpoint_replaces_one_with_the_same_tag(tmp_path: Path) -> None:
    save(tmp_path)
    directory = save(tmp_path, files={"other.params": b"new"})
    assert set(verify_checkpoint(directory).files) == {"other.params"}
    assert hidden(tmp_path) == []


def test_file_names_are_checked(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="file"):
        save(tmp_path, files={".hidden": b""})
    assert list_tags(tmp_path) == []


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (lambda d: (d / MANIFEST).unlink(), "half-written"),
        (lambda d: (d / MANIFEST).write_text("{"), "manifest as it was written"),
        (lambda d: (d / MANIFEST).write_text("[" * 100_000), "manifest as it was written"),
        (lambda d: (d / MANIFEST).write_bytes(b" " * (2 << 20)), "oversized"),
        (lambda d: (d / "lenet-0003.params").unlink(), r"lenet-0003.params: got no such file"),
        (lambda d: (d / "lenet-0003.params").write_bytes(b"cut"), r"got 3 bytes, expected 2,048"),
        (
            lambda d: (d / "lenet-0003.params").write_bytes(bytes(2048)),
            r"lenet-0003.params: got SHA-256 \w+, expected SHA-256",
        ),
    ],
)
def test_damage_is_detected(tmp_path: Path, harm, message: str) -> None:
    directory = save(tmp_path)
    harm(directory)
    with pytest.raises(Damaged, match=message):
        verify_checkpoint(directory)


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("epoch", 4),
        ("format", 2),
        ("files", {"../../x": {"size": 0, "sha256": ""}}),
        ("epoch", "3"),
    ],
)
def test_an_inconsistent_manifest_is_refused(tmp_path: Path, member: str, value: object) -> None:
    directory = save(tmp_path)
    manifest = json.loads((directory / MANIFEST).read_text())
    (directory / MANIFEST).write_text(json.dumps(manifest | {member: value}))
    with pytest.raises(Invalid):
        read_manifest(directory)


def test_a_missing_checkpoint_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="'9' does not exist"):
        verify_checkpoint(tmp_path / "9")


def test_tags_are_listed_in_order_and_other_names_ignored(tmp_path: Path) -> None:
    for tag in (CheckpointTag(10), CheckpointTag(2, 120), CheckpointTag(2)):
        save(tmp_path, tag)
    (tmp_path / "notes").mkdir()
    (tmp_path / "007").mkdir()
    assert list_tags(tmp_path) == [(2, 0), (2, 120), (10, 0)]
    assert list_tags(tmp_path / "absent") == []


def test_a_copy_shares_the_data_and_outlives_the_original(tmp_path: Path) -> None:
    source = save(tmp_path / "a")
    copy_checkpoint(source, tmp_path / "b")
    copied = tmp_path / "b" / "3"
    assert (copied / "lenet-0003.params").samefile(source / "lenet-0003.params")
    save(tmp_path / "a", files={"x": b"replaced"})
    assert set(verify_checkpoint(copied).files) == set(FILES)


WRITER = """
    import os, sys, time
    from pathlib import Path
    from app.domain.checkpoint import CheckpointTag
    from app.files import checkpoint_files

    stop_at = sys.argv[2]

    def pause():
        print("here", flush=True)
        time.sleep(60)

    if stop_at == "between_renames":
        original = os.rename
        def rename(source, target):
            if ".incoming" in str(source) and str(target).endswith("/3"):
                pause()
            original(source, target)
        os.rename = rename
    with checkpoint_files.write_checkpoint(
        Path(sys.argv[1]), CheckpointTag(3), module="lenet"
    ) as writer:
        (writer.directory / "new.params").write_bytes(b"new")
        if stop_at == "writing":
            pause()
"""


def stopped_writer(root: Path, stop_at: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", textwrap.dedent(WRITER), str(root), stop_at]
    writer = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert writer.stdout is not None
    assert writer.stdout.readline() == b"here\n"
    return writer


def kill(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def test_a_kill_while_writing_leaves_the_old_one(tmp_path: Path) -> None:
    directory = save(tmp_path)
    kill(stopped_writer(tmp_path, "writing"))
    recover(tmp_path)
    assert set(verify_checkpoint(directory).files) == set(FILES)
    assert hidden(tmp_path) == []


def test_a_kill_between_the_two_renames_is_completed_by_recovery(tmp_path: Path) -> None:
    directory = save(tmp_path)
    kill(stopped_writer(tmp_path, "between_renames"))
    assert not directory.exists()
    recover(tmp_path)
    assert set(verify_checkpoint(directory).files) == {"new.params"}
    assert hidden(tmp_path) == []


def test_recovery_does_not_disturb_a_living_writer(tmp_path: Path) -> None:
    writer = stopped_writer(tmp_path, "writing")
    try:
        recover(tmp_path)
        assert len(hidden(tmp_path)) == 1
    finally:
        kill(writer)


def test_recovery_restores_a_replaced_checkpoint_if_its_successor_is_lost(tmp_path: Path) -> None:
    directory = save(tmp_path)
    os.rename(directory, tmp_path / ".replaced-3-0123456789ab")
    recover(tmp_path)
    assert set(verify_checkpoint(directory).files) == set(FILES)


def test_a_failed_replacement_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = save(tmp_path)
    before = read_manifest(directory)
    rename = os.rename

    def refuse_the_new_one(source: Path, target: Path) -> None:
        if target == directory and source.name.startswith(".incoming-"):
            raise OSError(errno.ENOSPC, "No space left on device")
        rename(source, target)

    monkeypatch.setattr(os, "rename", refuse_the_new_one)
    with pytest.raises(OSError, match="No space left"):
        save(tmp_path, files={"other.params": b"new"})
    assert read_manifest(directory) == before
    assert hidden(tmp_path) == []


def test_the_first_checkpoint_syncs_its_parent_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.readlink(f"/proc/self/fd/{fd}")))
    save(tmp_path / "checkpoints")
    assert str(tmp_path) in synced
