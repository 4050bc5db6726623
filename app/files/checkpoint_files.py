"""Checkpoints on disk. Nothing here uses the database, because executors use it too.

    <root>/3/lenet-symbol.json        a root holds the checkpoints of one module
    <root>/3/lenet-0003.params
    <root>/3/lenet-0003.states
    <root>/3/state.json               random state, iterator position, metric sums
    <root>/3/manifest.json            written last: sizes and SHA-256 of the others
    <root>/3.120/...                  taken after 120 batches of the next epoch

A checkpoint is written under a hidden name, synced, and renamed; ``recover`` finishes or removes
what a crash left unfinished. Creating and renaming take an exclusive lock on the root and reading
takes a shared one, so a reader sees either the old checkpoint or the new one. A hidden directory is
locked as well while it is being filled. A job's attempt puts its checkpoint in place only while
``attempt_fence`` admits it.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from app.domain.checkpoint import (
    MANIFEST_FORMAT,
    BestPolicy,
    CheckpointManifest,
    CheckpointTag,
    FileDigest,
)
from app.domain.codec import from_plain, to_plain
from app.domain.names import check_name_of_file
from app.errors.tree import Conflict, Damaged, Invalid, NotFound
from app.files.attempt_fence import Admitted, admit, check_admitted, read_fence, shut_out
from app.files.durable_files import (
    Hidden,
    digest_file,
    discard,
    hidden_sibling,
    is_locked,
    list_hidden,
    locked,
    make_directory,
    remove_unlocked,
    rename_durably,
    sync_directory,
    sync_file,
)

__all__ = [
    "MANIFEST",
    "CheckpointWriter",
    "admit_attempt",
    "copy_checkpoint",
    "has_manifest",
    "link_files",
    "list_tags",
    "open_checkpoint_file",
    "read_manifest",
    "readable_manifests",
    "recover",
    "remove_checkpoint",
    "shut_out_attempt",
    "verified",
    "verify_checkpoint",
    "versions_root",
    "write_checkpoint",
]

MANIFEST = "manifest.json"

_LARGEST_MANIFEST = 1 << 20
_LONGEST_WAIT_SECONDS = 1.0


@dataclass(slots=True)
class CheckpointWriter:
    """A checkpoint that is being written.

    Attributes:
        directory: put the files here, under their final names.
        expected: digests of files copied from another checkpoint, so that damage is noticed instead
            of recorded in the new manifest as correct.
        metrics, keep_best: recorded in the manifest; may be set until the block ends.
    """

    directory: Path
    expected: Mapping[str, FileDigest] = field(default_factory=dict)
    metrics: Mapping[str, Any] = field(default_factory=dict)
    keep_best: BestPolicy | None = None


@contextmanager
def write_checkpoint(
    root: Path,
    tag: CheckpointTag,
    *,
    module: str,
    prefix: str | None = None,
    job_id: int | None = None,
    attempt: int | None = None,
    replacing: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Iterator[CheckpointWriter]:
    """Write a checkpoint; it appears complete when the block ends, or not at all if that raises.

    It replaces a checkpoint of the same tag.

    Args:
        root: directory of the module's checkpoints; created if its parent exists.
        tag: position in the training.
        module: name of the module.
        prefix: of the file names, as in MXNet; None uses the module's name.
        job_id, attempt: the job that writes it, if one does.
        replacing: what is entered while the checkpoint is put in place, unless it raises.

    Raises:
        Superseded: the attempt may no longer write; nothing was put in place.
        Conflict: the job would replace another's version that is in use.
        Damaged: a file differs from what the writer expects.
    """

    def check() -> None:
        if job_id is not None:
            check_admitted(root, job_id, attempt)
            _check_unused(root, tag, job_id)

    with _incoming(root, str(tag), check, replacing) as directory:
        writer = CheckpointWriter(directory)
        yield writer
        files = _digest_all(directory)
        for name, expected in writer.expected.items():
            _check_digest(tag, name, files.get(name), expected)
        manifest = CheckpointManifest(
            module=module,
            epoch=tag.epoch,
            batch=tag.batch,
            prefix=prefix or module,
            files=files,
            created_at=time.time(),
            job_id=job_id,
            attempt=attempt,
            metrics=writer.metrics,
            keep_best=writer.keep_best,
        )
        _write_manifest(directory, manifest)


def copy_checkpoint(source: Path, root: Path) -> None:
    """Put a checkpoint under another root too, by hard links: no bytes are copied."""
    with (
        _incoming(root, source.name, lambda: None) as directory,
        locked(source.parent, shared=True),
    ):
        # The manifest last, as when it was written: with it, ``recover`` takes a copy for complete.
        for file in sorted(source.iterdir(), key=lambda path: path.name == MANIFEST):
            os.link(file, directory / file.name)
        sync_directory(directory)


def versions_root(root: Path) -> Path:
    """Return the directory of the files that are kept for a module's versions in use."""
    return root.parent / "versions"


