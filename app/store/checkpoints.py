"""Queries on checkpoints. The table is only an index: the files on disk are authoritative."""

from __future__ import annotations

from sqlalchemy import Connection, delete, insert, select

from app.domain.checkpoint import CheckpointManifest, CheckpointTag
from app.domain.codec import to_plain
from app.errors.database import RowDamaged
from app.store.damage import value_or_damage
from app.store.filters import CheckpointFilter
from app.store.modules import module_id
from app.store.pages import Page, page_of_rows
from app.store.rows import manifest_of
from app.store.schema import checkpoints, modules

__all__ = [
    "all_checkpoints",
    "forget_checkpoint",
    "indexed_manifests",
    "indexed_tags",
    "list_checkpoints",
    "newest_version",
    "put_checkpoint",
]


def put_checkpoint(connection: Connection, manifest: CheckpointManifest) -> None:
    """Add a checkpoint, replacing one of the same tag; raise NotFound unless its module exists."""
    identity = module_id(connection, manifest.module, lock=True)
    forget_checkpoint(connection, manifest.module, manifest.tag)
    connection.execute(
        insert(checkpoints).values(
            module_id=identity,
            epoch=manifest.epoch,
            batch=manifest.batch,
            manifest=to_plain(manifest),
            created_at=manifest.created_at,
        )
    )


def forget_checkpoint(connection: Connection, module: str, tag: CheckpointTag) -> None:
    """Remove a checkpoint from the index, if it is listed."""
    identity = select(modules.c.id).where(modules.c.name == module).scalar_subquery()
    connection.execute(
        delete(checkpoints).where(
            checkpoints.c.module_id == identity,
            checkpoints.c.epoch == tag.epoch,
            checkpoints.c.batch == tag.batch,
        )
    )


def indexed_tags(connection: Connection, module: str) -> set[CheckpointTag]:
    """Return the tags of a module's checkpoints; raise NotFound if it does not exist."""
    identity = module_id(connection, module)
    query = select(checkpoints.c.epoch, checkpoints.c.batch).where(
        checkpoints.c.module_id == identity
    )
    return {CheckpointTag(row.epoch, row.batch) for row in connection.execute(query)}


def newest_version(connection: Connection, module: str) -> int | None:
    """Return the epoch of the checkpoint between epochs that was written last, None without any;
    raise NotFound if the module does not exist."""
    query = (
        select(checkpoints.c.epoch)
        .where(checkpoints.c.module_id == module_id(connection, module), checkpoints.c.batch == 0)
        .order_by(checkpoints.c.created_at.desc(), checkpoints.c.epoch.desc())
        .limit(1)
    )
    return connection.scalar(query)


def indexed_manifests(
    connection: Connection, module: str
) -> dict[CheckpointTag, CheckpointManifest]:
    """Return a module's checkpoints by tag, as they were recorded; raise NotFound."""
    identity = module_id(connection, module)
    rows = connection.execute(select(checkpoints).where(checkpoints.c.module_id == identity))
    return {CheckpointTag(row.epoch, row.batch): manifest_of(row) for row in rows}


def all_checkpoints(
    connection: Connection,
) -> dict[str, dict[CheckpointTag, CheckpointManifest | RowDamaged]]:
    """Return the manifests of all checkpoints by module and tag, or what is wrong with the row."""
    query = select(checkpoints, modules.c.name).join(
        modules, checkpoints.c.module_id == modules.c.id
    )
    found: dict[str, dict[CheckpointTag, CheckpointManifest | RowDamaged]] = {}
    for row in connection.execute(query):
        tag = CheckpointTag(row.epoch, row.batch)
        found.setdefault(row.name, {})[tag] = value_or_damage(row, manifest_of)
    return found


def list_checkpoints(
    connection: Connection,
    module: str,
    wanted: CheckpointFilter,
    before: CheckpointTag | None,
    limit: int,
) -> Page[CheckpointManifest]:
    """Return a module's checkpoints, the most trained first; raise NotFound."""
    identity = module_id(connection, module)
    epoch, batch = checkpoints.c.epoch, checkpoints.c.batch
    query = select(checkpoints).where(checkpoints.c.module_id == identity, *wanted.conditions())
    if before is not None:
        query = query.where(
            (epoch < before.epoch) | ((epoch == before.epoch) & (batch < before.batch))
        )
    query = query.order_by(epoch.desc(), batch.desc()).limit(limit + 1)
    rows = connection.execute(query).all()
    return page_of_rows(rows, limit, lambda row: CheckpointTag(row.epoch, row.batch), manifest_of)
