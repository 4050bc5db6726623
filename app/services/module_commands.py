"""Modules alive: each call goes to the executor that has the module, then into its record."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import structlog

from app.domain.bucket_lengths import fill_lengths
from app.domain.checkpoint import CheckpointManifest, CheckpointTag
from app.domain.codec import to_plain
from app.domain.job import JobKind
from app.domain.job_params import parse_job_params
from app.domain.module import (
    BindSpec,
    BucketShapes,
    InitSpec,
    ModuleRecord,
    OptimizerSpec,
    ParamsSource,
    require,
)
from app.domain.origin import Head, Origin
from app.errors import Conflict, ExecutorGone, HostError, NotFound, ServiceError
from app.link import calls
from app.link.client import ExecutorClient, Reply, Tensors
from app.services.checkpoints import CheckpointService
from app.services.executors import Executors, tell
from app.services.incoming_checkpoint import IncomingCheckpoint
from app.services.modules import ModuleService
from app.services.restoration import init_call

__all__ = ["ModuleCommands"]

_log = structlog.get_logger(__name__)

_LONGEST_CHECK_SECONDS = 2.0

Alter = Callable[[ModuleRecord], ModuleRecord]


class ModuleCommands:
    """All calls on modules that need their executor.

    A call that changes a module is made on its executor first and then written to its record: what
    was refused leaves no trace, and what the record says can be brought about again.
    """

    def __init__(
        self, modules: ModuleService, checkpoints: CheckpointService, executors: Executors
    ) -> None:
        self._modules = modules
        self._checkpoints = checkpoints
        self._executors = executors
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._known: dict[str, ModuleRecord] = {}

    # -- life -------------------------------------------------------------------------------

    async def create(
        self,
        record: ModuleRecord,
        idempotency_key: str | None = None,
        digests: Mapping[str, str] | None = None,
    ) -> ModuleRecord:
        """Create a module: its symbols are parsed by the engine before it is remembered."""
        self._executors.check(record.executor, "executor")
        async with self._lock(record.name):
            client = self._executors.get(record.executor)
            is_new = await self._place(client, record) or await self._place_anew(client, record)
            try:
                created = await asyncio.to_thread(
                    self._modules.create, record, idempotency_key, digests
                )
            except ServiceError:
                if is_new:
                    await tell(client, calls.DeleteModule(module=record.name))
                raise
            self._known[created.name] = created
            return created

    async def create_from_files(
        self,
        record: ModuleRecord,
        tag: CheckpointTag,
        files: IncomingCheckpoint,
        *,
        allow_extra: bool = False,
        idempotency_key: str | None = None,
    ) -> ModuleRecord:
        """Create a module with a foreign checkpoint loaded; both or, where it is refused, neither.

        Args:
            record: the module.
            tag: of the checkpoint that the files become.
            files: received already.
            allow_extra: pass over what is no parameter of the module.
            idempotency_key: of the request.
        """
        digests = await asyncio.to_thread(files.digests)
        created = await self.create(record, idempotency_key, digests)
        if created.checkpoint is not None:
            return created  # by an earlier request of the same key
        try:
            await asyncio.to_thread(
                self._checkpoints.add_files, record.name, tag, files.files, is_whole=True
            )
            options = {"allow_extra": allow_extra, "check_states": True}
            return await self.load_checkpoint(record.name, tag, options)
        except Exception:
            await self.delete(record.name)
            raise

    async def derive(
        self, module: str, tag: CheckpointTag | None, output: str | None, head: Head | None
    ) -> ModuleRecord:
        """Return the record of another module, cut and with a new head, for one to be made of it.

        Args:
            module: the other module.
            tag: of its checkpoint to begin with; the newest where None.
            output: the internal output to cut at; None keeps the symbol.
            head: the new last layer.

        Raises:
            NotFound, Conflict: there is no such checkpoint, or none at all.
        """
        source = await self.record(module)
        tag = tag or source.checkpoint
        if tag is None:
            raise Conflict(
                f"module {module!r} has no checkpoint to begin from; save one first by "
                f"POST /v1/modules/{module}/checkpoints"
            )
        await asyncio.to_thread(self._checkpoints.get, module, tag)
        call = calls.CutSymbols(module=module, output=output, head=head)
        reply = await self.ask(source, call)
        reply.release()
        return ModuleRecord(
            name=module,
            kind=source.kind,
            symbols=reply.result["symbols"],
            default_bucket_key=source.default_bucket_key,
            origin=Origin(module=module, epoch=str(tag), output=output, head=head),
            data_names=tuple(reply.result["data_names"]),
            label_names=tuple(reply.result["label_names"]),
            state_names=tuple(reply.result["state_names"]),
        )

    async def create_derived(
        self, record: ModuleRecord, idempotency_key: str | None = None
    ) -> ModuleRecord:
        """Create a module made from another one, whose parameters it begins with.

        Without a new head it has all of them and they are loaded; else they are kept when the
        module is initialized.
        """
        created = await self.create(record, idempotency_key)
        base = self._checkpoints.base(created)
        if created.params is not None or (base is not None and base.is_dir()):
            return created  # by an earlier request of the same key
        assert record.origin is not None
        try:
            await asyncio.to_thread(self._checkpoints.take_over, record)
            if base is not None:
                return created
            tag = CheckpointTag.parse(record.origin.epoch)
            return await self.load_checkpoint(record.name, tag, {"allow_extra": True})
        except Exception:
            await self.delete(record.name)
            raise

    async def delete(self, name: str, etag: str | None = None) -> None:
        """Delete a module with its files; refused while it has unfinished jobs."""
        async with self._lock(name):
            record = await self.record(name)
            await asyncio.to_thread(self._modules.delete, name, etag=etag)
            self._known.pop(name, None)
            try:
                await tell(self._executors.get(record.executor), calls.DeleteModule(module=name))
            except (HostError, ExecutorGone):
                _log.info("a deleted module was not on its executor", module=name)

    async def record(self, name: str) -> ModuleRecord:
        """Return a module's record; raise NotFound."""
        return await asyncio.to_thread(self._modules.get, name)

    async def describe(self, name: str) -> tuple[ModuleRecord, dict[str, Any] | None]:
        """Return a module's record and what its executor knows of it, None while that is down."""
        record = await self.record(name)
        try:
            reply = await self.ask(record, calls.DescribeModule(module=name))
        except (ExecutorGone, HostError):
            return record, None
        reply.release()
        return record, reply.result

    # -- binding, parameters, optimizer -----------------------------------------------------

    async def bind(self, name: str, spec: BindSpec) -> ModuleRecord:
        """Bind a module, or bind it anew; its parameters stay.

        Axes that are left open make a bucket of each length.
        """
        spec = fill_lengths(await self.record(name), spec)
        call = calls.Bind(module=name, spec=spec)
        return await self._change(name, "bind", call, lambda record: record.evolve(bind=spec))

    async def reshape(self, name: str, shapes: BucketShapes) -> ModuleRecord:
        """Change the input shapes of a bound module."""
        call = calls.Reshape(
            module=name, data_shapes=shapes.data_shapes, label_shapes=shapes.label_shapes
        )

        def alter(record: ModuleRecord) -> ModuleRecord:
            assert record.bind is not None
            changed = dataclasses.replace(
                record.bind, data_shapes=shapes.data_shapes, label_shapes=shapes.label_shapes
            )
            return record.evolve(bind=changed)

        return await self._change(name, "reshape", call, alter)

    async def bind_bucket(self, name: str, key: str, shapes: BucketShapes) -> ModuleRecord:
        """Bind one more bucket of a bucketing module."""
        call = calls.BindBucket(module=name, key=key, shapes=shapes)

        def alter(record: ModuleRecord) -> ModuleRecord:
            assert record.bind is not None
            buckets = {**record.bind.buckets, key: shapes}
            return record.evolve(bind=dataclasses.replace(record.bind, buckets=buckets))

        return await self._change(name, "bind_bucket", call, alter)

    async def init_params(self, name: str, spec: InitSpec) -> ModuleRecord:
        """Initialize a module's parameters, but for those it keeps of another module."""
        call = init_call(self._checkpoints, await self.record(name), spec)
        return await self._change(
            name,
            "init_params",
            call,
            lambda record: record.evolve(init=spec, params=ParamsSource.INIT),
        )

    async def set_params(
        self, name: str, tensors: Tensors, options: Mapping[str, bool]
    ) -> ModuleRecord:
        """Set parameters from tensors by name."""
        call = calls.SetParams(module=name, **options)
        return await self._change(
            name,
            "set_params",
            call,
            lambda record: record.evolve(params=ParamsSource.SET),
            tensors,
        )

    async def init_optimizer(self, name: str, spec: OptimizerSpec) -> ModuleRecord:
        """Install an optimizer in the place of one that is there."""
        call = calls.InitOptimizer(module=name, spec=spec)
        return await self._change(
            name, "init_optimizer", call, lambda record: record.evolve(optimizer=spec)
        )

    async def set_learning_rate(self, name: str, learning_rate: float) -> ModuleRecord:
        """Set the learning rate of a module's optimizer."""
        call = calls.SetLearningRate(module=name, learning_rate=learning_rate)

        def alter(record: ModuleRecord) -> ModuleRecord:
            assert record.optimizer is not None
            options = {**record.optimizer.options, "learning_rate": learning_rate}
            return record.evolve(optimizer=dataclasses.replace(record.optimizer, options=options))

        return await self._change(name, "set_learning_rate", call, alter)

    async def set_optimizer_states(self, name: str, states: bytes) -> None:
        """Set the optimizer's states from the bytes of a ``.states`` file."""
        async with self._lock(name):
            tensors = {"states": np.frombuffer(states, dtype=np.uint8)}
            call = calls.SetOptimizerStates(module=name)
            (await self.ask_at(name, "optimizer_states", call, tensors)).release()

    # -- jobs ---------------------------------------------------------------------------------

    async def check_job(self, name: str, kind: JobKind, params: Any) -> None:
        """Refuse a job that the module's executor could only fail when its turn has come.

        An executor that is down, or busy with a long batch, refuses nothing: the job may wait.

        Raises:
            NotFound: there is no such module.
            Invalid, HostError: a parameter has a value it cannot take.
        """
        checked = parse_job_params(kind, params)
        record = await self.record(name)
        call = calls.CheckJob(kind=kind, params=to_plain(checked))
        try:
            async with asyncio.timeout(_LONGEST_CHECK_SECONDS):
                (await self.ask(record, call)).release()
        except (ExecutorGone, TimeoutError) as error:
            _log.info("a job was not checked", module=name, reason=str(error) or "busy")

    # -- checkpoints ------------------------------------------------------------------------

    async def save_checkpoint(
        self, name: str, epoch: int, optimizer_states: bool
    ) -> CheckpointManifest:
        """Save the module's present state as the checkpoint of an epoch."""
        call = calls.SaveCheckpoint(
            module=name,
            root=str(self._checkpoints.root(name)),
            epoch=epoch,
            optimizer_states=optimizer_states,
        )
        async with self._lock(name):
            record = await self.record(name)
            require(record, "save_checkpoint")
            await tell(self._executors.get(record.executor), call)
            return await asyncio.to_thread(self._checkpoints.saved, name, CheckpointTag(epoch))

    async def load_checkpoint(
        self, name: str, tag: CheckpointTag, options: Mapping[str, bool]
    ) -> ModuleRecord:
        """Take the parameters, and on request the optimizer's states, of a checkpoint."""
        directory = await asyncio.to_thread(self._checkpoints.verify, name, tag)
        call = calls.LoadCheckpoint(module=name, directory=str(directory), **options)

        def alter(record: ModuleRecord) -> ModuleRecord:
            if call.allow_missing:  # what it lacked is in memory only
                return record.evolve(params=ParamsSource.SET)
            return record.evolve(params=ParamsSource.CHECKPOINT, checkpoint=tag)

        return await self._change(name, "load", call, alter)

    # -- any call ---------------------------------------------------------------------------

    async def ask(
        self, record: ModuleRecord, call: calls.Call, tensors: Tensors | None = None
    ) -> Reply:
        """Make a call that leaves the record as it is; the caller releases the reply."""
        method, params = calls.to_call(call)
        return await self._executors.get(record.executor).call(method, params, tensors)

    async def ask_at(
        self, name: str, stage_of: str, call: calls.Call, tensors: Tensors | None = None
    ) -> Reply:
        """Make such a call after checking that the module is far enough for it."""
        record = await self.record(name)
        require(record, stage_of)
        return await self.ask(record, call, tensors)

    async def known(self, name: str) -> ModuleRecord:
        """Return a module's record for what never changes of it: executor, kind, names.

        Predictions are looked up here, without a query each.
        """
        if name not in self._known:
            self._known[name] = await self.record(name)
        return self._known[name]

    async def _change(
        self,
        name: str,
        stage_of: str,
        call: calls.Call,
        alter: Alter,
        tensors: Tensors | None = None,
    ) -> ModuleRecord:
        async with self._lock(name):
            record = await self.record(name)
            require(record, stage_of)
            client = self._executors.get(record.executor)
            method, params = calls.to_call(call)
            reply = await client.call(method, params, tensors)
            reply.release()
            return await asyncio.to_thread(self._modules.change, name, alter)

    async def _place(self, client: ExecutorClient, record: ModuleRecord) -> bool:
        """Put a module on an executor; False where one of the name is there already."""
        try:
            await tell(client, calls.CreateModule(record=record))
        except HostError as error:
            if error.code != "already_exists":
                raise
            return False
        return True

    async def _place_anew(self, client: ExecutorClient, record: ModuleRecord) -> bool:
        """Replace a module of an executor that the store knows no more; False where it does.

        Another server may have deleted it, which could not tell this one's executor.
        """
        try:
            await self.record(record.name)
        except NotFound:
            await tell(client, calls.DeleteModule(module=record.name))
            return await self._place(client, record)
        return False

    @asynccontextmanager
    async def _lock(self, name: str) -> AsyncIterator[None]:
        # Who has it or waits for it keeps it alive; the next one after them makes another.
        lock = self._locks.setdefault(name, asyncio.Lock())
        async with lock:
            yield
