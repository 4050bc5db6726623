"""The models folder served: what lies there is loaded, changes are taken over, the rest is let go.

Each state of a model's files becomes a module of its own. When it is loaded and bound, calls on
the model's name go to it from one moment to the next; the one before answers what it was asked, and
is deleted. Files that cannot be used leave what is served as it is.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.domain.checkpoint import CheckpointTag
from app.domain.declaration import DeclaredInput, FolderModel
from app.domain.events import Happening, ServerEvent
from app.domain.module import (
    SINGLE,
    BindSpec,
    InputDesc,
    ModuleKind,
    ModuleRecord,
    described_input,
)
from app.domain.names import check_name
from app.domain.serving import ServingSpec
from app.errors import (
    AlreadyExists,
    Conflict,
    ExecutorGone,
    FieldError,
    HostError,
    Invalid,
    NotFound,
    ServiceError,
    StartError,
)
from app.files.model_folders import ModelFiles, find_models, read_model, sign_folder
from app.folder_names import folder_module_name
from app.link import calls
from app.services.background_tasks import cancel_tasks, logged, safely
from app.services.checkpoints import CheckpointService
from app.services.executors import Executors
from app.services.incoming_checkpoint import IncomingCheckpoint
from app.services.module_access import ModuleAccess
from app.services.module_commands import ModuleCommands
from app.services.modules import ModuleService
from app.services.predictions import Predictions
from app.services.upload_findings import Findings, inspect

__all__ = ["ModelRepository", "ModelState"]

_log = logging.getLogger(__name__)

_LINGER_SECONDS = 30.0
"""A replaced module stays so long for requests that found it before and are still being sent."""
_PAGE = 200
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelState:
    """What is known of one model.

    Attributes:
        signature: of the files that were last looked at; empty where they are to be tried again.
        record: what is served; None where nothing is.
        epochs: the checkpoints that came with it.
        error: why the files as they are now are not served.
    """

    name: str
    signature: str = ""
    record: ModuleRecord | None = None
    epochs: tuple[int, ...] = ()
    error: str | None = None


class ModelRepository:
    """Keeps what is served in step with a folder."""

    def __init__(
        self,
        root: Path | None,
        poll_seconds: float,
        *,
        modules: ModuleService,
        checkpoints: CheckpointService,
        executors: Executors,
        access: ModuleAccess,
        commands: ModuleCommands,
        predictions: Predictions,
    ) -> None:
        """Prepare.

        Args:
            root: the folder; None serves none.
            poll_seconds: how often it is looked at; 0 for on request alone.
        """
        self._root = root
        self._poll_seconds = poll_seconds
        self._modules = modules
        self._checkpoints = checkpoints
        self._executors = executors
        self._access = access
        self._commands = commands
        self._predictions = predictions
        self._states: dict[str, ModelState] = {}
        self._replaced: dict[str, float] = {}
        self._fault: str | None = None
        self._lock = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Load all models, and look for changes from now on.

        Raises:
            StartError: the folder is none.
        """
        if self._root is not None and not await asyncio.to_thread(self._root.is_dir):
            raise StartError(f"the models folder {self._root} is no folder; see --models")
        for record in await asyncio.to_thread(lambda: list(self._loaded_before())):
            self._replaced[record.name] = 0.0  # unless its files are still the same
        await self._look()
        if self._root is not None:
            self._task = asyncio.create_task(self._poll(), name="look at the models folder")

    async def stop(self) -> None:
        """Look no more; a model that is being loaded is given up."""
        task, self._task = self._task, None
        if task is not None:
            await cancel_tasks([task])

    def states(self) -> list[ModelState]:
        """Return what is known of each model, by name."""
        return [self._states[name] for name in sorted(self._states)]

    def warnings(self) -> list[str]:
        """Return what keeps the folder from being served as it is."""
        found = [] if self._fault is None else [self._fault]
        for state in self.states():
            if state.error is not None:
                still = "" if state.record is None else "; what was loaded before is served"
                found.append(f"model {state.name}: {state.error}{still}")
        return found

    async def reload(self) -> list[ModelState]:
        """Look at the folder now, and once more at what could not be loaded.

        Raises:
            Conflict: the server has none.
        """
        if self._root is None:
            raise Conflict("the server has no models folder; start it with --models DIR")
        for name, state in self._states.items():
            if state.error is not None:
                self._states[name] = dataclasses.replace(state, signature="")
        await self._look()
        return self.states()

    # -- the folder ---------------------------------------------------------------------------

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(self._poll_seconds or _LINGER_SECONDS)
            await safely(self._look if self._poll_seconds else self._tidy)

    async def _tidy(self) -> None:
        async with self._lock:
            await self._delete_replaced()

    async def _look(self) -> None:
        async with self._lock:
            if self._root is not None:
                await self._compare(self._root)
            await self._delete_replaced()

    async def _compare(self, root: Path) -> None:
        try:
            names = await asyncio.to_thread(find_models, root)
        except OSError as error:  # no reason to let go of what is served
            self._fault = f"the models folder {root} cannot be read: {error.strerror}"
            _log.warning("%s", self._fault)
            return
        self._fault = None
        for name in names:
            await self._take(name, root / name)
        for name in self._states.keys() - set(names):
            await self._let_go(name)

    async def _take(self, name: str, folder: Path) -> None:
        """Serve what a model's folder holds, unless that was looked at already."""
        state = self._states.get(name, ModelState(name=name))
        signature = ""
        try:
            signature = await asyncio.to_thread(sign_folder, folder)
            if signature == state.signature:
                return
            record, epochs = await self._load(name, folder, signature)
        except (ServiceError, HostError, ExecutorGone, OSError) as error:
            _log.warning("model %s is not loaded: %s", name, error)
            tried = "" if isinstance(error, ExecutorGone) else signature
            self._states[name] = dataclasses.replace(state, signature=tried, error=str(error))
            return
        self._replaced.pop(record.name, None)
        if state.record is not None and state.record.name != record.name:
            self._replaced[state.record.name] = time.monotonic() + _LINGER_SECONDS
        self._access.publish(record)
        self._states[name] = ModelState(
            name=name, signature=signature, record=record, epochs=epochs
        )
        _log.info("model %s is served, checkpoint %s", name, record.checkpoint)
        loaded = {"checkpoint": str(record.checkpoint), "optimizer_states": False}
        await self._tell(record, Happening(ServerEvent.MODULE_LOADED, loaded))

    async def _let_go(self, name: str) -> None:
        state = self._states[name]
        if state.record is not None:
            await self._access.withdraw(name)
            self._replaced[state.record.name] = time.monotonic() + _LINGER_SECONDS
            _log.info("model %s is no longer in the models folder, and not served", name)
            await self._tell(state.record, Happening(ServerEvent.MODULE_DELETED, {}))
        del self._states[name]

    async def _tell(self, record: ModuleRecord, happening: Happening) -> None:
        await logged(asyncio.to_thread(self._modules.tell_of_model, record, happening))

    # -- modules ------------------------------------------------------------------------------

    def _loaded_before(self) -> Iterator[ModuleRecord]:
        """Yield the modules that this or an earlier server made of models, on its executors."""
        cursor = None
        while True:
            page = self._modules.list_modules(cursor, _PAGE)
            for record in page.items:
                if record.folder is not None and record.executor in self._executors.names:
                    yield record
            if (cursor := page.next_cursor) is None:
                return

    async def _delete_replaced(self) -> None:
        for name, when in list(self._replaced.items()):
            if time.monotonic() < when or self._predictions.has_some(name):
                continue
            try:
                await self._commands.delete(name)
            except NotFound:
                pass
            except ServiceError as error:
                _log.warning("module %s stays for now: %s", name, error)
                continue
            del self._replaced[name]

    async def _load(
        self, name: str, folder: Path, signature: str
    ) -> tuple[ModuleRecord, tuple[int, ...]]:
        """Return a module that is as a model's files say, loaded and bound, and its epochs."""
        check_name(name, "folder")
        files = await asyncio.to_thread(read_model, folder)
        epochs = tuple(sorted(files.params))
        executor = files.declaration.executor or self._executors.names[0]
        self._executors.check(executor, "executor")
        mark = FolderModel(model=name, signature=signature)
        module = check_name(folder_module_name(name, signature), "folder")
        present = await self._present(module)
        if present is not None:
            if (present.folder, present.executor) == (mark, executor) and present.bind is not None:
                return present, epochs
            if present.folder is None:
                raise AlreadyExists("module", module)
            await self._commands.delete(module)  # half made when its server died
        record = await self._record(files, executor)
        return await self._make(
            record.evolve(name=module, folder=mark), files, folder, signature
        ), epochs

    async def _present(self, module: str) -> ModuleRecord | None:
        try:
            return await self._access.record(module)
        except NotFound:
            return None

    async def _record(self, files: ModelFiles, executor: str) -> ModuleRecord:
        """Return the module to make; its data shapes are in ``bind``."""
        declaration = files.declaration
        given = _given(declaration.inputs, declaration.buckets)
        call = calls.InspectModel(
            symbol=files.symbol,
            params=str(files.params[files.epoch]),
            shapes=given,
            label_names=declaration.label_names,
        )
        found = await inspect(self._executors.get(executor), call)
        found.check_missing()
        _check_inputs(declaration.inputs, found.data, found.open)
        for output in declaration.outputs:
            if output not in found.outputs:
                expected = f"one of the outputs {', '.join(found.outputs)}"
                raise Invalid(f"outputs.{output}", output, expected)
        keys = [str(length) for length in sorted(set(declaration.buckets))] or [SINGLE]
        guessed = {n: found.shapes[n] for n in found.data if n not in declaration.inputs}
        if guessed:
            _log.info("shapes that fit %s: %s", files.symbol_path, guessed)
        record = ModuleRecord(
            name="",
            kind=ModuleKind.BUCKETING if declaration.buckets else ModuleKind.MODULE,
            symbols=dict.fromkeys(keys, files.symbol),
            default_bucket_key=keys[-1],
            executor=executor,
            contexts=(executor,),
            serving=ServingSpec(
                max_batch_size=declaration.max_batch_size,
                batches=declaration.batches,
                max_delay_us=declaration.max_delay_us,
            ),
            labels=files.labels,
            transforms=files.transforms,
            bind=BindSpec(
                data_shapes=_described_all(found, declaration.inputs),
                label_shapes=tuple(_described(name, None, found) for name in found.usual),
                for_training=False,
            ),
        )
        return found.named(record)

    async def _make(
        self, record: ModuleRecord, files: ModelFiles, folder: Path, signature: str
    ) -> ModuleRecord:
        """Create, load and bind a module, or leave nothing of it."""
        bind, record = record.bind, record.evolve(bind=None)
        assert bind is not None
        with self._checkpoints.begin_whole() as incoming:
            await asyncio.to_thread(_copy, files, files.epoch, incoming)
            await self._commands.create_from_files(
                record, CheckpointTag(files.epoch), incoming, allow_extra=True
            )
        try:
            for epoch in files.params.keys() - {files.epoch}:
                await asyncio.to_thread(self._add, record.name, files, epoch)
            bound = await self._commands.bind(record.name, bind)
            if await asyncio.to_thread(sign_folder, folder) != signature:
                raise Conflict("its files change while they are read; it is looked at again")
        except BaseException:
            await asyncio.shield(self._commands.delete(record.name))
            raise
        self._access.remember(bound)
        return bound

    def _add(self, module: str, files: ModelFiles, epoch: int) -> None:
        with self._checkpoints.begin_whole() as incoming:
            _copy(files, epoch, incoming)
            tag = CheckpointTag(epoch)
            self._checkpoints.add_files(module, tag, incoming.files, is_whole=True)


