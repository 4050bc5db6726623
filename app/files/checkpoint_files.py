"""Checkpoints on the disk; all of it without the store, for executors use it too.

    <root>/3/lenet-symbol.json        a root holds the checkpoints of one module
    <root>/3/lenet-0003.params
    <root>/3/lenet-0003.states
    <root>/3/state.json               random state, iterator position, metric sums
    <root>/3/manifest.json            written last: sizes and SHA-256 of the others
    <root>/3.120/...                  taken after 120 batches of the next epoch

A checkpoint is written under a hidden name, synced, and renamed; ``recover`` finishes or removes
what a death left between. Who creates or renames holds the root meanwhile, who reads shares it,
and so a reader finds the old one or the new one. Who fills a hidden directory holds that too.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from app.domain.checkpoint import (
    MANIFEST_FORMAT,
    CheckpointManifest,
    CheckpointTag,
    FileDigest,
)
from app.domain.codec import from_plain, to_plain
from app.domain.names import check_name
from app.errors import Damaged, Invalid, NotFound
from app.files.durable_files import (
    digest_file,
    discard,
    hidden_sibling,
    is_locked,
    locked,
    rename_durably,
    sync_directory,
    sync_file,
)

__all__ = [
    "MANIFEST",
    "CheckpointWriter",
    "copy_checkpoint",
    "link_files",
    "list_tags",
    "open_checkpoint_file",
    "read_manifest",
    "recover",
    "remove_checkpoint",
    "verify_checkpoint",
    "write_checkpoint",
]

MANIFEST = "manifest.json"

_LARGEST_MANIFEST = 1 << 20


@dataclass(slots=True)
class CheckpointWriter:
    """A checkpoint being written.

    Attributes:
        directory: put the files here, under the names they are to have.
        metrics: goes into the manifest; may be set until the end.
    """

    directory: Path
    metrics: Mapping[str, Any] = field(default_factory=dict)


@contextmanager
def write_checkpoint(
    root: Path,
    tag: CheckpointTag,
    *,
    module: str,
    prefix: str | None = None,
    job_id: int | None = None,
    attempt: int | None = None,
) -> Iterator[CheckpointWriter]:
    """Write a checkpoint; it appears whole when the block ends, and not at all if that raises.

    One of the same tag is replaced.

    Args:
        root: directory of the module's checkpoints; made if need be.
        tag: its place in the training.
        module: name of the module.
        prefix: of the file names in MXNet's manner; None takes the module's name.
        job_id, attempt: who writes it, if a job does.
    """
    with _incoming(root, str(tag)) as directory:
        writer = CheckpointWriter(directory)
        yield writer
        manifest = CheckpointManifest(
            module=module,
            epoch=tag.epoch,
            batch=tag.batch,
            prefix=prefix or module,
            files=_digest_all(directory),
            created_at=time.time(),
            job_id=job_id,
            attempt=attempt,
            metrics=writer.metrics,
        )
        _write_manifest(directory, manifest)


def copy_checkpoint(source: Path, root: Path) -> None:
    """Put a checkpoint under another root as well, by hard links: no byte is copied."""
    with _incoming(root, source.name) as directory, locked(source.parent, shared=True):
        for file in sorted(source.iterdir(), key=lambda path: path.name == MANIFEST):
            os.link(file, directory / file.name)
        sync_directory(directory)


def list_tags(root: Path) -> list[CheckpointTag]:
    """Return the tags of the checkpoints under a root, damaged ones included, in order."""
    if not root.is_dir():
        return []
    tags = []
    for path in root.iterdir():
        if path.name.startswith(".") or not path.is_dir():
            continue
        try:
            tags.append(CheckpointTag.parse(path.name))
        except Invalid:
            continue  # not ours
    return sorted(tags)


def read_manifest(directory: Path) -> CheckpointManifest:
    """Read what a checkpoint says of itself; the files are not looked at.

    Raises:
        NotFound: there is no such checkpoint.
        Damaged: there is no manifest (half-written), or it cannot be read.
    """
    with _shared(directory):
        return _read_manifest(directory)


def verify_checkpoint(directory: Path) -> CheckpointManifest:
    """Read a checkpoint's manifest and compare every file with it, byte for byte.

    Raises:
        NotFound: there is no such checkpoint.
        Damaged: half-written, truncated, altered, or a file is missing; names the file.
    """
    with _shared(directory):
        manifest = _read_manifest(directory)
        for name, expected in manifest.files.items():
            _verify_file(directory, name, expected)
    return manifest


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
    path = directory / MANIFEST
    where = f"checkpoint {directory.name}: {MANIFEST}"
    try:
        if path.stat().st_size > _LARGEST_MANIFEST:
            raise Damaged(where, "an oversized file", f"at most {_LARGEST_MANIFEST} bytes")
        manifest = from_plain(CheckpointManifest, json.loads(path.read_bytes()), where)
    except FileNotFoundError:
        raise Damaged(
            where, "no such file", "a manifest; the checkpoint is half-written", _REMEDY
        ) from None
    except (ValueError, RecursionError, Invalid) as error:
        raise Damaged(where, error, "a manifest as it was written", _REMEDY) from None
    if manifest.format != MANIFEST_FORMAT or str(manifest.tag) != directory.name:
        raise Damaged(
            where,
            f"format {manifest.format} of checkpoint {manifest.tag}",
            f"format {MANIFEST_FORMAT} of checkpoint {directory.name}",
            _REMEDY,
        )
    for name in manifest.files:
        check_name(name, where)
    return manifest


def open_checkpoint_file(directory: Path, name: str) -> BinaryIO:
    """Open a file of a checkpoint; it stays readable when the checkpoint is replaced or removed.

    Raises:
        NotFound: there is no such checkpoint, or it has no such file.
        Damaged: the checkpoint is, or the file is not as long as it was written.
    """
    with _shared(directory):
        manifest = _read_manifest(directory)
        digest = manifest.files.get(check_name(name, "file"))
        if digest is None and name != MANIFEST:
            there = f"the checkpoint has {', '.join(sorted(manifest.files))}"
            raise NotFound("file", name, there)
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


def recover(root: Path) -> None:
    """Finish or remove what a death left behind under a root.

    What a living process is writing at the moment is left alone, so this may run at any time.
    """
    if not root.is_dir():
        return
    with locked(root):
        for path in sorted(root.glob(".incoming-*")):
            if not is_locked(path):
                _put_or_discard(path, is_complete=(path / MANIFEST).exists())
        for path in sorted(root.glob(".replaced-*")):
            _put_or_discard(path, is_complete=True)
        for path in root.glob(".trash-*"):
            discard(path)
        for path in root.glob(".upload-*"):
            if not is_locked(path):
                discard(path)


_REMEDY = "delete it and use another, or upload it again"


@contextmanager
def _incoming(root: Path, name: str) -> Iterator[Path]:
    root.mkdir(parents=True, exist_ok=True)
    target = root / name
    directory = hidden_sibling(target, "incoming")
    with ExitStack() as stack:
        with locked(root):
            directory.mkdir()
            stack.enter_context(locked(directory))
        try:
            yield directory
            with locked(root):
                _put_in_place(directory, target)
        except BaseException:
            with locked(root):
                discard(directory)
            raise


def _digest_all(directory: Path) -> dict[str, FileDigest]:
    digests = {}
    for path in sorted(directory.iterdir()):
        digests[check_name(path.name, "file")] = digest_file(path)
        sync_file(path)
    return digests


def _write_manifest(directory: Path, manifest: CheckpointManifest) -> None:
    part = directory / f".{MANIFEST}"
    part.write_text(json.dumps(to_plain(manifest), indent=1) + "\n", encoding="utf-8")
    sync_file(part)
    rename_durably(part, directory / MANIFEST)


def _put_in_place(directory: Path, target: Path) -> None:
    if target.exists():
        replaced = hidden_sibling(target, "replaced")
        os.rename(target, replaced)
        rename_durably(directory, target)
        discard(replaced)
    else:
        rename_durably(directory, target)


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
    got = digest_file(directory / name)
    if got != expected:
        where = f"checkpoint {directory.name}: {name}"
        raise Damaged(where, f"SHA-256 {got.sha256}", f"SHA-256 {expected.sha256}", _REMEDY)


def _put_or_discard(path: Path, is_complete: bool) -> None:
    target = _target_of(path)
    if is_complete and not target.exists():
        rename_durably(path, target)
    else:
        discard(path)


def _target_of(hidden: Path) -> Path:
    _, tag, _ = hidden.name.split("-", 2)
    return hidden.parent / tag
