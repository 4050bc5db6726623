"""Creates, reads, changes and deletes module records; ``module_commands`` runs the modules.

Every change is in the module's file before it is in the database, and no file is written while the
database's write lock is held.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from sqlalchemy import Connection

from app.domain.checkpoint import CheckpointManifest, CheckpointTag
from app.domain.codec import canonical_json, to_plain
from app.domain.events import Happening, ServerEvent, happenings
from app.domain.module import BindSpec, InitSpec, ModuleRecord, OptimizerSpec
from app.domain.names import check_name
from app.domain.restoration import RestoreStatus
from app.errors.tree import AlreadyExists, InUse, Invalid, NotFound, PreconditionFailed, Unavailable
from app.files.durable_files import tell_full_disk
from app.files.module_directories import CreationRequest, ModuleDirectories
from app.services.access.idempotency import current_replay
from app.services.modules.module_recovery import MODULE_SCOPE
from app.services.operations.notifier import Notifier
from app.store.events import append_events, of_module
from app.store.filters import ModuleFilter
from app.store.idempotency import forget_key_of, recall, remember
from app.store.jobs import has_unfinished, running_job
from app.store.modules import (
    Edition,
    delete_module,
    get_module,
    insert_module,
    list_modules,
    module_editions,
    module_id,
    module_outline,
    save_module,
    unsaved_modules,
)
from app.store.pages import Page, check_limit
from app.store.restorations import put_restoration
from app.store.store import Store

__all__ = ["ModuleFilter", "ModuleService"]

_LONGEST_BUCKET_KEY = 256
_MOST_TRIES = 10


class ModuleService:
    """Operations on module records. Its methods block.

    Attributes:
        directories: the modules' files.
        notifier: notified after a module's events.
    """

    def __init__(
        self,
        store: Store,
        data_dir: Path,
        clock: Callable[[], float] = time.time,
        notifier: Notifier | None = None,
    ) -> None:
        """Prepare.

        Args:
            notifier: see the class.
        """
        self.directories = ModuleDirectories(data_dir)
        self._store = store
        self._clock = clock
        self.notifier = notifier or Notifier()

    @tell_full_disk()
    def create(
        self,
        record: ModuleRecord,
        idempotency_key: str | None = None,
        digests: Mapping[str, str] | None = None,
    ) -> ModuleRecord:
        """Add a module; if its key was used before, return the earlier module as it is now.

        The engine must have parsed the symbols already; they are plain text here.

        Args:
            record: the module.
            idempotency_key: of the request.
            digests: of the uploaded files, by name; part of the request's fingerprint.

        Raises:
            Invalid: the name, a bucket key or the default bucket key is not valid.
            AlreadyExists: the name is taken.
            IdempotencyMismatch: the key was used for another request.
        """
        check_name(record.name)
        _check_buckets(record)
        request_content = [to_plain(record), dict(digests)] if digests else to_plain(record)
        fingerprint = hashlib.sha256(canonical_json(request_content).encode()).hexdigest()
        now = self._clock()
        record = record.evolve(created_at=now, updated_at=now)
        request = None
        if idempotency_key is not None:
            request = CreationRequest(key=idempotency_key, fingerprint=fingerprint)
        with self.directories.locked(record.name):
            earlier = self._earlier(record.name, request)
            if earlier is not None:
                return earlier
            with self.directories.created(record, request):
                return self._insert(record, request)

    def _earlier(self, name: str, request: CreationRequest | None) -> ModuleRecord | None:
        """Return what the same request created before; raise AlreadyExists if the name is taken."""
        with self._store.read() as connection:
            if request is not None:
                earlier = recall(connection, MODULE_SCOPE, request.key, request.fingerprint)
                if earlier is not None:
                    current_replay().is_replayed = True
                    return get_module(connection, earlier)
            try:
                get_module(connection, name)
            except NotFound:
                return None
        raise AlreadyExists("module", name)

    def _insert(self, record: ModuleRecord, request: CreationRequest | None) -> ModuleRecord:
        with self._store.write() as connection:
            one = None if request is None else (MODULE_SCOPE, request.key, request.fingerprint)
            if one is not None:
                # Raises if a request for another name has used the key meanwhile.
                recall(connection, *one)
            created = insert_module(connection, record)
            if one is not None:
                remember(connection, *one, record.name, record.created_at)
            self._tell(connection, created, [Happening(ServerEvent.MODULE_CREATED, _facts(record))])
        self.notifier.notify()
        return created

    def _tell(
        self, connection: Connection, record: ModuleRecord, happened: Sequence[Happening]
    ) -> None:
        """Append a module's events; those of models are left to ``tell_of_model``."""
        if record.folder is None:
            append_events(connection, of_module(record, *happened), self._clock())

    def tell_of_checkpoint(self, connection: Connection, manifest: CheckpointManifest) -> None:
        """Append the event that a module has a new or replaced checkpoint."""
        facts = {"checkpoint": str(manifest.tag), "job_id": manifest.job_id}
        happening = Happening(ServerEvent.MODULE_CHECKPOINTED, facts)
        self._tell(connection, module_outline(connection, manifest.module), [happening])

    def tell_of_model(self, record: ModuleRecord, happening: Happening) -> None:
        """Append an event of a model of the models folder, across the modules that serve it."""
        with self._store.write() as connection:
            append_events(connection, of_module(record, happening), self._clock())
        self.notifier.notify()

    def get(self, name: str) -> ModuleRecord:
        """Return a module; raise NotFound."""
        with self._store.read() as connection:
            return get_module(connection, name)

    def get_same(self, name: str, identity: int) -> ModuleRecord:
        """Return a module; raise NotFound if it was deleted, even if another one has its name."""
        record = self.get(name)
        if record.id != identity:
            hint = "it was deleted meanwhile, and another one has its name"
            raise NotFound("module", name, hint)
        return record

    def editions(self, names: Collection[str]) -> dict[str, Edition]:
        """Return id and version of those of the modules that exist."""
        with self._store.read() as connection:
            return module_editions(connection, names)

    def list_modules(
        self, cursor: str | None = None, limit: int = 50, wanted: ModuleFilter | None = None
    ) -> Page[ModuleRecord]:
        """Return a page of modules, by name; raise Invalid for a bad cursor or limit."""
        if cursor is not None:
            check_name(cursor, "cursor")
        with self._store.read() as connection:
            return list_modules(connection, wanted or ModuleFilter(), cursor, check_limit(limit))

    def unsaved(self, executors: Collection[str]) -> list[ModuleRecord]:
        """Return the modules of these executors whose parameters exist only in memory."""
        with self._store.read() as connection:
            return unsaved_modules(connection, executors)

    @tell_full_disk()
    def change(
        self,
        name: str,
        alter: Callable[[ModuleRecord], ModuleRecord],
        *,
        settles: bool = False,
        is_told: bool = True,
    ) -> ModuleRecord:
        """Write a changed record, with its events.

        Args:
            alter: returns the new record; symbols and name stay.
            settles: the module has new parameters, so the outcome of its last restore no longer
                applies and is cleared.
            is_told: False if another event reports the change.

        Raises:
            NotFound: there is no such module.
        """
        with self.directories.locked(name):
            return self._change(name, alter, settles, is_told)

    def _change(
        self,
        name: str,
        alter: Callable[[ModuleRecord], ModuleRecord],
        settles: bool,
        is_told: bool,
    ) -> ModuleRecord:
        # Retried, because rows also change without this lock; see ``RestoreLog.begin``.
        for _ in range(_MOST_TRIES):
            record = self.get(name)
            altered = alter(record).evolve(version=record.version + 1, updated_at=self._clock())
            try:
                with self.directories.replaced(altered), self._store.write() as connection:
                    if settles:
                        put_restoration(connection, record.id, RestoreStatus())
                    saved = save_module(connection, altered, record.version)
                    if is_told:
                        found = happenings(record, saved, has_new_params=settles)
                        self._tell(connection, saved, found)
            except PreconditionFailed:
                continue  # a restore or a crash changed the row meanwhile
            self.notifier.notify()
            return saved
        raise Unavailable(f"module {name!r} is changed by others all the time")

    def prepared(
        self,
        name: str,
        bind: BindSpec,
        init: InitSpec | None,
        optimizer: OptimizerSpec,
        labels: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
    ) -> ModuleRecord:
        """Record how a fit bound and prepared the module; existing labels stay."""

        def alter(record: ModuleRecord) -> ModuleRecord:
            changed = record.evolve(bind=bind, optimizer=optimizer)
            changed = changed.evolve(labels={**labels, **record.labels})
            if init is not None:
                return changed.with_init(init)
            if optimizer != record.optimizer:
                changed = changed.evolve(saved_states=False)
            # A fit that resumes from its job's own checkpoint has parameters again.
            return changed.evolve(lost=False)

        return self.change(name, alter, settles=init is not None)

    def saved(self, name: str, tag: CheckpointTag, *, saved_states: bool) -> ModuleRecord:
        """Record that a checkpoint now holds the module's parameters."""
        return self.change(
            name,
            lambda record: record.with_checkpoint(tag, saved_states=saved_states),
            settles=True,
            is_told=False,  # the checkpoint's own event does
        )

    def note_deleted(self, name: str, version: int) -> ModuleRecord:
        """Record that the version with the highest number is about to be deleted; the caller holds
        the module's lock."""

        def alter(record: ModuleRecord) -> ModuleRecord:
            highest = max(version, record.highest_deleted or 0)
            return record.evolve(highest_deleted=highest)

        return self._change(name, alter, settles=False, is_told=False)

    def mark_unsaved(self, name: str) -> ModuleRecord:
        """Mark a module that has, or is about to have, parameters that are in no checkpoint."""
        return self.change(name, lambda record: record.evolve(durable=False))

    def unmark(self, marked: ModuleRecord) -> ModuleRecord:
        """Undo a mark because nothing was changed after all, unless the record changed since.

        Args:
            marked: what ``mark_unsaved`` returned.
        """
        return self.change(
            marked.name,
            lambda record: record.evolve(durable=record.version == marked.version),
        )

    def require_idle(self, name: str) -> None:
        """Check that no job runs on a module, or is on its way to the executor.

        Raises:
            InUse: one does.
        """
        with self._store.read() as connection:
            job = running_job(connection, name)
        if job is not None:
            raise InUse(
                f"job {job} works on module {name!r}; cancel or pause the job, or wait for its end"
            )

    @tell_full_disk()
    def delete(self, name: str, only: int | None = None) -> None:
        """Remove a module with its finished jobs and all its files.

        Args:
            only: the id of the module that is meant, not another one that has its name meanwhile.

        Raises:
            NotFound: there is no such module.
            InUse: it has unfinished jobs.
        """
        with self.directories.locked(name):
            record = self.get(name) if only is None else self.get_same(name, only)
            with self._store.read() as connection:
                _check_unused(connection, name)
            with self.directories.deleted(name), self._store.write() as connection:
                module_id(connection, name, lock=True)
                _check_unused(connection, name)  # again: a job may have been submitted meanwhile
                delete_module(connection, record.id)
                forget_key_of(connection, MODULE_SCOPE, name)
                self._tell(connection, record, [Happening(ServerEvent.MODULE_DELETED, {})])
        self.notifier.notify()


def _facts(record: ModuleRecord) -> dict[str, str | None]:
    origin = None if record.origin is None else record.origin.module
    return {"kind": record.kind.value, "origin": origin}


def _check_unused(connection: Connection, name: str) -> None:
    if has_unfinished(connection, name):
        raise InUse(
            f"module {name!r} has unfinished jobs; "
            f"cancel those that GET /v1/jobs?module={name} lists"
        )


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
