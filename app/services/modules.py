"""Modules as rows: created, read, changed and deleted. What runs them is elsewhere."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from app.domain.checkpoint import CheckpointTag
from app.domain.codec import canonical_json, to_plain
from app.domain.module import BindSpec, InitSpec, ModuleRecord, OptimizerSpec
from app.domain.names import check_name
from app.domain.restoration import RestoreStatus
from app.errors import InUse, Invalid, PreconditionFailed
from app.files.durable_files import discard
from app.services.jobs import Clock
from app.store.idempotency import recall, remember
from app.store.jobs import has_unfinished
from app.store.modules import (
    delete_module,
    get_module,
    insert_module,
    list_modules,
    module_id,
    save_module,
)
from app.store.pages import Page, check_limit
from app.store.restorations import put_restoration
from app.store.store import Store

__all__ = ["ModuleService", "module_directory"]

_SCOPE = "modules"
_LONGEST_BUCKET_KEY = 256


def module_directory(data_dir: Path, module: str) -> Path:
    """Return where a module's files lie; raise Invalid for what is no name."""
    return data_dir / "modules" / check_name(module, "module")


class ModuleService:
    """All that can be done with a module's record. Its methods block."""

    def __init__(self, store: Store, data_dir: Path, clock: Clock = time.time) -> None:
        self._store = store
        self._data_dir = data_dir
        self._clock = clock

    def create(
        self,
        record: ModuleRecord,
        idempotency_key: str | None = None,
        digests: Mapping[str, str] | None = None,
    ) -> ModuleRecord:
        """Add a module; one created before under the same key is returned as it is now.

        The symbols must have been read by the engine already: here they are text.

        Args:
            record: the module.
            idempotency_key: of the request.
            digests: of the files that came with the record, by name; part of the request too.

        Raises:
            Invalid: the name, a bucket key or the default bucket key.
            AlreadyExists: the name is taken.
            IdempotencyMismatch: the key was used for another request.
        """
        check_name(record.name)
        _check_buckets(record)
        said = [to_plain(record), dict(digests)] if digests else to_plain(record)
        fingerprint = hashlib.sha256(canonical_json(said).encode()).hexdigest()
        now = self._clock()
        with self._store.write() as connection:
            if idempotency_key is not None:
                earlier = recall(connection, _SCOPE, idempotency_key, fingerprint)
                if earlier is not None:
                    return get_module(connection, earlier)
            created = insert_module(connection, record.evolve(created_at=now, updated_at=now))
            # Files of an earlier module of this name, if the server died while deleting it.
            discard(module_directory(self._data_dir, record.name))
            if idempotency_key is not None:
                remember(connection, _SCOPE, idempotency_key, fingerprint, record.name, now)
        return created

    def get(self, name: str) -> ModuleRecord:
        """Return a module; raise NotFound."""
        with self._store.read() as connection:
            return get_module(connection, name)

    def list_modules(self, cursor: str | None = None, limit: int = 50) -> Page[ModuleRecord]:
        """Return a page of modules, by name; raise Invalid for a bad cursor or limit."""
        if cursor is not None:
            check_name(cursor, "cursor")
        with self._store.read() as connection:
            return list_modules(connection, cursor, check_limit(limit))

    def change(
        self,
        name: str,
        alter: Callable[[ModuleRecord], ModuleRecord],
        *,
        etag: str | None = None,
        settles: bool = False,
    ) -> ModuleRecord:
        """Write a changed record.

        Args:
            alter: returns the record as it is to be; symbols and name stay.
            etag: refuse unless the record still has it (``If-Match``).
            settles: the module has new parameters, so that how it was restored before says
                nothing of it any more.

        Raises:
            NotFound: there is no such module.
            PreconditionFailed: the record has another ETag.
        """
        with self._store.write() as connection:
            module_id(connection, name, lock=True)
            record = get_module(connection, name)
            if etag is not None and etag != record.etag:
                raise PreconditionFailed(
                    f"the ETag of module {name!r}",
                    got=etag,
                    present=record.etag,
                    hint="read the module again and repeat the change",
                )
            if settles:
                put_restoration(connection, record.id, RestoreStatus())
            return save_module(connection, alter(record), self._clock())

    def prepared(
        self, name: str, bind: BindSpec, init: InitSpec | None, optimizer: OptimizerSpec
    ) -> ModuleRecord:
        """Note how a fit bound and prepared the module."""

        def alter(record: ModuleRecord) -> ModuleRecord:
            changed = record.evolve(bind=bind, optimizer=optimizer)
            if init is not None:
                return changed.with_init(init)
            if optimizer != record.optimizer:
                changed = changed.evolve(saved_states=False)
            # One that goes on from its job's own checkpoint has parameters again.
            return changed.evolve(lost=False)

        return self.change(name, alter, settles=init is not None)

    def saved(self, name: str, tag: CheckpointTag, *, saved_states: bool) -> ModuleRecord:
        """Note that a checkpoint now holds the module's parameters."""
        return self.change(
            name,
            lambda record: record.with_checkpoint(tag, saved_states=saved_states),
            settles=True,
        )

    def mark_unsaved(self, name: str) -> ModuleRecord:
        """Note that a module is about to have, or has, parameters that no checkpoint has."""
        return self.change(name, lambda record: record.evolve(durable=False))

    def unmark(self, name: str) -> ModuleRecord:
        """Note that nothing was changed after all."""
        return self.change(name, lambda record: record.evolve(durable=True))

    def delete(self, name: str, *, etag: str | None = None) -> None:
        """Remove a module with its finished jobs and all its files.

        Raises:
            NotFound: there is no such module.
            InUse: it has unfinished jobs.
            PreconditionFailed: it has another ETag.
        """
        with self._store.write() as connection:
            identity = module_id(connection, name, lock=True)
            record = get_module(connection, name)
            if etag is not None and etag != record.etag:
                raise PreconditionFailed(
                    f"the ETag of module {name!r}",
                    got=etag,
                    present=record.etag,
                    hint="read the module again",
                )
            if has_unfinished(connection, name):
                raise InUse(
                    f"module {name!r} has unfinished jobs; "
                    f"cancel those that GET /v1/jobs?module={name} lists"
                )
            delete_module(connection, identity)
        discard(module_directory(self._data_dir, name))


def _check_buckets(record: ModuleRecord) -> None:
    for key in record.symbols:
        if len(key) > _LONGEST_BUCKET_KEY:
            raise Invalid("symbols", key, f"a bucket key of at most {_LONGEST_BUCKET_KEY} letters")
    if record.default_bucket_key not in record.symbols:
        raise Invalid(
            "default_bucket_key",
            record.default_bucket_key,
            f"one of the keys of symbols: {', '.join(record.symbols) or 'there are none'}",
        )
