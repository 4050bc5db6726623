"""Queries on how modules were restored; without a row, a restoration had nothing to report."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, or_, select, update

from app.domain.checkpoint import CheckpointTag
from app.domain.restoration import MOST_DEATHS, RestoreStatus
from app.store.schema import modules, restorations

__all__ = [
    "Losses",
    "get_restorations",
    "note_losses",
    "put_restoration",
    "remarkable_restorations",
]


def get_restorations(connection: Connection, ids: Collection[int]) -> dict[int, RestoreStatus]:
    """Return the restoration status of modules, by id."""
    query = select(restorations).where(restorations.c.module_id.in_(ids))
    found = {row.module_id: _status_of(row) for row in connection.execute(query)}
    return {identity: found.get(identity, RestoreStatus()) for identity in ids}


def put_restoration(connection: Connection, module_id: int, status: RestoreStatus) -> None:
    """Write the restoration status of a module, replacing the one before."""
    connection.execute(delete(restorations).where(restorations.c.module_id == module_id))
    if status == RestoreStatus():
        return
    tag = status.restored_from
    connection.execute(
        insert(restorations).values(
            module_id=module_id,
            is_under_way=status.is_under_way,
            deaths=status.deaths,
            restored_epoch=None if tag is None else tag.epoch,
            restored_batch=None if tag is None else tag.batch,
            warning=status.warning,
            fault=status.fault,
        )
    )


def remarkable_restorations(connection: Connection) -> dict[str, RestoreStatus]:
    """Return by name the modules that failed, or were restored from an older checkpoint."""
    query = (
        select(modules.c.name, restorations)
        .join(restorations, restorations.c.module_id == modules.c.id)
        .where(
            or_(
                restorations.c.warning.is_not(None),
                restorations.c.fault.is_not(None),
                restorations.c.deaths >= MOST_DEATHS,
            )
        )
        .order_by(modules.c.name)
    )
    return {row.name: _status_of(row) for row in connection.execute(query)}


@dataclass(frozen=True, slots=True)
class Losses:
    """What the death of an executor's process did to its modules, by name.

    Attributes:
        lost: modules whose parameters existed only in memory.
        failed: modules that will not be restored again.
    """

    lost: Sequence[str]
    failed: Sequence[str]


def note_losses(connection: Connection, executor: str, killers: Collection[str] | None) -> Losses:
    """Record that an executor has a new process: parameters that existed only in memory are lost.

    Args:
        executor: name of the executor.
        killers: modules whose calls were running when the old process died; if unknown (None), the
            restoration that was under way is blamed.
    """
    here = modules.c.executor == executor
    losing = (here, ~modules.c.durable, ~modules.c.lost)
    lost = connection.scalars(select(modules.c.name).where(*losing)).all()
    connection.execute(
        update(modules).where(*losing).values(lost=True, version=modules.c.version + 1)
    )
    ids = select(modules.c.id).where(here)
    ended = restorations.c.is_under_way & restorations.c.module_id.in_(ids)
    blamed = ended
    if killers is not None:
        found = select(modules.c.id).where(here, modules.c.name.in_(killers))
        blamed = ended & restorations.c.module_id.in_(found)
    is_last = restorations.c.fault.is_(None) & (restorations.c.deaths == MOST_DEATHS - 1)
    failing = select(modules.c.name).join(restorations, restorations.c.module_id == modules.c.id)
    failed = connection.scalars(failing.where(blamed, is_last)).all()
    connection.execute(update(restorations).where(blamed).values(deaths=restorations.c.deaths + 1))
    connection.execute(update(restorations).where(ended).values(is_under_way=False))
    return Losses(lost, failed)


def _status_of(row: Row[Any]) -> RestoreStatus:
    tag = None
    if row.restored_epoch is not None:
        tag = CheckpointTag(row.restored_epoch, row.restored_batch)
    return RestoreStatus(
        is_under_way=row.is_under_way,
        deaths=row.deaths,
        restored_from=tag,
        warning=row.warning,
        fault=row.fault,
    )
