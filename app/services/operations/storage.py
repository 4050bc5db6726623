"""Opens a server's store and data directory, which must belong together."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from app.files.last_release import check_release
from app.files.restore_mark import check_restored
from app.services.jobs.resume_points import ResumePoints
from app.services.modules.checkpoints import CheckpointService
from app.services.modules.datasets import DatasetService
from app.services.modules.modules import ModuleService
from app.services.operations.directory_claim import claim_directory
from app.services.operations.disk_space import DiskSpace
from app.services.operations.liveness import Liveness
from app.services.operations.notifier import Notifiers
from app.services.operations.recovery import Recovery
from app.store.store import Store, database_file

__all__ = ["Storage", "StorageOptions", "open_storage"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageOptions:
    """Where the storage is, and its limits.

    Attributes:
        executor: for modules that are rebuilt from a checkpoint.
        dataset_folders: folders of an operator whose files may be read in place.
        keep_checkpoints: how many to keep of a module by default; None keeps all.
    """

    url: str
    data_dir: Path
    executor: str
    max_dataset_bytes: int
    max_checkpoint_bytes: int
    max_symbol_bytes: int
    dataset_folders: tuple[Path, ...] = ()
    keep_checkpoints: int | None = None


@dataclass(frozen=True, slots=True)
class Storage:
    """The durable state of a server, and the services for it.

    Attributes:
        knows_nothing: the store was empty when it was opened, even if the directory was not.
    """

    store: Store
    notifiers: Notifiers
    liveness: Liveness
    modules: ModuleService
    checkpoints: CheckpointService
    resume_points: ResumePoints
    datasets: DatasetService
    recovery: Recovery
    space: DiskSpace
    knows_nothing: bool


def open_storage(options: StorageOptions, stack: ExitStack, *, claim: bool = True) -> Storage:
    """Open store and directory; the stack closes them.

    Args:
        claim: check that they belong together and register this server; False only reads.

    Raises:
        StartError: they do not belong together, one of them cannot be used, a newer modserve has
            written there, or the directory is not completely restored.
    """
    data_dir = options.data_dir
    check_restored(data_dir)
    check_release(data_dir)  # before the database is migrated
    liveness = Liveness(data_dir / "servers")
    stack.callback(liveness.leave)  # called after ``store.close``: till then the server is alive
    store = Store(options.url)
    store.open(begins_clock=claim)
    stack.callback(store.close)
    knows_nothing = claim and claim_directory(store, data_dir, liveness)
    notifiers = Notifiers()
    modules = ModuleService(store, data_dir, notifier=notifiers.events)
    checkpoints = CheckpointService(
        store,
        modules,
        data_dir,
        max_bytes=options.max_checkpoint_bytes,
        max_symbol_bytes=options.max_symbol_bytes,
        keep=options.keep_checkpoints,
    )
    recovery = Recovery(
        store,
        modules,
        checkpoints,
        data_dir,
        liveness,
        executor=options.executor,
        max_dataset_bytes=options.max_dataset_bytes,
    )
    datasets = DatasetService(
        store, data_dir, options.max_dataset_bytes, folders=options.dataset_folders
    )
    file = database_file(options.url)
    folders = [data_dir, *([] if file is None else [file.absolute().parent])]
    return Storage(
        *(store, notifiers, liveness, modules, checkpoints, ResumePoints(modules, checkpoints)),
        *(datasets, recovery, DiskSpace(store, folders), knows_nothing),
    )
