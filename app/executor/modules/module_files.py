"""Saves a hosted module to, and loads it from, the files of a checkpoint (named as by MXNet)."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from app.domain.checkpoint import CheckpointManifest, CheckpointTag
from app.domain.module import ParamsSource
from app.errors.tree import Conflict, Damaged, Invalid
from app.executor.background import Waits, awaited, in_background
from app.executor.modules.engine_optimizer import (
    SavedStates,
    check_saved,
    load_states,
    optimizer_of,
)
from app.executor.modules.finite_values import REMEDY
from app.executor.modules.host_copy import Values
from app.executor.modules.hosted_module import HostedModule
from app.executor.modules.module_params import check_values
from app.executor.modules.optimizer_specs import get_position, set_position
from app.executor.modules.param_files import read_param_file
from app.executor.modules.snapshot import Snapshot
from app.files.checkpoint_files import (
    read_manifest,
    verified,
    verify_checkpoint,
    write_checkpoint,
)
from core.checkpoint import read_states
from core.errors import FormatError
from core.ndarray import NDArray

__all__ = [
    "STATE_FILE",
    "load_module",
    "load_optimizer_states",
    "read_base",
    "read_params",
    "read_state",
    "read_values",
    "save_module",
    "write_state",
]

STATE_FILE = "state.json"
"""In addition to MXNet's files: the optimizer's position, and all that a fit needs to resume."""

_FORMAT = 1


def save_module(
    module: HostedModule, root: Path, tag: CheckpointTag, optimizer_states: bool
) -> Waits[CheckpointManifest]:
    """Copy a module, write a checkpoint off the device thread and return its manifest.

    Raises:
        Conflict: a parameter holds NaN or infinity.
    """
    module.require("save_checkpoint")
    snapshot, changes = Snapshot.of(module, optimizer_states), module.changes
    optimizer = optimizer_of(module.engine) if optimizer_states else None
    position = None if optimizer is None else copy.deepcopy(get_position(optimizer))
    manifest = yield from awaited(in_background(_write, snapshot, position, root, tag))
    if module.changes == changes:  # else it was trained further while the snapshot was written
        module.has_unsaved = False
    return manifest


def _write(
    snapshot: Snapshot, position: Mapping[str, Any] | None, root: Path, tag: CheckpointTag
) -> CheckpointManifest:
    if (name := snapshot.nonfinite()) is not None:
        raise Conflict(
            f"parameter {name!r} of module {snapshot.name!r} holds NaN or infinity, which no "
            f"checkpoint takes; {REMEDY}"
        )
    with write_checkpoint(root, tag, module=snapshot.name) as writer:
        snapshot.write(writer.directory, tag.epoch)
        if position is not None:
            write_state(writer.directory, {"optimizer": position})
    return read_manifest(root / str(tag))


def load_module(
    module: HostedModule,
    directory: Path,
    *,
    optimizer_states: bool = False,
    allow_missing: bool = False,
    allow_extra: bool = False,
    check_states: bool = False,
) -> Waits[None]:
    """Load parameters, and on request the optimizer's states, from a checkpoint.

    Nothing else may use the module meanwhile. See ``app.link.calls.LoadCheckpoint``.

    Raises:
        NotFound, Damaged: there is no such checkpoint, or its files do not match its
        manifest.
        Invalid: the parameters belong to another model; or the checkpoint has no states.
    """
    manifest = yield from awaited(in_background(verify_checkpoint, directory))
    # If the parameters were lost, the optimizer is installed together with the new ones.
    gets_optimizer = module.record.params is None and module.record.optimizer is not None
    states = _states_of(manifest, directory) if optimizer_states else None
    if optimizer_states and not gets_optimizer:
        module.require("optimizer_states")
    values = yield from read_values(
        module, directory, manifest, allow_missing=allow_missing, allow_extra=allow_extra
    )
    if check_states and any(name.endswith(".states") for name in manifest.files):
        path = _only_file(manifest, directory, ".states")
        yield from awaited(in_background(_read_states, path))
    saved = None
    if states is not None and not gets_optimizer:
        saved = yield from _check_states(module, states)
    # Everything that can be refused has been checked: from here on the module changes.
    source = ParamsSource.SET if allow_missing else ParamsSource.CHECKPOINT
    yield from module.beside(module.install, values, source)
    module.has_unsaved = allow_missing
    if saved is not None:
        _take_states(module, saved, manifest, directory)
    elif states is not None:
        module.require("optimizer_states")
        yield from load_optimizer_states(module, directory, manifest)


def load_optimizer_states(
    module: HostedModule, directory: Path, manifest: CheckpointManifest
) -> Waits[None]:
    """Load the optimizer's states of a checkpoint whose parameters the module already has."""
    saved = yield from _check_states(module, _states_of(manifest, directory))
    _take_states(module, saved, manifest, directory)


