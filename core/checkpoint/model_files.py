"""The files of a model: ``prefix-symbol.json`` and ``prefix-0010.params``."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
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
    "load_params_by_name",
    "load_params_file",
    "param_names",
    "save_checkpoint",
    "write_atomically",
]

logger = logging.getLogger(__name__)

_PREFIXES = ("arg:", "aux:")
_NO_NAMES = "the arrays have no names; expected 'arg:name' and 'aux:name'"


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
        raise ValueError(f"{path}: {_NO_NAMES}")
    params: dict[str, dict[str, NDArray]] = {"arg": {}, "aux": {}}
    for key, array in loaded.items():
        kind, colon, name = key.partition(":")
        if not colon:
            raise ValueError(f"{path}: name {key!r} has no prefix; expected 'arg:' or 'aux:'")
        params.get(kind, {})[name] = array
    return params["arg"], params["aux"]


def param_names(keys: Sequence[str]) -> dict[str, str]:
    """Return the keys of a parameter file by the parameters' names, whichever tool wrote the file.

    ``Module`` and ``export`` write ``arg:`` and ``aux:`` before each name. Gluon's
    ``collect_params().save`` and other tools write bare names, and the graph tells which of them
    are auxiliary states. In a file with prefixes, keys with another prefix are left out, as
    MXNet does.

    Raises:
        ValueError: two keys have the same name.
    """
    has_prefixes = any(key.startswith(_PREFIXES) for key in keys)
    found: dict[str, str] = {}
    for key in keys:
        _, colon, rest = key.partition(":")
        if has_prefixes and colon and not key.startswith(_PREFIXES):
            continue
        name = rest if key.startswith(_PREFIXES) else key
        if name in found:
            raise ValueError(f"parameter {name!r} is there twice, as {found[name]!r} and {key!r}")
        found[name] = key
    return found


def load_params_by_name(path: str) -> dict[str, NDArray]:
    """Return the parameters and auxiliary states in a file by name, sparse ones as dense ones.

    Unlike ``load_params_file``, this also reads files without prefixes; see ``param_names``.

    Raises:
        FormatError: the file is damaged. ValueError: the arrays have no names, or one twice.
        MXNetError: the file cannot be read.
    """
    loaded = load_arrays(path)
    if isinstance(loaded, dict):
        names = param_names(list(loaded))
        return {name: _dense(loaded[key]) for name, key in names.items()}
    if loaded:
        raise ValueError(f"{path}: {_NO_NAMES}")
    return {}


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


def _dense(array: NDArray) -> NDArray:
    return array if array.stype == "default" else array.tostype("default")


def _params_path(prefix: str, epoch: int) -> str:
    return f"{prefix}-{epoch:04d}.params"
