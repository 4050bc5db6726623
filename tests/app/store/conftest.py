"""Store tests run on every kind of database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import URL

from app.store.store import Store
from served.migrated import migrated_database
from served.postgres import new_database, running_postgres


@pytest.fixture(scope="session")
def postgres() -> Iterator[URL]:
    """Return the URL of a Postgres server; skip if there is none."""
    with running_postgres() as server:
        if server is None:
            pytest.skip("Postgres is not installed, and MODSERVE_TEST_POSTGRES_URL is not set")
        yield server


@pytest.fixture(scope="session")
def migrated_postgres(postgres: URL) -> Iterator[URL]:
    """Return the URL of a database with the newest schema, to be copied."""
    with new_database(postgres) as url:
        store = Store(_text(url))
        store.open()
        store.close()
        yield url


@pytest.fixture(params=["sqlite", "postgres"])
def kind(request: pytest.FixtureRequest) -> str:
    """Return the kind of database the test runs on."""
    return str(request.param)


@pytest.fixture
def database_url(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """Return the URL of a database for ``store``."""
    if kind == "sqlite":
        yield migrated_database(tmp_path / "store.db")
        return
    server = request.getfixturevalue("postgres")
    template = request.getfixturevalue("migrated_postgres").database
    with new_database(server, template) as url:
        yield _text(url)


@pytest.fixture
def empty_url(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """Return the URL of a database without any table."""
    if kind == "sqlite":
        yield f"sqlite:///{tmp_path / 'empty.db'}"
        return
    with new_database(request.getfixturevalue("postgres")) as url:
        yield _text(url)


def _text(url: URL) -> str:
    return url.render_as_string(hide_password=False)
