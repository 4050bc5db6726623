"""Which checkpoints of a module are kept when their number is limited."""

from __future__ import annotations

from collections.abc import Sequence

from app.domain.checkpoint import CheckpointManifest, CheckpointTag, best_tags
from app.domain.module import ModuleRecord

__all__ = ["tags_to_keep"]


def tags_to_keep(
    record: ModuleRecord, newest_first: Sequence[CheckpointManifest], keep: int | None
) -> set[CheckpointTag]:
    """Return the tags of the checkpoints to keep.

    Of those within an epoch only one newer than all the others is kept. The one from which the
    module is restored is always kept, and so are its versions in use and the best of each job that
    keeps its best.

    Args:
        record: the module.
        newest_first: all of its checkpoints.
        keep: number of those between epochs; None for all.
    """
    kept = best_tags(newest_first)
    if record.checkpoint is not None:
        kept.add(record.checkpoint)
    kept.update(CheckpointTag(version) for version in record.versions.in_use())
    whole = [manifest.tag for manifest in newest_first if manifest.batch == 0]
    kept.update(whole[:keep])  # a slice up to None is all of them
    kept.update(manifest.tag for manifest in newest_first[:1])
    return kept