def _copy(files: ModelFiles, epoch: int, incoming: IncomingCheckpoint) -> None:
    for part, path in (("symbol", files.symbol_path), ("params", files.params[epoch])):
        upload = incoming.open(part, path.name)
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                upload.write(block)


def _given(
    inputs: Mapping[str, DeclaredInput], buckets: tuple[int, ...]
) -> dict[str, tuple[int, ...]]:
    """Return the shapes that are declared, in the largest bucket."""
    open_inputs = [name for name, one in inputs.items() if None in one.shape]
    if open_inputs and not buckets:
        name = open_inputs[0]
        raise Invalid("buckets", "none", f"lengths for the open axis of inputs.{name}.shape")
    if buckets and not open_inputs:
        expected = "with inputs, one of which has null in its shape where the length is"
        raise Invalid("inputs", sorted(inputs), expected, "or leave buckets out")
    longest = max(buckets, default=0)
    return {name: tuple(dim or longest for dim in one.shape) for name, one in inputs.items()}


def _check_inputs(
    declared: Mapping[str, DeclaredInput], names: Sequence[str], unknown: Sequence[str]
) -> None:
    for name in declared:
        if name not in names:
            raise Invalid(f"inputs.{name}", name, f"one of the inputs {', '.join(names) or '-'}")
    if unknown:
        raise Invalid.from_errors(
            FieldError(
                f"inputs.{name}.shape",
                "nothing in modserve.yaml, and no shape was found that fits the parameters",
                "its shape, the batch first",
                f"for example inputs: {{{name}: {{shape: [1, 3, 224, 224]}}}}",
            )
            for name in unknown
        )


def _described_all(found: Findings, declared: Mapping[str, DeclaredInput]) -> tuple[InputDesc, ...]:
    return tuple(_described(name, declared.get(name), found) for name in found.data)


def _described(name: str, declared: DeclaredInput | None, found: Findings) -> InputDesc:
    if declared is None:
        return described_input(name, found.shapes[name], found.layouts.get(name))
    shape = tuple(dim or 0 for dim in declared.shape)
    return InputDesc(name=name, shape=shape, dtype=declared.dtype, layout=declared.layout)
