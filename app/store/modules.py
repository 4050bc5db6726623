"""Queries on modules and their symbols."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, bindparam, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from app.domain.module import ModuleRecord
from app.errors.database import RowDamaged
from app.errors.tree import AlreadyExists, NotFound, PreconditionFailed
from app.store.damage import sound, value_or_damage
from app.store.filters import ModuleFilter
from app.store.pages import Page, page_of
from app.store.rows import module_of, module_values
from app.store.schema import modules, symbols

__all__ = [
    "Edition",
    "all_modules",
    "delete_module",
    "get_module",
    "insert_module",
    "list_modules",
    "module_editions",
    "module_id",
    "module_names",
    "module_outline",
    "put_module",
    "save_module",
    "unsaved_modules",
]

_NAMES_AT_ONCE = 500
"""Fewer than the parameters that any database takes in one query."""


def insert_module(connection: Connection, record: ModuleRecord) -> ModuleRecord:
    """Add a module; return it with its id.

    Raises:
        AlreadyExists: the name is taken.
    """
    try:
        with connection.begin_nested():
            result = connection.execute(insert(modules).values(**module_values(record)))
    except IntegrityError:
        if _find(connection, record.name) is None:
            raise
        raise AlreadyExists("module", record.name) from None
    identity = result.inserted_primary_key
    assert identity is not None
    _insert_symbols(connection, identity[0], record)
    return record.evolve(id=identity[0])


def get_module(connection: Connection, name: str) -> ModuleRecord:
    """Return a module; raise NotFound."""
    row = _find(connection, name)
    if row is None:
        raise NotFound("module", name, "GET /v1/modules lists those that do")
    return module_of(row, _texts(connection, [row])[row.id])


def module_outline(connection: Connection, name: str, *, lock: bool = False) -> ModuleRecord:
    """Return a module with its bucket keys, but without the text of its symbols.

    Args:
        lock: keep others from changing or deleting it until the transaction ends.

    Raises:
        NotFound: it does not exist.
    """
    query = _OUTLINE.with_for_update(of=modules) if lock else _OUTLINE
    rows = connection.execute(query, {"module": name}).all()
    if not rows:
        raise NotFound("module", name, "GET /v1/modules lists those that do")
    return module_of(rows[0], {row.bucket_key: "" for row in rows})


_OUTLINE = (
    select(modules, symbols.c.bucket_key)
    .join(symbols, symbols.c.module_id == modules.c.id)
    .where(modules.c.name == bindparam("module"))
    .order_by(symbols.c.bucket_key)
)


def module_id(connection: Connection, name: str, *, lock: bool = False) -> int:
    """Return a module's id; raise NotFound.

    Args:
        lock: keep others from changing or deleting it until the transaction ends.
    """
    query = select(modules.c.id).where(modules.c.name == name)
    found = connection.scalar(query.with_for_update() if lock else query)
    if found is None:
        raise NotFound("module", name, "GET /v1/modules lists those that do")
    return int(found)


def list_modules(
    connection: Connection, wanted: ModuleFilter, after: str | None, limit: int
) -> Page[ModuleRecord]:
    """Return modules sorted by name, starting after the name ``after``."""
    query = select(modules).where(*wanted.conditions())
    query = query.order_by(modules.c.name).limit(limit + 1)
    if after is not None:
        query = query.where(modules.c.name > after)
    page = page_of(connection.execute(query).all(), limit, lambda row: row.name)
    return Page(tuple(_sound(connection, page.items)), page.next_cursor)


def all_modules(connection: Connection) -> dict[str, ModuleRecord | RowDamaged]:
    """Return all modules by name, or what is wrong with the row of one."""
    rows = connection.execute(select(modules).order_by(modules.c.name)).all()
    return dict(zip([row.name for row in rows], _with_symbols(connection, rows), strict=True))


def module_names(connection: Connection) -> list[str]:
    """Return the names of all modules, sorted."""
    return list(connection.scalars(select(modules.c.name).order_by(modules.c.name)))


class Edition(NamedTuple):
    """Which module a name stands for, and which version its record has."""

    id: int
    version: int


def module_editions(connection: Connection, names: Collection[str]) -> dict[str, Edition]:
    """Return the editions of those of the modules that exist."""
    query = select(modules.c.name, modules.c.id, modules.c.version)
    found: dict[str, Edition] = {}
    wanted = list(names)
    for begin in range(0, len(wanted), _NAMES_AT_ONCE):
        some = wanted[begin : begin + _NAMES_AT_ONCE]
        rows = connection.execute(query.where(modules.c.name.in_(some)))
        found |= {name: Edition(identity, version) for name, identity, version in rows}
    return found


def unsaved_modules(connection: Connection, executors: Collection[str]) -> list[ModuleRecord]:
    """Return the modules of these executors whose parameters are in memory alone, by name."""
    query = select(modules).where(
        modules.c.executor.in_(executors), ~modules.c.durable, ~modules.c.lost
    )
    return _sound(connection, connection.execute(query.order_by(modules.c.name)).all())


def put_module(connection: Connection, record: ModuleRecord) -> ModuleRecord:
    """Insert or update a module's row so that it matches its file; return the module with its id.

    Its jobs stay.
    """
    present = _find(connection, record.name)
    if present is None:
        return insert_module(connection, record)
    connection.execute(
        update(modules).where(modules.c.id == present.id).values(**module_values(record))
    )
    connection.execute(delete(symbols).where(symbols.c.module_id == present.id))
    _insert_symbols(connection, present.id, record)
    return record.evolve(id=present.id)


def save_module(connection: Connection, record: ModuleRecord, before: int) -> ModuleRecord:
    """Save a changed module if it is still at the version it was changed from.

    Its symbols never change, so they are not written.

    Args:
        record: the changed module, with its new version.
        before: the version that it was changed from.

    Raises:
        NotFound: it was deleted meanwhile.
        PreconditionFailed: it was changed meanwhile.
    """
    moved = connection.execute(
        update(modules)
        .where(modules.c.id == record.id, modules.c.version == before)
        .values(**module_values(record))
    )
    if moved.rowcount != 1:
        present = get_module(connection, record.name)
        raise PreconditionFailed(
            f"the version of module {record.name!r}",
            got=before,
            present=present.version,
            hint="read it again and repeat the change",
        )
    return record


def delete_module(connection: Connection, identity: int) -> None:
    """Delete a module with its symbols, jobs and the index of its checkpoints."""
    moved = connection.execute(delete(modules).where(modules.c.id == identity))
    if moved.rowcount != 1:
        raise NotFound("module", identity)


def _insert_symbols(connection: Connection, identity: int, record: ModuleRecord) -> None:
    connection.execute(
        insert(symbols),
        [
            {"module_id": identity, "bucket_key": key, "json": text}
            for key, text in record.symbols.items()
        ],
    )


def _find(connection: Connection, name: str) -> Row[Any] | None:
    return connection.execute(select(modules).where(modules.c.name == name)).one_or_none()


def _with_symbols(
    connection: Connection, rows: Sequence[Row[Any]]
) -> list[ModuleRecord | RowDamaged]:
    texts = _texts(connection, rows)
    return [value_or_damage(row, lambda row: module_of(row, texts[row.id])) for row in rows]


def _texts(connection: Connection, rows: Sequence[Row[Any]]) -> dict[int, dict[str, str]]:
    """Return the symbols of modules, by the modules' ids and by bucket key."""
    texts: dict[int, dict[str, str]] = {row.id: {} for row in rows}
    query = select(symbols).where(symbols.c.module_id.in_(texts)).order_by(symbols.c.bucket_key)
    for symbol in connection.execute(query):
        texts[symbol.module_id][symbol.bucket_key] = symbol.json
    return texts


def _sound(connection: Connection, rows: Sequence[Row[Any]]) -> list[ModuleRecord]:
    texts = _texts(connection, rows)
    return list(sound(rows, lambda row: module_of(row, texts[row.id])))
