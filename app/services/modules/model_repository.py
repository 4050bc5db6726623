"""Serves the models folder: loads its models, follows changes, and drops models that were removed.

Whenever a model's files change, a new module is made from them. Once it is loaded and bound, calls
on the model's name are switched to it atomically; the previous module finishes its requests and is
deleted. If the new files cannot be loaded, the previous module stays in service.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.domain.checkpoint import CheckpointTag
from app.domain.declaration import FolderModel
from app.domain.events import Happening, ServerEvent
from app.domain.instances import check_instances
from app.domain.module import (
    ModuleRecord,
)
from app.domain.names import check_name
from app.errors.tree import (
    AlreadyExists,
    Conflict,
    ExecutorGone,
    HostError,
    Invalid,
    NotFound,
    ServiceError,
    StartError,
)
from app.files.checkpoint_files import list_tags
from app.files.model_folders import (
    ModelFiles,
    find_models,
    misplaced_model,
    read_model,
    read_symbol,
    sign_model,
)
from app.folder_names import folder_module_name
from app.services.modules.archived_models import unpack_model
from app.services.modules.checkpoints import CheckpointService
from app.services.modules.incoming_checkpoint import IncomingCheckpoint
from app.services.modules.model_making import ModelMaker
from app.services.modules.module_access import ModuleAccess
from app.services.modules.module_commands import ModuleCommands
from app.services.modules.modules import ModuleFilter, ModuleService
from app.services.modules.versions import Version, Versions
from app.services.operations.background_tasks import cancel_tasks, logged, safely
from app.services.operations.executors import Executors
from app.services.predictions.predictions import Predictions

__all__ = ["ModelRepository", "ModelState"]

_log = logging.getLogger(__name__)

_LINGER_SECONDS = 30.0
"""How long a replaced module is kept for requests that have looked it up but not yet reached it."""
_PAGE = 200
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelState:
    """One model of the folder.

    Attributes:
        signature: of the files that were last tried; empty if they are to be tried again.
        record: the module that is served; None if none is.
        epochs: of the checkpoints among its files.
        error: why the current files are not served.
    """

    name: str
    signature: str = ""
    record: ModuleRecord | None = None
    epochs: tuple[int, ...] = ()
    error: str | None = None


class ModelRepository:
    """Keeps the served models in step with a folder."""

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
        maker: ModelMaker,
        predictions: Predictions,
        versions: Versions,
    ) -> None:
        """Prepare.

        Args:
            root: the models folder; None if there is none.
            poll_seconds: interval between looks at it; 0 to look only on request.
        """
        self._root = root
        self._poll_seconds = poll_seconds
        self._modules = modules
        self._checkpoints = checkpoints
        self._executors = executors
        self._access = access
        self._commands = commands
        self._maker = maker
        self._predictions = predictions
        self._versions = versions
        self._states: dict[str, ModelState] = {}
        self._replaced: dict[str, float] = {}
        self._fault: str | None = None
        self._lock = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Load all models, and follow changes until ``stop``.

        Raises:
            StartError: the models folder is not a folder.
        """
        if self._root is not None and not await asyncio.to_thread(self._root.is_dir):
            raise StartError(f"the models folder {self._root} is not a folder; see --models")
        for record in await asyncio.to_thread(lambda: list(self._loaded_before())):
            self._replaced[record.name] = 0.0  # deleted at once, unless its files are unchanged
        await self._look()
        if self._root is not None:
            self._task = asyncio.create_task(self._poll(), name="look at the models folder")

    async def stop(self) -> None:
        """Stop following the folder; a load in progress is cancelled."""
        task, self._task = self._task, None
        if task is not None:
            await cancel_tasks([task])

    def states(self) -> list[ModelState]:
        """Return all models, sorted by name; may be called from any thread."""
        return sorted(self._states.values(), key=lambda state: state.name)

    def warnings(self) -> list[str]:
        """Return the faults that keep files in the folder from being served."""
        found = [] if self._fault is None else [self._fault]
        for state in self.states():
            if state.error is not None:
                still = "" if state.record is None else "; what was loaded before is served"
                found.append(f"model {state.name}: {state.error}{still}")
        return found

    async def reload(self) -> list[ModelState]:
        """Look at the folder now, and retry the models that could not be loaded.

        Raises:
            Conflict: the server has no models folder.
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
            found = await asyncio.to_thread(find_models, root)
            misplaced = await asyncio.to_thread(misplaced_model, root)
        except OSError as error:  # keep serving what is loaded
            self._note_fault(f"the models folder {root} cannot be read: {error.strerror}")
            return
        fault = (
            f"{misplaced} lies in the models folder {root} itself, where no model is looked for: "
            "put each into a folder of its own, named as it is to be called"
        )
        self._note_fault(None if misplaced is None else fault)
        for name, paths in found.items():
            await self._take(name, paths)
        for name in self._states.keys() - found.keys():
            await self._let_go(name)

    def _note_fault(self, fault: str | None) -> None:
        """Remember what is wrong with the folder, and log it once."""
        if fault is not None and fault != self._fault:
            _log.warning("%s", fault)
        self._fault = fault

    async def _take(self, name: str, paths: Sequence[Path]) -> None:
        """Load and serve a model's folder or archive, unless these files were tried already."""
        state = self._states.get(name, ModelState(name=name))
        signature = ""
        try:
            signature = await asyncio.to_thread(sign_model, *paths)
            if signature == state.signature:
                return
            if len(paths) > 1:
                names = ", ".join(path.name for path in paths)
                raise Invalid("model", names, "one folder or archive for each name")
            record, epochs = await self._load(name, paths[0], signature)
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
        for warning in () if record.archive is None else record.archive.warnings:
            _log.warning("model %s: %s", name, warning)
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
        tell = self._modules.tell_of_model
        await logged(lambda: asyncio.to_thread(tell, record, happening))

    # -- modules ------------------------------------------------------------------------------

    def _loaded_before(self) -> Iterator[ModuleRecord]:
        """Yield the modules made from models on this server's executors, by earlier servers too."""
        cursor = None
        wanted = ModuleFilter(executors=self._executors.names, only_models=True)
        while True:
            page = self._modules.list_modules(cursor, _PAGE, wanted)
            yield from page.items
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
        self, name: str, path: Path, signature: str
    ) -> tuple[ModuleRecord, tuple[int, ...]]:
        """Return the module of a model's files, loaded and bound, and its epochs."""
        check_name(name, "folder")
        with self._checkpoints.begin_whole() as incoming:
            files = await asyncio.to_thread(_read, path, incoming)
            epochs = tuple(sorted(files.params))
            executor = files.declaration.executor or self._executors.names[0]
            self._executors.check(executor, "executor")
            check_instances(executor, files.declaration.instances, self._executors.names)
            mark = FolderModel(model=name, signature=signature)
            module = check_name(folder_module_name(name, signature), "folder")
            present = await self._present(module)
            if present is not None:
                is_same = (present.folder, present.executor) == (mark, executor)
                if is_same and await asyncio.to_thread(self._is_whole, present, files):
                    return present, epochs
                if present.folder is None:
                    raise AlreadyExists("module", module)
                await self._commands.delete(module)  # incomplete: its server died while making it
            record = await self._maker.inspect(files, executor)
            record = record.evolve(name=module, folder=mark)
            return await self._make(record, files, incoming, path, signature), epochs

    async def _present(self, module: str) -> ModuleRecord | None:
        try:
            return await self._access.record(module)
        except NotFound:
            return None

    def _is_whole(self, present: ModuleRecord, files: ModelFiles) -> bool:
        """Return whether a module is complete; its server may have died while making it."""
        tags = list_tags(self._checkpoints.root(present.name))
        has_all = {tag.epoch for tag in tags if not tag.batch} >= files.params.keys()
        versions = files.declaration.version_spec(files.params)
        return has_all and present.bind is not None and present.versions == versions

    async def _make(
        self,
        record: ModuleRecord,
        files: ModelFiles,
        incoming: IncomingCheckpoint,
        path: Path,
        signature: str,
    ) -> ModuleRecord:
        """Create, load and bind a module; delete it if one of these fails."""
        versions = files.declaration.version_spec(files.params)
        if files.archive is None:  # an archive was unpacked there already
            await asyncio.to_thread(_copy, files, files.epoch, incoming)
        bound = await self._maker.make(record, files.epoch, incoming)
        try:
            for epoch in files.params.keys() - {files.epoch}:
                await asyncio.to_thread(self._add, record.name, files, epoch)
            if await asyncio.to_thread(sign_model, path) != signature:
                raise Conflict("its files change while they are read; it is looked at again")
            for number in sorted(versions.answering()):
                await self._versions.load(bound, Version(str(number), None), warm=True)
            return await self._access.note(
                record.name, lambda present: present.evolve(versions=versions)
            )
        except BaseException:
            await asyncio.shield(self._commands.delete(record.name))
            raise

    def _add(self, module: str, files: ModelFiles, epoch: int) -> None:
        with self._checkpoints.begin_whole() as incoming:
            _copy(files, epoch, incoming)
            tag = CheckpointTag(epoch)
            self._checkpoints.add_files(module, tag, incoming.files, is_whole=True)


def _read(path: Path, incoming: IncomingCheckpoint) -> ModelFiles:
    """Read a model's folder, or unpack its archive."""
    if path.is_dir():
        return read_model(path)
    files = unpack_model(path, incoming)
    return dataclasses.replace(files, symbol=read_symbol(files.symbol_path, "symbol"))


def _copy(files: ModelFiles, epoch: int, incoming: IncomingCheckpoint) -> None:
    for part, path in (("symbol", files.symbol_path), ("params", files.params[epoch])):
        upload = incoming.open(part, path.name)
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                upload.write(block)
