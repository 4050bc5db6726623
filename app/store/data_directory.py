"""Which data directory the database belongs to, and how much the database contains."""

from __future__ import annotations

from sqlalchemy import Connection, func, insert, select

from app.store.schema import checkpoints, data_directory, datasets, jobs, modules

__all__ = ["count_contents", "directory_of", "is_empty", "set_directory"]


def directory_of(connection: Connection) -> str | None:
    """Return the id of the database's data directory, None until a server has claimed one."""
    found = connection.scalar(select(data_directory.c.directory))
    return None if found is None else str(found)


def set_directory(connection: Connection, directory: str) -> None:
    """Record which data directory the database belongs to; it must not have one yet."""
    connection.execute(insert(data_directory).values(number=1, directory=directory))


def count_contents(connection: Connection) -> dict[str, int]:
    """Return how many modules, checkpoints and datasets the database lists."""
    return {
        table.name: connection.scalar(select(func.count()).select_from(table)) or 0
        for table in (modules, checkpoints, datasets)
    }


def is_empty(connection: Connection) -> bool:
    """Return whether the database has no module, no dataset and no job."""
    tables = (modules, datasets, jobs)
    return all(connection.execute(select(one.c.id).limit(1)).first() is None for one in tables)
