"""Schema migrations, forward only: Alembic revisions under ``versions``.

``vNNNN_name.py`` holds revision ``NNNN``. To add one, copy the newest, give it the next number, and
name what it does. Alembic is imported only when a revision has to be applied: most starts apply
none.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, inspect, text

from app.errors.tree import Unavailable

if TYPE_CHECKING:
    from alembic.config import Config

__all__ = ["current_revision", "latest_revision", "migrate", "revisions"]

_FOLDER = Path(__file__).parent
_LOCKS = {"postgresql": "SELECT pg_advisory_xact_lock(773301)"}
"""Postgres advisory lock: two servers that start together must not both migrate."""


def revisions() -> list[str]:
    """Return all revisions, oldest first."""
    return sorted(path.stem[1:5] for path in (_FOLDER / "versions").glob("v*.py"))


def latest_revision() -> str:
    """Return the revision that the queries expect."""
    return revisions()[-1]


def current_revision(connection: Connection) -> str | None:
    """Return the newest applied revision, None for an empty database."""
    tables = inspect(connection)
    if tables.has_table("alembic_version"):
        found = connection.scalar(text("SELECT version_num FROM alembic_version"))
        return None if found is None else str(found)
    return "0001" if tables.has_table("schema_version") else None


def migrate(connection: Connection, target: str | None = None) -> None:
    """Apply the missing revisions in the caller's transaction.

    Args:
        target: the last revision to apply; None for the latest.

    Raises:
        Unavailable: the database was made by a newer modserve.
    """
    lock = _LOCKS.get(connection.dialect.name)
    if lock is not None:
        connection.execute(text(lock))
    present = current_revision(connection)
    known = revisions()
    if present is not None and present not in known:
        raise Unavailable(
            f"the database has schema {present}, this modserve knows those up to {known[-1]}; "
            "run a newer modserve or give it another database"
        )
    if present != (target or known[-1]):
        _upgrade(connection, target or known[-1])


def _upgrade(connection: Connection, target: str) -> None:
    from alembic import command

    config = _config()
    config.attributes["connection"] = connection
    if inspect(connection).has_table("schema_version"):
        _adopt(connection, config)
    command.upgrade(config, target)


def _adopt(connection: Connection, config: Config) -> None:
    """Take over a database from before Alembic; its only version is our first revision."""
    from alembic import command

    version = connection.scalar(text("SELECT MAX(version) FROM schema_version"))
    if version not in (None, 1):
        raise Unavailable(f"the database has schema_version {version}, expected 1")
    if version is not None:
        command.stamp(config, "0001")
    connection.execute(text("DROP TABLE schema_version"))


def _config() -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_FOLDER).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config