def list_tags(root: Path) -> list[CheckpointTag]:
    """Return the sorted tags of the checkpoints under a root, including damaged ones."""
    try:
        with os.scandir(root) as entries:
            names = [one.name for one in entries if one.name[0] != "." and one.is_dir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    tags = []
    for name in names:
        try:
            tags.append(CheckpointTag.parse(name))
        except Invalid:
            continue  # not ours
    return sorted(tags)


def read_manifest(directory: Path) -> CheckpointManifest:
    """Read a checkpoint's manifest without looking at its files.

    Raises:
        NotFound: there is no such checkpoint.
        Damaged: the manifest is missing (half-written) or cannot be read.
    """
    with _shared(directory):
        return _read_manifest(directory)


def readable_manifests(root: Path, warn: Callable[[str], None]) -> Iterator[CheckpointManifest]:
    """Yield the readable manifests under a root; report each damaged one to ``warn``."""
    for tag in list_tags(root):
        try:
            yield read_manifest(root / str(tag))
        except (Damaged, NotFound) as error:
            warn(f"skipped: {root.name}/{tag}: {error}")


def verify_checkpoint(directory: Path) -> CheckpointManifest:
    """Read a checkpoint's manifest and compare every file with it, byte for byte.

    Raises:
        NotFound: there is no such checkpoint.
        Damaged: half-written, truncated, altered, or a file is missing; names the file.
    """
    with verified(directory) as manifest:
        return manifest


@contextmanager
def verified(directory: Path) -> Iterator[CheckpointManifest]:
    """Verify a checkpoint, and keep it from being replaced or removed until the block ends."""
    with _shared(directory):
        manifest = _read_manifest(directory)
        for name, expected in manifest.files.items():
            _verify_file(directory, name, expected)
        yield manifest


@contextmanager
def _shared(directory: Path) -> Iterator[None]:
    try:
        with locked(directory.parent, shared=True):
            yield
    except FileNotFoundError:
        raise _not_found(directory.name) from None


def _not_found(tag: object) -> NotFound:
    return NotFound("checkpoint", tag, "GET the module's checkpoints lists those")


def _read_manifest(directory: Path) -> CheckpointManifest:
    if not directory.is_dir():
        raise _not_found(directory.name)
    manifest = _manifest_in(directory)
    if manifest.format != MANIFEST_FORMAT or str(manifest.tag) != directory.name:
        raise Damaged(
            f"checkpoint {directory.name}: {MANIFEST}",
            f"format {manifest.format} of checkpoint {manifest.tag}",
            f"format {MANIFEST_FORMAT} of checkpoint {directory.name}",
            _REMEDY,
        )
    return manifest


def _manifest_in(directory: Path) -> CheckpointManifest:
    """Read the manifest in a directory, which may still have its hidden name."""
    path = directory / MANIFEST
    where = f"checkpoint {directory.name}: {MANIFEST}"
    try:
        if path.stat().st_size > _LARGEST_MANIFEST:
            raise Damaged(where, "an oversized file", f"at most {_LARGEST_MANIFEST} bytes")
        manifest = from_plain(CheckpointManifest, json.loads(path.read_bytes()), where)
        for name in manifest.files:
            check_name_of_file(name, where)
    except FileNotFoundError:
        raise Damaged(
            where, "no such file", "a manifest; the checkpoint is half-written", _REMEDY
        ) from None
    except (OSError, ValueError, RecursionError, Invalid) as error:
        raise Damaged(where, error, "a manifest as it was written", _REMEDY) from None
    return manifest


def open_checkpoint_file(directory: Path, name: str) -> BinaryIO:
    """Open a file of a checkpoint; it stays readable if the checkpoint is replaced or removed.

    Raises:
        NotFound: there is no such checkpoint, or it has no such file.
        Damaged: the checkpoint is damaged, or the file's length has changed.
    """
    with _shared(directory):
        manifest = _read_manifest(directory)
        digest = manifest.files.get(check_name_of_file(name))
        if digest is None and name != MANIFEST:
            hint = f"the checkpoint has {', '.join(sorted(manifest.files))}"
            raise NotFound("file", name, hint)
        if digest is not None:
            _check_size(directory, name, digest)
        return (directory / name).open("rb")


def link_files(source: Path, names: Iterable[str], target: Path) -> None:
    """Put files of a checkpoint into another directory by hard links; raise NotFound."""
    with _shared(source):
        for name in names:
            try:
                os.link(source / name, target / name)
            except FileNotFoundError:
                raise _not_found(source.name) from None


def remove_checkpoint(root: Path, tag: CheckpointTag) -> None:
    """Remove a checkpoint, in whatever state it is; raise NotFound."""
    directory = root / str(tag)
    if not directory.is_dir():
        raise _not_found(tag)
    with locked(root):
        discard(directory)


def admit_attempt(root: Path, job_id: int, attempt: int) -> None:
    """Allow an attempt of a job, and no earlier one, to write checkpoints.

    A complete checkpoint that an earlier attempt left under a hidden name is put in place first.
    """
    make_directory(root)
    recover(root)
    with locked(root):
        admit(root, job_id, attempt)


def shut_out_attempt(root: Path, job_id: int, attempt: int) -> None:
    """Forbid an attempt to write from now on; what it has written stays.

    Raises:
        Unavailable: its process was stopped in the middle of a write.
    """
    if root.is_dir():
        # First with a limit: below, a process stopped while it holds the lock would be waited for
        # forever.
        with locked(root, seconds=_LONGEST_WAIT_SECONDS):
            pass
        recover(root)
        with locked(root):
            shut_out(root, job_id, attempt)


def recover(root: Path) -> None:
    """Finish or remove what a crash left behind under a root.

    This may run at any time: what a living process is writing is left alone, and so are files that
    this module did not name.
    """
    if not root.is_dir():
        return
    with locked(root):
        # Sorted by name, so that a complete new checkpoint ("incoming") takes its place before the
        # old one ("replaced") would take it back.
        for hidden in list_hidden(root):
            if hidden.purpose == "incoming" and not is_locked(hidden.path):
                _put_or_discard(hidden, is_complete=_is_complete(root, hidden.path))
            elif hidden.purpose == "replaced":
                _put_or_discard(hidden, is_complete=True)
            elif hidden.purpose in ("trash", "part"):
                discard(hidden.path)
            elif hidden.purpose == "upload":
                remove_unlocked(hidden.path)


_REMEDY = "upload the same files again"


@contextmanager
def _incoming(
    root: Path,
    name: str,
    check: Callable[[], None],
    replacing: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Iterator[Path]:
    """Yield a hidden directory that is renamed at the end, within ``replacing``, unless that or
    ``check`` raises then."""
    make_directory(root)  # no parents: the module may have been deleted
    target = root / name
    directory = hidden_sibling(target, "incoming")
    with ExitStack() as stack:
        with locked(root):
            check()
            directory.mkdir()
            stack.enter_context(locked(directory))
        try:
            yield directory
            with replacing(), locked(root):
                check()
                _put_in_place(directory, target)
        except BaseException:
            _discard_incoming(root, directory)
            raise


def _check_unused(root: Path, tag: CheckpointTag, job_id: int) -> None:
    """Raise Conflict if another's checkpoint of this tag is kept as a version in use."""
    try:
        kept = _manifest_in(versions_root(root) / str(tag))
    except Damaged:
        return
    if kept.job_id != job_id:
        raise Conflict(
            f"version {tag} of module {kept.module!r} is in use, and this fit would replace it; "
            "leave out begin_epoch, and a fit goes on counting"
        )


def _discard_incoming(root: Path, directory: Path) -> None:
    try:
        with locked(root):
            discard(directory)
    except FileNotFoundError:
        pass  # deleted with its module meanwhile


def _is_complete(root: Path, directory: Path) -> bool:
    """Return whether a hidden directory is complete and may be renamed."""
    try:
        manifest = _manifest_in(directory)
        admitted = read_fence(root)
    except (Damaged, NotFound):
        return False
    is_free = manifest.job_id is None or admitted is None
    return is_free or admitted == Admitted(manifest.job_id, manifest.attempt)


def has_manifest(directory: Path, manifest: CheckpointManifest) -> bool:
    """Return whether a checkpoint is the one with this manifest; the caller holds the root's
    lock."""
    try:
        return _manifest_in(directory) == manifest
    except (Damaged, NotFound):
        return False


def _digest_all(directory: Path) -> dict[str, FileDigest]:
    digests = {}
    for path in sorted(directory.iterdir()):
        digests[check_name_of_file(path.name)] = digest_file(path)
        sync_file(path)
    return digests


def _write_manifest(directory: Path, manifest: CheckpointManifest) -> None:
    part = directory / f".{MANIFEST}"
    part.write_text(json.dumps(to_plain(manifest), indent=1) + "\n", encoding="utf-8")
    sync_file(part)
    rename_durably(part, directory / MANIFEST)


def _put_in_place(directory: Path, target: Path) -> None:
    if not target.exists():
        rename_durably(directory, target)
        return
    # A directory cannot be renamed over one that is not empty. Between the two renames readers wait
    # for the lock, and after a death ``recover`` ends this.
    replaced = hidden_sibling(target, "replaced")
    os.rename(target, replaced)
    try:
        os.rename(directory, target)
    except BaseException:
        os.rename(replaced, target)
        raise
    sync_directory(target.parent)
    discard(replaced)


def _check_size(directory: Path, name: str, expected: FileDigest) -> None:
    where = f"checkpoint {directory.name}: {name}"
    try:
        size = (directory / name).stat().st_size
    except FileNotFoundError:
        raise Damaged(where, "no such file", f"{expected.size:,} bytes", _REMEDY) from None
    if size != expected.size:
        raise Damaged(where, f"{size:,} bytes", f"{expected.size:,} bytes", _REMEDY)


def _verify_file(directory: Path, name: str, expected: FileDigest) -> None:
    _check_size(directory, name, expected)
    _check_digest(directory.name, name, digest_file(directory / name), expected)


def _check_digest(tag: object, name: str, got: FileDigest | None, expected: FileDigest) -> None:
    if got != expected:
        found = "no such file" if got is None else f"SHA-256 {got.sha256}"
        where = f"checkpoint {tag}: {name}"
        raise Damaged(where, found, f"SHA-256 {expected.sha256}", _REMEDY)


def _put_or_discard(hidden: Hidden, is_complete: bool) -> None:
    target = hidden.path.parent / hidden.target
    if is_complete and not target.exists():
        rename_durably(hidden.path, target)
    else:
        discard(hidden.path)
