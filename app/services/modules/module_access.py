"""Makes calls on modules. A module that is not on its device is restored first; before a call whose
effect exists only in memory, the module is marked as not durable."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeAlias
from weakref import WeakValueDictionary

import structlog

from app.domain.instances import check_instances
from app.domain.module import ModuleRecord, require
from app.domain.serving import ServingSpec
from app.domain.transforms import Transform
from app.errors.http import error_code
from app.errors.tree import (
    Conflict,
    ExecutorGone,
    HostError,
    NotFound,
    ParamsLost,
    ServiceError,
    Unavailable,
)
from app.link import calls
from app.link.client import Reply, Tensors
from app.services.access.preconditions import check_etag, is_expected
from app.services.modules.checkpoints import CheckpointService
from app.services.modules.modules import ModuleService
from app.services.modules.restoration import Restoration
from app.services.operations.executors import Executors, tell
from app.services.predictions.state_links import check_state_links

__all__ = ["ModuleAccess"]

_log = structlog.get_logger(__name__)

_LONGEST_LOOK_SECONDS = 0.25
_MOST_RESTORES = 3
"""Per call: other modules may need the memory, and evict the module before the call arrives."""
_MAY_HAVE_CHANGED = frozenset({"internal", "out_of_memory", "unavailable"})
"""Codes of errors after which a call may be half done."""

Alter: TypeAlias = Callable[[ModuleRecord], ModuleRecord]
Watch: TypeAlias = Callable[[str, ModuleRecord | None], None]
"""Called with a module's name and its new record, None when the module is deleted."""


