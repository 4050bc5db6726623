"""Commands on modules: each is sent to the module's executor, then written to its record."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import structlog

from app.domain.bucket_lengths import fill_lengths, shapes_for
from app.domain.checkpoint import CheckpointManifest, CheckpointTag
from app.domain.codec import from_plain
from app.domain.job_params import names_parts
from app.domain.module import (
    BindSpec,
    BucketShapes,
    InitSpec,
    ModuleKind,
    ModuleRecord,
    OptimizerSpec,
    symbol_field,
)
from app.domain.origin import Head, Origin
from app.errors.tree import Conflict, ExecutorGone, HostError, ServiceError, Unavailable
from app.link import calls
from app.link.client import ExecutorClient, Tensors
from app.services.jobs.submissions import Submission
from app.services.modules.checkpoints import CheckpointService
from app.services.modules.incoming_checkpoint import IncomingCheckpoint
from app.services.modules.live_views import LiveViews
from app.services.modules.module_access import ModuleAccess
from app.services.modules.modules import ModuleService
from app.services.modules.restoration import TRANSIENT, Restoration, init_call
from app.services.modules.upload_findings import Findings, GivenNames, inspect
from app.services.operations.executors import Executors, tell

__all__ = ["ModuleCommands"]

_log = structlog.get_logger(__name__)

_LONGEST_CHECK_SECONDS = 2.0
_MOST_SOUND_JOBS = 1000


class ModuleCommands:
    """All calls on modules that need their executor.

    A call that changes a module is made on its executor first and then written to its record, so a
    refused call leaves no trace, and whatever the record says can be reproduced. If a call's effect
    cannot be reproduced from the record, the module is marked as not durable before the call.
    """

    def __init__(
        self,
        modules: ModuleService,
        checkpoints: CheckpointService,
        executors: Executors,
        restoration: Restoration,
        access: ModuleAccess,
        max_nodes: int,
    ) -> None:
        """Prepare.

        Args:
            max_nodes: limit on the nodes of a new module's symbols.
        """
        self._modules = modules
        self._checkpoints = checkpoints
        self._executors = executors
        self._restoration = restoration
        self._access = access
        self.max_nodes = max_nodes
        self._sound_jobs: set[str] = set()
        self._live_views = LiveViews(executors)

    # -- lifecycle --------------------------------------------------------------------------

    async def create(
        self,
        record: ModuleRecord,
        idempotency_key: str | None = None,
        digests: Mapping[str, str] | None = None,
    ) -> ModuleRecord:
        """Create a module; the engine parses its symbols before it is stored."""
        self._executors.check(record.executor, "executor")
        async with self._access.lock(record.name):
            client = self._executors.get(record.executor)
            if await self._access.is_there(record.name):  # replayed key, or name conflict
                return await asyncio.to_thread(
                    self._modules.create, record, idempotency_key, digests
                )
            is_new = await self._place(client, record) or await self._place_anew(client, record)
            try:
                created = await asyncio.to_thread(
                    self._modules.create, record, idempotency_key, digests
                )
            except ServiceError:
                if is_new:
                    await tell(client, calls.DeleteModule(module=record.name))
                raise
            self._access.remember(created)
            return created

    async def inspect(
        self, record: ModuleRecord, given: GivenNames, params: Path | None = None
    ) -> Findings | None:
        """Infer the inputs of a module that is to be created, and shapes that fit.

        Args:
            record: the module, without input names.
            given: the input names that the client gave.
            params: the file of its parameters, if there is one.

        Returns:
            None if the default bucket has no symbol, so that the module cannot be created.
        """
        self._executors.check(record.executor, "executor")
        key = record.default_bucket_key
        if key not in record.symbols:
            return None
        call = calls.InspectModel(
            symbol=record.symbols[key],
            params=None if params is None else str(params),
            field=symbol_field(key),
            max_nodes=self.max_nodes,
            **given,
        )
        return await inspect(self._executors.get(record.executor), call)

    async def create_from_files(
        self,
        record: ModuleRecord,
        tag: CheckpointTag,
        files: IncomingCheckpoint,
        *,
        allow_extra: bool = False,
        idempotency_key: str | None = None,
    ) -> ModuleRecord:
        """Create a module and load a foreign checkpoint; if that fails, delete the module.

        Args:
            record: the module.
            tag: of the checkpoint that the files become.
            files: already received.
            allow_extra: skip parameters that the module does not have.
            idempotency_key: of the request.
        """
        digests = await asyncio.to_thread(files.digests)
        created = await self.create(record, idempotency_key, digests)
        if created.checkpoint is not None:
            return created  # by an earlier request with the same key
        try:
            add = partial(self._checkpoints.add_files, is_whole=True, of=created)
            await asyncio.to_thread(add, record.name, tag, files.files)
            options = {"allow_extra": allow_extra, "check_states": True}
            return await self.load_checkpoint(record.name, tag, options)
        except Exception:
            await self.delete(record.name, created.id)
            raise

    async def derive(
        self, module: str, tag: CheckpointTag | None, output: str | None, head: Head | None
    ) -> ModuleRecord:
        """Return the record for a module derived from another one, cut and with a new head.

        Args:
            module: the other module.
            tag: of its checkpoint to start from; None for the newest.
            output: the internal output to cut at; None keeps the symbol.
            head: the new last layer.

        Raises:
            NotFound: there is no such module or checkpoint.
            Conflict: the module has no checkpoint.
        """
        source = await self._access.record(module)
        module = source.name  # resolved, for a model of the models folder
        tag = tag or source.checkpoint
        if tag is None:
            raise Conflict(
                f"module {module!r} has no checkpoint to begin from; save one first by "
                f"POST /v1/modules/{module}/checkpoints"
            )
        await asyncio.to_thread(self._checkpoints.get, module, tag)
        call = calls.CutSymbols(module=module, output=output, head=head)
        reply = await self._access.ask(source, call)
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
        """Create a module derived from another one, and start with that one's parameters.

        Without a new head they are loaded at once. With one they are stored, and initializing the
        module keeps them and fills in only the rest.
        """
        created = await self.create(record, idempotency_key)
        base = self._checkpoints.base(created)
        if created.params is not None or (base is not None and base.is_dir()):
            return created  # by an earlier request with the same key
        assert record.origin is not None
        try:
            await asyncio.to_thread(self._checkpoints.take_over, record)
            if base is not None:
                return created
            tag = CheckpointTag.parse(record.origin.epoch)
            return await self.load_checkpoint(record.name, tag, {"allow_extra": True})
        except Exception:
            await self.delete(record.name, created.id)
            raise

    async def delete(self, name: str, only: int | None = None) -> None:
        """Delete a module with its files; see ``ModuleService.delete``."""
        async with self._access.lock(name):
            record = await self._access.record(name)
            await asyncio.to_thread(self._modules.delete, name, only)  # executors die with us
            self._access.forget(name)
            try:
                await tell(self._executors.get(record.executor), calls.DeleteModule(module=name))
            except (HostError, ExecutorGone):
                _log.info("a deleted module was not on its executor", module=name)

    async def describe(self, name: str) -> tuple[ModuleRecord, dict[str, Any] | None]:
        """Return a module's record, and its executor's description; see ``LiveViews.of``."""
        record = await self._access.record(name)
        return record, await self._live_views.of(record)

    async def restore(self, name: str) -> ModuleRecord:
        """Restore a module on its device, even if that failed before."""
        async with self._access.lock(name, changes=False):
            await self._restoration.retry(name)
            record = await self._access.record(name)
            self._access.remember(record)  # so that its instances are retried, too
            return record

    # -- binding, parameters, optimizer -----------------------------------------------------

    async def bind(self, name: str, spec: BindSpec) -> ModuleRecord:
        """Bind or rebind a module; its parameters stay.

        Open axes make one bucket for each length.
        """
        record = await self._access.record(name)
        spec = fill_lengths(record, await self._completed(record, spec))
        call = calls.Bind(module=name, spec=spec)
        return await self._access.change(
            name, "bind", call, lambda record: record.evolve(bind=spec)
        )

    async def _completed(self, record: ModuleRecord, spec: BindSpec) -> BindSpec:
        """Return a specification with the shapes of all inputs; missing ones are inferred.

        Shapes of labels are needed for training, and if the outputs depend on labels.
        """
        given = {one.name for one in spec.data_shapes}
        is_odd = len(given) < len(spec.data_shapes) or not given <= {*record.data_names}
        if is_odd or (given and record.kind is ModuleKind.BUCKETING):
            return spec
        labels = {one.name for one in spec.label_shapes}
        lacks_labels = not spec.for_training and not labels >= {*record.label_names}
        if given == {*record.data_names} and not lacks_labels:
            return spec
        call = calls.ProposeShapes(
            module=record.name,
            data_shapes=spec.data_shapes,
            label_shapes=spec.label_shapes,
            for_training=spec.for_training,
        )
        reply = await self._access.ask(record, call)
        reply.release()
        shapes = from_plain(BucketShapes, reply.result)
        return dataclasses.replace(
            spec, data_shapes=shapes.data_shapes, label_shapes=shapes.label_shapes
        )

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

        return await self._access.change(name, "reshape", call, alter)

    async def bind_bucket(self, name: str, key: str, shapes: BucketShapes) -> ModuleRecord:
        """Bind one more bucket of a bucketing module."""
        call = calls.BindBucket(module=name, key=key, shapes=shapes)

        def alter(record: ModuleRecord) -> ModuleRecord:
            assert record.bind is not None
            buckets = {**record.bind.buckets, key: shapes}
            return record.evolve(bind=dataclasses.replace(record.bind, buckets=buckets))

        return await self._access.change(name, "bind_bucket", call, alter)

    async def change_buckets(self, name: str, lengths: Collection[int]) -> ModuleRecord:
        """Replace the buckets of a module whose bucket keys are lengths.

        Predictions continue meanwhile; they use a new bucket once it is warm.

        Args:
            lengths: of all buckets, including the default one.
        """
        record = await self._access.record(name)
        assert record.bind is not None
        bound = record.bind.buckets
        buckets = {
            str(one): bound.get(str(one)) or shapes_for(record, one)
            for one in lengths
            if str(one) != record.default_bucket_key
        }
        call = calls.ChangeBuckets(
            module=name, buckets=buckets, max_batch_size=record.serving.max_batch_size
        )

        def alter(record: ModuleRecord) -> ModuleRecord:
            assert record.bind is not None
            return record.evolve(bind=dataclasses.replace(record.bind, buckets=buckets))

        return await self._access.change(name, "bind_bucket", call, alter)

    async def warm_up(self, name: str) -> None:
        """Prepare ahead of time what a module's first predictions would have to wait for."""
        await self._access.check_expected(name)  # without the lock: nothing of the module changes
        record = await self._access.record(name)
        call = calls.WarmUp(module=name, max_batch_size=record.serving.max_batch_size)
        (await self._access.ask_at(name, "predict", call)).release()

    async def init_params(self, name: str, spec: InitSpec) -> ModuleRecord:
        """Initialize a module's parameters, except those that it keeps from another module."""
        call = init_call(self._checkpoints, await self._access.record(name), spec)
        return await self._access.change(
            name,
            "init_params",
            call,
            lambda record: record.with_init(spec),
            is_durable=spec.seed is not None,
            settles=True,
        )

    async def set_params(
        self, name: str, tensors: Tensors, options: Mapping[str, bool]
    ) -> ModuleRecord:
        """Set parameters from tensors by name."""
        call = calls.SetParams(module=name, **options)
        return await self._access.change(
            name,
            "set_params",
            call,
            ModuleRecord.with_set_params,
            tensors,
            is_durable=False,
            settles=True,
        )

    async def init_optimizer(self, name: str, spec: OptimizerSpec) -> ModuleRecord:
        """Install an optimizer, replacing an existing one."""
        call = calls.InitOptimizer(module=name, spec=spec)
        return await self._access.change(
            name,
            "init_optimizer",
            call,
            lambda record: record.evolve(optimizer=spec, saved_states=False),
        )

    async def set_learning_rate(self, name: str, learning_rate: float) -> ModuleRecord:
        """Set the learning rate of a module's optimizer."""
        call = calls.SetLearningRate(module=name, learning_rate=learning_rate)

        def alter(record: ModuleRecord) -> ModuleRecord:
            assert record.optimizer is not None
            options = {**record.optimizer.options, "learning_rate": learning_rate}
            return record.evolve(optimizer=dataclasses.replace(record.optimizer, options=options))

        return await self._access.change(name, "set_learning_rate", call, alter)

    async def set_optimizer_states(self, name: str, states: bytes) -> None:
        """Set the optimizer's states from the bytes of a ``.states`` file."""
        tensors = {"states": np.frombuffer(states, dtype=np.uint8)}
        call = calls.SetOptimizerStates(module=name)
        (await self._access.step(name, "optimizer_states", call, tensors)).release()

    # -- jobs ---------------------------------------------------------------------------------

    async def check_job(self, submission: Submission) -> None:
        """Refuse a job that the module's executor could only fail later.

        If the executor is down or busy with a long batch, or the module cannot be restored now, the
        job is accepted unchecked, because it can wait in the queue.

        Raises:
            NotFound: there is no such module.
            Conflict: it is served from the models folder.
            Invalid, HostError: a parameter has an invalid value.
        """
        name = submission.module
        self._access.check_changeable(name)
        record = await self._access.known(name)
        owner = name if names_parts(submission.params) else None
        call = calls.CheckJob(kind=submission.kind, params=submission.plain, module=owner)
        digest = submission.params_digest
        if owner is None and digest in self._sound_jobs:  # the answer depends on nothing else
            return
        try:
            async with asyncio.timeout(_LONGEST_CHECK_SECONDS):
                (await self._access.ask(record, call)).release()
        except (ExecutorGone, TimeoutError, Conflict, Unavailable) as error:
            _log.info("a job was not checked", module=name, reason=str(error) or "busy")
            return
        except HostError as error:
            if error.code not in TRANSIENT:
                raise
            _log.info("a job was not checked", module=name, reason=error.message)
            return
        if len(self._sound_jobs) >= _MOST_SOUND_JOBS:
            self._sound_jobs.clear()
        if owner is None:
            self._sound_jobs.add(digest)

    # -- checkpoints ------------------------------------------------------------------------

    async def save_checkpoint(
        self, name: str, epoch: int, optimizer_states: bool
    ) -> CheckpointManifest:
        """Save the module's current state as the checkpoint of an epoch."""
        tag, root = CheckpointTag(epoch), str(self._checkpoints.root(name))
        call = calls.SaveCheckpoint(
            module=name, root=root, epoch=epoch, optimizer_states=optimizer_states
        )
        async with self._access.lock(name):  # until recorded, lest a step be counted as saved
            await asyncio.to_thread(self._checkpoints.require_savable, name, tag)
            (await self._access.ask_at(name, "save_checkpoint", call)).release()
            return await asyncio.to_thread(self._checkpoints.saved, name, tag)

    async def load_checkpoint(
        self, name: str, tag: CheckpointTag, options: Mapping[str, bool]
    ) -> ModuleRecord:
        """Load a checkpoint's parameters and, on request, its optimizer states."""
        directory = await asyncio.to_thread(self._checkpoints.verify, name, tag)
        etag = (await asyncio.to_thread(self._checkpoints.get, name, tag)).etag
        call = calls.LoadCheckpoint(module=name, directory=str(directory), **options)

        def alter(record: ModuleRecord) -> ModuleRecord:
            if call.allow_missing:  # parameters that it lacks exist only in memory
                return record.with_set_params()
            self._checkpoints.require_same(name, tag, etag)
            return record.with_checkpoint(tag, saved_states=call.optimizer_states)

        return await self._access.change(
            name, "load", call, alter, is_durable=not call.allow_missing, settles=True
        )

    async def _place(self, client: ExecutorClient, record: ModuleRecord) -> bool:
        """Create a module on an executor; return False if it already has one of the name."""
        try:
            await tell(client, calls.CreateModule(record=record, max_nodes=self.max_nodes))
        except HostError as error:
            if error.code != "already_exists":
                raise
            return False
        return True

    async def _place_anew(self, client: ExecutorClient, record: ModuleRecord) -> bool:
        """Replace an executor's module that is no longer in the store; return False if it is.

        Another server may have deleted it, and could not tell this server's executor.
        """
        if await self._access.is_there(record.name):
            return False
        await tell(client, calls.DeleteModule(module=record.name))
        return await self._place(client, record)
