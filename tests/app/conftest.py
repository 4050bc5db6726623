"""A real store for the tests of the service."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.domain.module import SINGLE, ModuleRecord
from app.store.modules import insert_module
from app.store.store import Store
from served.migrated import migrated_database


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    """Return the URL of a database for ``store``."""
    return migrated_database(tmp_path / "store.db")


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    """Return an empty store."""
    store = Store(database_url)
    store.open()
    yield store
    store.close()


@pytest.fixture
def two_modules(store: Store) -> Store:
    """Return the store with modules ``a`` and ``b`` on executor ``cpu(0)``."""
    with store.write() as connection:
        for name in ("a", "b"):
            insert_module(connection, ModuleRecord(name=name, symbols={SINGLE: "{}"}))
    return store