def _check_states(module: HostedModule, path: Path) -> Waits[SavedStates]:
    content = yield from awaited(in_background(path.read_bytes))
    weights = module.on_device().arguments
    return (yield from module.beside(check_saved, module.engine, content, weights))


def _take_states(
    module: HostedModule, saved: SavedStates, manifest: CheckpointManifest, directory: Path
) -> None:
    load_states(module.engine, saved)
    optimizer = optimizer_of(module.engine)
    assert optimizer is not None
    if STATE_FILE in manifest.files:
        position = read_state(directory).get("optimizer")
        if position:
            set_position(optimizer, position, keep_rates=True)


def write_state(directory: Path, state: Mapping[str, Any]) -> None:
    """Write plain data that does not fit into MXNet's files."""
    text = json.dumps({"format": _FORMAT, **state})
    (directory / STATE_FILE).write_text(text, encoding="utf-8")


def read_state(directory: Path) -> dict[str, Any]:
    """Return what ``write_state`` wrote; raise Damaged for anything else."""
    where = f"checkpoint {directory.name}: {STATE_FILE}"
    try:
        state: dict[str, Any] = json.loads((directory / STATE_FILE).read_bytes())
        if state.pop("format") != _FORMAT:
            raise ValueError("another format")
    except (OSError, ValueError, AttributeError, KeyError) as error:
        raise Damaged(where, error, f"plain data of format {_FORMAT}") from None
    return state


def read_values(
    module: HostedModule,
    directory: Path,
    manifest: CheckpointManifest,
    *,
    allow_missing: bool = False,
    allow_extra: bool = False,
) -> Waits[Values]:
    """Return a checkpoint's parameters, checked against the module."""
    given = yield from awaited(in_background(read_params, manifest, directory))
    values = yield from module.beside(
        check_values,
        module,
        given,
        allow_missing=allow_missing,
        allow_extra=allow_extra,
        allow_nonfinite=True,
    )
    return values


def read_base(module: HostedModule, base: str | None) -> Waits[dict[str, NDArray]]:
    """Return the parameters that a derived module takes over from its origin, by name.

    Args:
        module: the module.
        base: directory of the checkpoint with the parameters; None if it takes none over.

    Raises:
        NotFound, Damaged: there is no such checkpoint, or its files do not match its
        manifest.
        Invalid: the checkpoint lacks one of the parameters.
    """
    if base is None:
        return {}
    return (yield from awaited(in_background(_read_base, module, Path(base))))


def _read_base(module: HostedModule, directory: Path) -> dict[str, NDArray]:
    origin = module.record.origin
    assert origin is not None
    new = () if origin.head is None else origin.head.params
    with verified(directory) as manifest:
        saved = read_params(manifest, directory)
    names = [name for part in module.param_names() for name in part if name not in new]
    for name in names:
        if name not in saved:
            expected = f"a parameter of checkpoint {origin.epoch} of module {origin.module!r}"
            raise Invalid(name, "no tensor", expected)
    return {name: saved[name] for name in names}


def read_params(manifest: CheckpointManifest, directory: Path) -> dict[str, NDArray]:
    """Return a checkpoint's parameters by name; raise Damaged."""
    path = _only_file(manifest, directory, ".params")
    return read_param_file(str(path), path.name)


def _states_of(manifest: CheckpointManifest, directory: Path) -> Path:
    if not any(name.endswith(".states") for name in manifest.files):
        raise Invalid(
            "optimizer_states",
            True,
            "false",
            f"checkpoint {manifest.tag} was saved without an optimizer's states",
        )
    return _only_file(manifest, directory, ".states")


def _read_states(path: Path) -> None:
    """Raise Damaged unless a file holds an optimizer's states."""
    try:
        read_states(path.read_bytes())
    except FormatError as error:
        raise Damaged(path.name, error, "an optimizer's states as MXNet saves them") from error


def _only_file(manifest: CheckpointManifest, directory: Path, suffix: str) -> Path:
    names = [name for name in manifest.files if name.endswith(suffix)]
    if len(names) != 1:
        raise Damaged("checkpoint", f"{len(names)} files {suffix}", "one")
    return directory / names[0]