class ModuleAccess:
    """Makes calls on modules, and updates their records accordingly."""

    def __init__(
        self,
        modules: ModuleService,
        checkpoints: CheckpointService,
        executors: Executors,
        restoration: Restoration,
    ) -> None:
        self._modules = modules
        self._checkpoints = checkpoints
        self._executors = executors
        self._restoration = restoration
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._known: dict[str, ModuleRecord] = {}
        self._published: dict[str, str] = {}
        self._watches: list[Watch] = []

    def watch(self, watch: Watch) -> None:
        """Register a callback for changed records, called as soon as predictions see them."""
        self._watches.append(watch)

    # -- models of the models folder ----------------------------------------------------------

    def publish(self, record: ModuleRecord) -> None:
        """Serve a module under its model's name, from the next call on.

        Meanwhile a client's own module of that name is hidden and cannot be changed.
        """
        self._published[record.public_name] = record.name
        self._known[record.public_name] = record
        self.remember(record)

    async def withdraw(self, model: str) -> None:
        """Stop serving a model; a client's own module of that name is visible again."""
        try:
            own: ModuleRecord | None = await asyncio.to_thread(self._modules.get, model)
        except NotFound:
            own = None
        del self._published[model]
        self.forget(model)
        if own is not None:
            self.remember(own)

    def actual(self, name: str) -> str:
        """Resolve a public name to the name of its module."""
        return self._published.get(name, name)

    def is_visible(self, record: ModuleRecord) -> bool:
        """Return whether clients see a module.

        Hidden are modules of models that are still being loaded or were replaced, and clients' own
        modules while a model has their name.
        """
        if record.folder is None:
            return record.name not in self._published
        return self._published.get(record.folder.model) == record.name

    def check_changeable(self, name: str) -> None:
        """Raise Conflict for the name of a model of the models folder, or of its module."""
        for model, module in self._published.items():
            if name in (model, module):
                raise Conflict(
                    f"module {model!r} is served from the models folder; change its files there, "
                    "or make a module of your own from it by POST /v1/modules with `from`"
                )

    # -- calls --------------------------------------------------------------------------------

    async def record(self, name: str) -> ModuleRecord:
        """Return a module's record; raise NotFound."""
        return await asyncio.to_thread(self._modules.get, self.actual(name))

    def remember(self, record: ModuleRecord) -> None:
        """Cache a module's record, and notify the watchers."""
        self._known[record.name] = record
        for watch in self._watches:
            watch(record.name, record)

    def refresh(self, record: ModuleRecord) -> None:
        """Cache a record that a job has changed, unless a newer one is cached."""
        known = self._known.get(record.name)
        if known is not None and known.id == record.id and known.version < record.version:
            self.remember(record)

    def forget(self, name: str) -> None:
        """Drop a deleted module's record from the cache, and notify the watchers."""
        self._known.pop(name, None)
        for watch in self._watches:
            watch(name, None)

    async def ask(
        self, record: ModuleRecord, call: calls.Call, tensors: Tensors | None = None
    ) -> Reply:
        """Make a call that leaves the record as it is; the caller releases the reply.

        A module that is not on its device is restored first.
        """
        method, params = calls.to_call(call)
        client = self._executors.get(record.executor)
        for _ in range(_MOST_RESTORES):
            try:
                return await client.call(method, params, tensors)
            except HostError as error:
                if error.code == "params_lost":
                    raise await self.explained(record.name) from error
                if error.code != "not_resident":
                    raise
            await self._restoration.restore(record.name)
        return await client.call(method, params, tensors)

    async def ask_at(
        self, name: str, stage_of: str, call: calls.Call, tensors: Tensors | None = None
    ) -> Reply:
        """Check that the module is in a stage that allows a call, then ``ask``."""
        record = await self._require(name, stage_of)
        return await self.ask(record, call, tensors)

    async def step(
        self, name: str, stage_of: str, call: calls.Call, tensors: Tensors | None = None
    ) -> Reply:
        """Make a call that changes parameters or states in a way that no record can reproduce.

        A pass that turns out not to change them leaves the module as durable as it was.
        """
        async with self.lock(name):
            record = await self._require(name, stage_of)
            if not isinstance(call, calls.PassCall):
                return await self._unsettle(record, call, tensors)
            marked = dataclasses.replace(call, is_marked=not record.durable)
            try:
                return await self.ask(record, marked, tensors)
            except HostError as error:
                if error.code != "would_change":
                    raise
            marked = dataclasses.replace(call, is_marked=True)
            return await self._unsettle(record, marked, tensors)

    async def known(self, name: str) -> ModuleRecord:
        """Return a module's cached record; use only what seldom changes: executor, kind, names,
        serving.

        It saves predictions a query each.
        """
        if name not in self._known:
            record = await self.record(name)
            if name not in self._known:  # else a change has cached a newer one
                self.remember(record)
                self._known[name] = record  # the name may be that of a model, not the module's
        return self._known[name]

    def known_now(self, name: str) -> ModuleRecord | None:
        """Return the cached record; None if ``known`` would need a query."""
        return self._known.get(name)

    def known_modules(self) -> list[ModuleRecord]:
        """Return all cached records."""
        return list({record.name: record for record in self._known.values()}.values())

    async def drop_deleted(self, record: ModuleRecord) -> None:
        """Forget a module, here and on its executor, if another server has deleted it."""
        name = record.name
        async with self.lock(name, changes=False):
            try:
                await asyncio.to_thread(self._modules.get_same, name, record.id)
            except NotFound:
                known = self._known.get(name)
                if known is None or known.id != record.id:
                    return
                self.forget(name)
                _log.info("another server has deleted a module", module=name)
                if record.executor in self._executors.names:
                    await self._put_away(record)

    async def bring_back(self, name: str) -> None:
        """Restore a module on its device."""
        await self._restoration.restore(name)

    async def serve(self, name: str, change: Callable[[ServingSpec], ServingSpec]) -> ModuleRecord:
        """Change how a module is served, for predictions from here on.

        Raises:
            Invalid: the states do not fit the module.
        """
        return await self._change_record(
            name, lambda record: record.evolve(serving=change(record.serving))
        )

    async def label(self, name: str, output: str, labels: tuple[str, ...] | None) -> ModuleRecord:
        """Set the labels of an output's classes; None removes them."""

        def alter(record: ModuleRecord) -> ModuleRecord:
            others = {one: names for one, names in record.labels.items() if one != output}
            return record.evolve(labels=others if labels is None else {**others, output: labels})

        return await self._change_record(name, alter)

    async def set_transform(
        self, name: str, input: str, transform: Transform | None
    ) -> ModuleRecord:
        """Set the transform that turns an image or a text into an input; None removes it."""

        def alter(record: ModuleRecord) -> ModuleRecord:
            others = {one: known for one, known in record.transforms.items() if one != input}
            changed = others if transform is None else {**others, input: transform}
            return record.evolve(transforms=changed)

        return await self._change_record(name, alter)

    async def _change_record(self, name: str, alter: Alter) -> ModuleRecord:
        async with self.lock(name):
            before = await self.record(name)
            is_leaving = before.serving.is_loaded and not alter(before).serving.is_loaded
            if is_leaving and not before.durable and not before.lost:
                path = f"/v1/modules/{name}/checkpoints"
                raise Conflict(
                    f"the parameters of module {name!r} are in memory alone and would be lost; "
                    f"save them by POST {path} first"
                )
            if is_leaving:
                # The executor does not know of a job yet that was only just claimed.
                await asyncio.to_thread(self._modules.require_idle, name)
            instances = alter(before).serving.instances
            if instances != before.serving.instances:
                self._executors.get(before.executor)
                check_instances(before.executor, instances, self._executors.names)
            states = alter(before).serving.states
            if states and states != before.serving.states:
                reply = await self.ask(before, calls.DescribeModule(module=name))
                check_state_links(before, states, reply.result["output_names"])
            record = await self.note(name, alter)  # first, so that no prediction restores it
            if is_leaving:
                await self._leave(record, before.serving)
            return record

    async def note(self, name: str, alter: Alter) -> ModuleRecord:
        """Change a module's record without a call; the caller must hold its lock."""
        record = await asyncio.to_thread(self._modules.change, name, alter)
        self.remember(record)
        return record

    async def _leave(self, record: ModuleRecord, before: ServingSpec) -> None:
        """Evict a module that was unloaded; if the executor refuses, revert how it is served."""
        client = self._executors.get(record.executor)
        try:
            await tell(client, calls.DeleteModule(module=record.name))
            await asyncio.to_thread(self._restoration.note_eviction, record.name)
        except ExecutorGone:
            pass  # and the module with it
        except HostError as error:
            if error.code == "not_resident":
                return
            stay = partial(ModuleRecord.evolve, serving=before)
            self.remember(await asyncio.to_thread(self._modules.change, record.name, stay))
            raise

    async def change(
        self,
        name: str,
        stage_of: str,
        call: calls.Call,
        alter: Alter,
        tensors: Tensors | None = None,
        *,
        is_durable: bool = True,
        settles: bool = False,
    ) -> ModuleRecord:
        """Make a call and change the record.

        Args:
            is_durable: False if the new record is not enough to reproduce the change.
            settles: see ``ModuleService.change``.
        """
        async with self.lock(name):
            await self._require(name, stage_of)
            if not settles:
                return await self._change(name, call, alter, tensors, is_durable, settles)
            async with self._restoration.given_params(name):
                return await self._change(name, call, alter, tensors, is_durable, settles)

    async def _change(
        self,
        name: str,
        call: calls.Call,
        alter: Alter,
        tensors: Tensors | None,
        is_durable: bool,
        settles: bool,
    ) -> ModuleRecord:
        record = await self.record(name)
        ask = self.ask if is_durable else self._unsettle
        is_restorable = is_durable and record.durable
        try:
            reply = await ask(record, call, tensors)
            reply.release()
        except HostError as error:
            # If it cannot be restored, a half-changed module is still better than none.
            if is_restorable and error.code in _MAY_HAVE_CHANGED:
                await self._put_away(record)
            raise
        if settles:
            alter = partial(_settled, alter, has_unsaved=reply.result["has_unsaved"])
        try:
            changed = await asyncio.to_thread(self._modules.change, name, alter, settles=settles)
        except ServiceError:
            if is_restorable or (is_durable and settles):
                await self._put_away(record)
            raise
        self.remember(changed)
        return changed

    async def _put_away(self, record: ModuleRecord) -> None:
        """Evict a module that does not match its record, so that the next call restores it."""
        client = self._executors.get(record.executor)
        try:
            await tell(client, calls.DeleteModule(module=record.name))
        except (HostError, ExecutorGone) as error:
            _log.warning(
                "a module is not as its record says", module=record.name, reason=str(error)
            )

    async def _unsettle(
        self, record: ModuleRecord, call: calls.Call, tensors: Tensors | None
    ) -> Reply:
        """Mark a module as not durable, then make a call.

        The mark is removed only if the call was refused and so changed nothing. If the server dies
        meanwhile, the mark stays: it is better to report parameters as lost than to silently
        restore older ones.
        """
        if not record.durable:
            return await self.ask(record, call, tensors)
        method, params = calls.to_call(call)
        client = self._executors.get(record.executor)
        for _ in range(_MOST_RESTORES):
            if not client.is_alive():
                raise ExecutorGone(f"executor {client.name} is down; try again in a moment")
            # Restore before marking: a marked module that is not on its device counts as lost.
            if record.name not in await self._restoration.resident(client):
                await self._restoration.restore(record.name)
            async with self._restoration.kept_off(record.name):
                marked = await asyncio.to_thread(self._modules.mark_unsaved, record.name)
                try:
                    return await client.call(method, params, tensors)
                except (HostError, ServiceError) as error:
                    code = error_code(error)
                    if code not in _MAY_HAVE_CHANGED:
                        await asyncio.to_thread(self._modules.unmark, marked)
                    if code != "not_resident":
                        raise
            # It was evicted, intact, between the check and the call.
        raise Unavailable(f"module {record.name!r} is evicted for others each time it is restored")

    async def _require(self, name: str, stage_of: str) -> ModuleRecord:
        record = await self.record(name)
        try:
            require(record, stage_of)
        except ParamsLost:
            raise await self.explained(name) from None
        return record

    async def explained(self, name: str) -> ParamsLost:
        """Return the error that lists the checkpoints to recover lost parameters from."""
        page = await asyncio.to_thread(self._checkpoints.list_checkpoints, name)
        return ParamsLost(name, [str(manifest.tag) for manifest in page.items])

    async def _on_device(self, executor: str) -> frozenset[str] | None:
        try:
            async with asyncio.timeout(_LONGEST_LOOK_SECONDS):
                return await self._restoration.resident(self._executors.get(executor))
        except (ExecutorGone, TimeoutError):
            return None

    async def is_there(self, name: str) -> bool:
        """Return whether a module of this name exists."""
        try:
            await self.record(name)
        except NotFound:
            return False
        return True

    async def resident(self, records: Sequence[ModuleRecord]) -> list[bool | None]:
        """Return for each module whether it is on its device; None if its executor does not
        answer."""
        names = {record.executor for record in records}
        known = dict(
            zip(names, await asyncio.gather(*(self._on_device(one) for one in names)), strict=True)
        )
        found = [(record.name, known[record.executor]) for record in records]
        return [None if there is None else name in there for name, there in found]

    @asynccontextmanager
    async def lock(self, name: str, *, changes: bool = True) -> AsyncIterator[None]:
        """Lock a module for a block, against other changes through this server.

        Args:
            changes: refuse a model of the models folder.
        """
        if changes:
            self.check_changeable(name)
        # The dictionary is weak: a lock exists as long as somebody holds it or waits for it.
        lock = self._locks.setdefault(name, asyncio.Lock())
        async with lock:
            await self.check_expected(name)
            yield

    async def check_expected(self, name: str) -> None:
        """Raise PreconditionFailed if the request expects another ETag of a module."""
        if is_expected():
            check_etag(f"module {name!r}", (await self.record(name)).etag)


def _settled(alter: Alter, record: ModuleRecord, *, has_unsaved: bool) -> ModuleRecord:
    """Return the record after a call that set parameters: durable if none of them is unsaved."""
    return alter(record).evolve(durable=not has_unsaved)
