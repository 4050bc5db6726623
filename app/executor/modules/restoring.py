"""Restores a module on its device from its record and its durable data."""

from __future__ import annotations

from pathlib import Path

from app.domain.module import ParamsSource
from app.executor.background import Waits, awaited, in_background
from app.executor.modules.hosted_module import HostedModule
from app.executor.modules.module_files import load_optimizer_states, read_base, read_values
from app.executor.modules.module_params import init_params
from app.executor.modules.randomness import RandomStreams
from app.files.checkpoint_files import read_manifest
from app.link.calls import RestoreModule

__all__ = ["restored_module"]


def restored_module(call: RestoreModule, random: RandomStreams) -> Waits[HostedModule]:
    """Make a module and bring it to the stage that its record describes.

    Raises:
        ServiceError, MXNetError: it cannot be restored.
    """
    record = call.record
    module = yield from awaited(in_background(HostedModule, record))
    if record.bind is not None:
        yield from module.bind(record.bind)
    if record.lost:
        module.record = module.record.evolve(lost=True)
    elif record.params is not None and module.is_stateless:
        module.install(({}, {}), record.params)
    elif call.checkpoint is not None:
        yield from _load(module, Path(call.checkpoint))
    elif record.params is ParamsSource.INIT and record.init is not None and record.bind is not None:
        yield from _init(module, call, random)
    yield from _give_optimizer(module, call)
    return module


def _load(module: HostedModule, directory: Path) -> Waits[None]:
    manifest = yield from awaited(in_background(read_manifest, directory))
    # Foreign parameters were skipped when this was first loaded.
    values = yield from read_values(module, directory, manifest, allow_extra=True)
    yield from module.beside(module.install, values, ParamsSource.CHECKPOINT)


def _init(module: HostedModule, call: RestoreModule, random: RandomStreams) -> Waits[None]:
    spec = call.record.init
    assert spec is not None
    assert spec.seed is not None, "parameters that no seed reproduces are lost"
    kept = yield from read_base(module, call.base)
    random.seed(module.name, spec.seed, module.contexts)
    init_params(module, spec, {}, "", kept)


def _give_optimizer(module: HostedModule, call: RestoreModule) -> Waits[None]:
    record, bound = call.record, module.record.bind
    if record.optimizer is None:
        return
    if bound is None or not bound.for_training or module.record.params is None:
        module.expect_optimizer(record.optimizer)
        return
    module.init_optimizer(record.optimizer, "optimizer.")
    if record.saved_states and call.checkpoint is not None:
        directory = Path(call.checkpoint)
        manifest = yield from awaited(in_background(read_manifest, directory))
        if any(name.endswith(".states") for name in manifest.files):
            yield from load_optimizer_states(module, directory, manifest)
