"""Keeps a version that is in use, or that a fit is about to write, from becoming another one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlalchemy import Connection

from app.domain.checkpoint import CheckpointTag, FileDigest
from app.domain.module import ModuleRecord
from app.errors.tree import InUse
from app.store.numbering import fit_that_writes

__all__ = ["require_additions", "require_free", "require_replaceable"]


def require_replaceable(record: ModuleRecord, versions: Iterable[int], advice: str) -> None:
    """Raise InUse if one of these versions is in use, or was promoted just before.

    Args:
        record: the module.
        versions: that would be replaced.
        advice: what to do instead.
    """
    kept = sorted(record.versions.kept().intersection(versions))
    if kept:
        parts = record.versions.parts(kept[0]) or ["the one to roll back to"]
        raise InUse(
            f"version {kept[0]} of module {record.name!r} is in use ({', '.join(parts)}) and would "
            f"become another one; {advice}"
        )


def require_additions(
    record: ModuleRecord,
    tag: CheckpointTag,
    present: Mapping[str, FileDigest],
    new: Mapping[str, FileDigest],
    *,
    is_whole: bool,
) -> None:
    """Raise InUse if an upload would change files of a checkpoint that the module is restored from,
    or of a version in use.

    Args:
        record: the module.
        tag: of the checkpoint.
        present: its files.
        new: the uploaded ones.
        is_whole: whether they replace all others.
    """
    other = sorted(
        name
        for name, digest in present.items()
        if new.get(name, None if is_whole else digest) != digest
    )
    if other and record.checkpoint == tag:
        raise InUse(
            f"checkpoint {tag} is what module {record.name!r} is restored from, and its "
            f"{', '.join(other)} would become another; upload under another epoch and load that"
        )
    if not tag.batch and (other or not present):
        require_replaceable(record, {tag.epoch}, "upload under another epoch")


def require_free(connection: Connection, record: ModuleRecord, tag: CheckpointTag) -> None:
    """Raise InUse if a fit that has started is about to write a checkpoint of the end of this
    epoch."""
    fit = None if tag.batch else fit_that_writes(connection, record, tag.epoch)
    if fit is not None:
        raise InUse(
            f"version {tag} of module {record.name!r} is one that job {fit.id} is to write; choose "
            "another number, or cancel the job first"
        )
