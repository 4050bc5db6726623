"""Checks that a server's database and data directory belong together before it changes either."""

from __future__ import annotations

import logging
import time
from pathlib import Path

from app.errors.tree import StartError
from app.files.directory_id import new_id, proposed_id, read_id, settle_id
from app.files.durable_files import locked
from app.files.last_release import note_release
from app.services.operations.liveness import Liveness
from app.store.data_directory import directory_of, is_empty, set_directory
from app.store.store import Store
from app.store.succession import skip_ids

__all__ = ["claim_directory"]

_log = logging.getLogger(__name__)

_LONGEST_SECONDS = 30.0


def claim_directory(store: Store, data_dir: Path, liveness: Liveness) -> bool:
    """Register this server in a directory, if the store belongs to it; an empty store adopts it.

    Args:
        liveness: registers the server.

    Returns:
        True if the store is empty, and so knows nothing of the directory's contents.

    Raises:
        StartError: they do not belong together, or another server uses the directory with another
            store. Nothing was changed.
        Unavailable: another server that is starting holds the directory's lock for too long.
    """
    # The lock lets the second of two servers that start together see the first.
    with locked(data_dir, seconds=_LONGEST_SECONDS):
        knows_nothing = _claim(store, data_dir, liveness)
        note_release(data_dir)
        liveness.enter()
    return knows_nothing


def _claim(store: Store, data_dir: Path, liveness: Liveness) -> bool:
    with store.read() as connection:
        named, knows_nothing = directory_of(connection), is_empty(connection)
    present = read_id(data_dir)
    if present is not None and present == named:
        return knows_nothing
    if named is not None:
        if present is None and named == proposed_id(data_dir):
            settle_id(data_dir)  # a crash came before _adopt did so
            return knows_nothing
        raise _foreign(data_dir, present)
    if present is not None and not knows_nothing:
        raise _foreign(data_dir, present)
    if knows_nothing and (others := liveness.others()):
        raise StartError(
            f"data directory {data_dir} is in use by {len(others)} other server(s) with "
            "another database, and this server's database is empty. Give this server the same "
            "MODSERVE_DATABASE_URL as the other, or a MODSERVE_DATA_DIR of its own"
        )
    _adopt(store, data_dir, present)
    return knows_nothing


def _adopt(store: Store, data_dir: Path, present: str | None) -> None:
    identity = present or new_id(data_dir)
    with store.write() as connection:
        set_directory(connection, identity)
        if present is not None:
            skip_ids(connection, time.time())
    if present is None:
        settle_id(data_dir)
    _log.info("the database now belongs to data directory %s, id %s", data_dir, identity)


def _foreign(data_dir: Path, present: str | None) -> StartError:
    what = "which has no id" if present is None else f"which has id {present}"
    return StartError(
        f"the database belongs to another data directory than {data_dir}, {what}. Set "
        "MODSERVE_DATA_DIR or MODSERVE_DATABASE_URL so that they belong together (is the disk "
        "mounted?); or give an empty database (for SQLite, move modserve.db, modserve.db-wal and "
        "modserve.db-shm away): modules, checkpoints and datasets are then taken in from the "
        "directory, and only the history of jobs is left behind"
    )
