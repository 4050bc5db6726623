"""Changes of checkpoints that hold only while they are still what the caller has seen."""

from __future__ import annotations

import os
from pathlib import Path

from app.domain.checkpoint import CheckpointManifest
from app.errors.tree import Damaged, NotFound
from app.files.checkpoint_files import has_manifest, list_tags, read_manifest, recover
from app.files.durable_files import discard, locked, make_directory, sync_directory

__all__ = ["promote_checkpoints", "remove_unless_replaced"]


def remove_unless_replaced(root: Path, seen: CheckpointManifest) -> bool:
    """Remove a checkpoint if it is still the one that was seen; return whether it was.

    A writer may put another one in its place at any time, under the lock that is held here.
    """
    directory = root / str(seen.tag)
    with locked(root):
        if not has_manifest(directory, seen):
            return False
        discard(directory)
    return True


def promote_checkpoints(source: Path, root: Path) -> list[CheckpointManifest]:
    """Move checkpoints to a module's root, except for tags that exist there; return those tags.

    Of the exceptions, a checkpoint with the same files is removed, and one that differs stays where
    it is.
    """
    promoted = []
    make_directory(root)
    for tag in list_tags(source):
        try:
            manifest = read_manifest(source / str(tag))
        except (Damaged, NotFound):
            continue
        with locked(root):
            target = root / str(tag)
            if not target.exists():
                os.rename(source / str(tag), target)
                sync_directory(root)
                promoted.append(manifest)
            elif has_manifest(target, manifest):
                discard(source / str(tag))
    recover(source)
    if not any(source.iterdir()):
        source.rmdir()
    return promoted
