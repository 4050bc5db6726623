"""Loads a checkpoint's parameters for predictions, independently of those in training."""

from __future__ import annotations

from pathlib import Path

from app.errors.tree import HostError
from app.executor.background import Waits, awaited, in_background
from app.executor.modules.host_copy import Values
from app.executor.modules.hosted_module import HostedModule
from app.executor.modules.module_files import read_params
from app.executor.modules.module_params import check_values
from app.executor.predict.predictor import Parameters
from app.files.checkpoint_files import verified
from app.link.calls import LoadVersion
from core.ndarray import NDArray

__all__ = ["load_version"]


def load_version(module: HostedModule, call: LoadVersion) -> Waits[None]:
    """Load a version; other calls on the module are answered meanwhile, and a fit continues.

    Raises:
        NotFound, Damaged: there is no such checkpoint, or its files do not match its manifest.
        Invalid: its parameters do not fit the bound module.
        HostError: the checkpoint was replaced, or the module rebound, meanwhile.
    """
    if call.version not in module.versions:
        bound = module.record.bind
        parameters = yield from _read(module, call)
        if module.record.bind is not bound:
            raise HostError("version_not_loaded", f"module {call.module!r} was rebound")
        module.versions.add(call.version, parameters)
    if call.warm:
        yield from _warm(module, call.version)


def _read(module: HostedModule, call: LoadVersion) -> Waits[Parameters]:
    given = yield from awaited(in_background(_read_files, Path(call.directory), call.version))
    values = yield from module.beside(
        check_values, module, given, allow_missing=False, allow_extra=True, allow_nonfinite=True
    )
    return (yield from module.beside(_placed, values, module.on_device()))


def _read_files(directory: Path, version: str) -> dict[str, NDArray]:
    with verified(directory) as manifest:
        if manifest.etag.strip('"') != version:
            raise HostError(
                "version_replaced", f"checkpoint {manifest.tag} was replaced by another one"
            )
        return read_params(manifest, directory)


def _placed(values: Values, like: Parameters) -> Parameters:
    """Return copies on the device, in the dtypes that the module is bound with."""

    def place(value: NDArray, own: NDArray) -> NDArray:
        placed: NDArray = value.astype(own.dtype, copy=False).copyto(like.context)
        return placed

    arguments, auxiliary = values
    return Parameters(
        {name: place(value, like.arguments[name]) for name, value in arguments.items()},
        {name: place(value, like.auxiliary[name]) for name, value in auxiliary.items()},
        like.context,
    )


def _warm(module: HostedModule, version: str) -> Waits[None]:
    inference = module.inference_of(version)
    yield from inference.warm_up(None, None)
