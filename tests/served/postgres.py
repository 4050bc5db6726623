"""A Postgres server for tests: the one in MODSERVE_TEST_POSTGRES_URL, or one started for them."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import URL, create_engine, make_url, text

__all__ = ["new_database", "running_postgres"]

_URL = "MODSERVE_TEST_POSTGRES_URL"
_FAST = "-c fsync=off -c listen_addresses= -c unix_socket_directories="


@contextlib.contextmanager
def running_postgres() -> Iterator[URL | None]:
    """Yield a server's URL; None if none is configured and the programs are not installed."""
    named, programs = os.environ.get(_URL), _programs()
    if named is not None:
        yield make_url(named)
    elif programs is None:
        yield None
    else:
        with tempfile.TemporaryDirectory(prefix="modserve-pg-") as folder:
            yield from _started(programs, Path(folder))


def _programs() -> Path | None:
    """Return the folder of Postgres's programs, which Debian keeps off the PATH."""
    found = shutil.which("initdb") or next(
        iter(sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))), None
    )
    return None if found is None else Path(found).resolve().parent


def _started(programs: Path, folder: Path) -> Iterator[URL]:
    user = None
    if os.geteuid() == 0:  # Postgres refuses to run as root
        user = "nobody"
        shutil.chown(folder, user)
    data = folder / "data"

    def run(program: str, *arguments: str) -> None:
        command = [str(programs / program), "-D", str(data), *arguments]
        subprocess.run(command, check=True, user=user, cwd=folder, stdout=subprocess.DEVNULL)

    run("initdb", "--auth=trust", "--username=postgres", "--no-sync")
    run("pg_ctl", "start", "-w", "-l", str(folder / "log"), "-o", f"{_FAST}{folder}")
    try:
        yield URL.create(
            "postgresql+psycopg",
            username="postgres",
            database="postgres",
            query={"host": str(folder)},
        )
    finally:
        run("pg_ctl", "stop", "-w", "-m", "immediate")


@contextlib.contextmanager
def new_database(server: URL, template: str = "template1") -> Iterator[URL]:
    """Yield the URL of a new database, which is removed after the block.

    Args:
        server: the URL of the Postgres server.
        template: the database to copy; the default is empty.
    """
    name = f"modserve_test_{uuid.uuid4().hex}"
    engine = create_engine(server, isolation_level="AUTOCOMMIT")
    try:
        with engine.connect() as connection:
            connection.execute(text(f"CREATE DATABASE {name} TEMPLATE {template}"))
            try:
                yield server.set(database=name)
            finally:
                connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    finally:
        engine.dispose()
