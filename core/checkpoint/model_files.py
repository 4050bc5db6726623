"""The files of a model: ``prefix-symbol.json`` and ``prefix-0010.params``."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..device import cpu
from ..ndarray import NDArray
from ..ndarray import load as load_arrays
from ..ndarray import save as save_arrays
from ..ndarray.files import atomic_write
from ..symbol import Symbol
from ..symbol import load as load_symbol

__all__ = [
    "BatchEndParam",
    "load_checkpoint",
    "load_params",
    "load_params_file",
    "save_checkpoint",
    "write_atomically",
]

logger = logging.getLogger(__name__)


class BatchEndParam(NamedTuple):
    """The argument of callbacks after a batch.

    Attributes:
        epoch: index of the epoch, from 0.
        nbatch: index of the batch in the epoch.
        eval_metric: the metric so far, or None.
        locals: the caller's local variables.
    """

    epoch: int
    nbatch: int
    eval_metric: Any
    locals: dict[str, Any] | None


def save_checkpoint(
    prefix: str,
    epoch: int,
    symbol: Symbol | None,
    arg_params: Mapping[str, NDArray],
    aux_params: Mapping[str, NDArray],
    remove_amp_cast: bool = True,
) -> None:
    """Write ``prefix-symbol.json`` and ``prefix-%04d.params``, each atomically.

    Args:
        prefix: path and common prefix of the files' names.
        epoch: number of the checkpoint.
        symbol: the graph; None writes no symbol file.
        arg_params: parameters by name, written as ``arg:name``.
        aux_params: auxiliary states by name, written as ``aux:name``.
        remove_amp_cast: leave ``amp_cast`` and ``amp_multicast`` out of the graph.

    Raises:
        MXNetError: a file cannot be written.
    """
    if symbol is not None:
        symbol.save(f"{prefix}-symbol.json", remove_amp_cast=remove_amp_cast)
    host = cpu()
    arrays = {f"arg:{name}": array.as_in_context(host) for name, array in arg_params.items()}
    arrays |= {f"aux:{name}": array.as_in_context(host) for name, array in aux_params.items()}
    path = _params_path(prefix, epoch)
    save_arrays(path, arrays)
    logger.info('Saved checkpoint to "%s"', path)


def load_params(prefix: str, epoch: int) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
    """Return the parameters and auxiliary states of ``prefix-%04d.params``; see
    ``load_params_file``."""
    return load_params_file(_params_path(prefix, epoch))


def load_params_file(path: str) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
    """Return the parameters and auxiliary states in a file.

    Names with a prefix other than ``arg:`` and ``aux:`` are dropped.

    Raises:
        FormatError: the file is damaged. ValueError: a name has no prefix.
        MXNetError: the file cannot be read.
    """
    loaded = load_arrays(path)
    if not loaded:
        logger.warning("Params file '%s' is empty", path)
        return {}, {}
    if not isinstance(loaded, dict):
        raise ValueError(f"{path}: the arrays have no names; expected 'arg:name' and 'aux:name'")
    params: dict[str, dict[str, NDArray]] = {"arg": {}, "aux": {}}
    for key, array in loaded.items():
        kind, colon, name = key.partition(":")
        if not colon:
            raise ValueError(f"{path}: name {key!r} has no prefix; expected 'arg:' or 'aux:'")
        params.get(kind, {})[name] = array
    return params["arg"], params["aux"]


def load_checkpoint(
    prefix: str, epoch: int
) -> tuple[Symbol, dict[str, NDArray], dict[str, NDArray]]:
    """Return (symbol, parameters, auxiliary states) of a saved model; see ``load_params``."""
    symbol = load_symbol(f"{prefix}-symbol.json")
    return (symbol, *load_params(prefix, epoch))


def write_atomically(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file so that it appears under its name only once it is completely on disk."""
    with atomic_write(path) as stream:
        stream.write(data)


def _params_path(prefix: str, epoch: int) -> str:
    return f"{prefix}-{epoch:04d}.params"
