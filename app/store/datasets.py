"""Queries on datasets."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, bindparam, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from app.domain.dataset import DatasetRecord
from app.errors.database import RowDamaged
from app.errors.tree import AlreadyExists, InUse, NotFound
from app.store.damage import sound, value_or_damage
from app.store.filters import DatasetFilter
from app.store.jobs import dataset_is_used
from app.store.pages import Page, page_of_rows
from app.store.rows import dataset_of, dataset_values
from app.store.schema import datasets

__all__ = [
    "all_datasets",
    "check_unused",
    "delete_dataset",
    "find_datasets",
    "get_dataset",
    "get_datasets",
    "insert_dataset",
    "list_datasets",
    "put_dataset",
]


def insert_dataset(connection: Connection, record: DatasetRecord) -> DatasetRecord:
    """Add a dataset; return it with its id.

    Raises:
        AlreadyExists: the name is taken.
    """
    try:
        with connection.begin_nested():
            result = connection.execute(insert(datasets).values(**dataset_values(record)))
    except IntegrityError:
        raise AlreadyExists("dataset", record.name) from None
    assert result.inserted_primary_key is not None
    return get_dataset(connection, record.name)


def put_dataset(connection: Connection, record: DatasetRecord) -> DatasetRecord:
    """Insert or update a dataset's row so that it matches the dataset's file."""
    changed = update(datasets).where(datasets.c.name == record.name)
    if connection.execute(changed.values(**dataset_values(record))).rowcount:
        return get_dataset(connection, record.name)
    return insert_dataset(connection, record)


def get_dataset(connection: Connection, name: str) -> DatasetRecord:
    """Return a dataset; raise NotFound."""
    row = connection.execute(_BY_NAME, {"dataset": name}).one_or_none()
    if row is None:
        raise NotFound("dataset", name, "GET /v1/datasets lists those that do")
    return dataset_of(row)


_BY_NAME = select(datasets).where(datasets.c.name == bindparam("dataset"))


def find_datasets(connection: Connection, names: Iterable[str]) -> list[DatasetRecord]:
    """Return those of the named datasets that exist, in no particular order."""
    return list(sound(connection.execute(_BY_NAMES, {"names": list(names)}), dataset_of))


_BY_NAMES = select(datasets).where(datasets.c.name.in_(bindparam("names", expanding=True)))


def get_datasets(connection: Connection, names: Iterable[str]) -> list[DatasetRecord]:
    """Return datasets sorted by name; raise NotFound for the first that does not exist."""
    return [get_dataset(connection, name) for name in names]


def all_datasets(connection: Connection) -> dict[str, DatasetRecord | RowDamaged]:
    """Return every dataset by its name, or what is wrong with its row."""
    rows = connection.execute(select(datasets))
    return {row.name: value_or_damage(row, dataset_of) for row in rows}


def list_datasets(
    connection: Connection, wanted: DatasetFilter, after: str | None, limit: int
) -> Page[DatasetRecord]:
    """Return datasets sorted by name, starting after the name ``after``."""
    query = select(datasets).where(*wanted.conditions())
    query = query.order_by(datasets.c.name).limit(limit + 1)
    if after is not None:
        query = query.where(datasets.c.name > after)
    rows = connection.execute(query).all()
    return page_of_rows(rows, limit, lambda row: row.name, dataset_of)


def delete_dataset(connection: Connection, name: str) -> DatasetRecord:
    """Remove a dataset and return it.

    Raises:
        NotFound: it does not exist.
        InUse: an unfinished job reads it.
    """
    locked = select(datasets.c.id).where(datasets.c.name == name).with_for_update()
    connection.execute(locked)
    record = get_dataset(connection, name)
    check_unused(connection, name)
    connection.execute(delete(datasets).where(datasets.c.id == record.id))
    return record


def check_unused(connection: Connection, name: str) -> None:
    """Raise InUse if an unfinished job reads the dataset."""
    if dataset_is_used(connection, name):
        raise InUse(f"dataset {name!r} is read by an unfinished job; cancel that or wait for it")
