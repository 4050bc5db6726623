"""Statistics of the parameters of a module or checkpoint, computed one array at a time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from app.errors.tree import Damaged
from app.executor.background import Waits, awaited, in_background
from app.executor.modules.hosted_module import HostedModule
from app.executor.modules.param_figures import figures_of, relative_change, span_of
from app.executor.modules.param_files import not_params
from app.files.checkpoint_files import read_manifest
from app.link.calls import SummarizeParams
from app.link.packed_json import pack_json
from core.checkpoint import param_names
from core.errors import MXNetError
from core.ndarray import NDArray
from core.ndarray.array_file import ArrayFile

__all__ = ["summarize_params"]

Array: TypeAlias = npt.NDArray[Any]
Row = dict[str, Any]

_PARAMETER, _AUXILIARY = "parameter", "auxiliary"
_COPIED_BYTES = 1 << 24
"""Bytes of parameters in training that are copied in one turn of the device thread."""


class _Source(Protocol):
    """Arrays by name, with their roles; those in a file are read on demand."""

    @property
    def roles(self) -> Mapping[str, str]: ...

    def read(self, name: str) -> Array: ...


def summarize_params(
    get: Callable[[str], HostedModule], call: SummarizeParams
) -> Waits[dict[str, str]]:
    """Answer the call off the device thread.

    Args:
        get: returns the module, for the parameters in training; raises HostError.
        call: the request.

    Raises:
        NotFound, Damaged: there is no such checkpoint, or it cannot be read.
    """
    other = yield from _opened(call.against, call.module, get)
    if call.directory is None:
        module = get(call.module)
        module.require("get_params")
        return (yield from _of_live(_Live(module), other, call.bins))
    own = yield from _opened(call.directory, call.module, get)
    assert own is not None
    return (yield from awaited(in_background(_of_file, own, other, call.bins)))


class _Live:
    """Parameters that may be trained meanwhile."""

    def __init__(self, module: HostedModule) -> None:
        values = module.values() if module.record.bind is None else None
        if values is None:
            shown = module.on_device()
            values = shown.arguments, shown.auxiliary
        arguments, auxiliary = values
        self.arrays: dict[str, NDArray] = {**arguments, **auxiliary}
        self.roles = dict.fromkeys(arguments, _PARAMETER) | dict.fromkeys(auxiliary, _AUXILIARY)

    def groups(self) -> Iterator[list[str]]:
        """Yield groups of names whose arrays are copied together."""
        group: list[str] = []
        size = 0
        for name, array in self.arrays.items():
            nbytes = array.size * np.dtype(array.dtype).itemsize
            if group and size + nbytes > _COPIED_BYTES:
                yield group
                group, size = [], 0
            group.append(name)
            size += nbytes
        if group:
            yield group

    def copied(self, names: Sequence[str]) -> _Copies:
        """Return copies of some arrays; runs in the device thread."""
        return _Copies({name: self.arrays[name].asnumpy() for name in names}, self.roles)


class _Copies:
    """Copies of arrays; each can be read once, which releases it."""

    def __init__(self, arrays: dict[str, Array], roles: Mapping[str, str]) -> None:
        self._arrays = arrays
        self.roles = roles

    def read(self, name: str) -> Array:
        return self._arrays.pop(name)


class _File:
    """A checkpoint's parameters.

    Attributes:
        roles: by name; of a file without prefixes, all are parameters until ``set_auxiliary``.
        has_prefixes: the file itself tells the roles.
    """

    def __init__(self, directory: str) -> None:
        self._path = _params_file(Path(directory))
        with _errors_as_damage(self._path):
            self._file = ArrayFile(self._path)
            self._keys = param_names(self._file.names)
        self.has_prefixes = any(name != key for name, key in self._keys.items())
        self.roles = {
            name: _AUXILIARY if key.startswith("aux:") else _PARAMETER
            for name, key in self._keys.items()
        }

    def set_auxiliary(self, names: Collection[str]) -> None:
        """Set which of the parameters are auxiliary states."""
        self.roles |= {name: _AUXILIARY for name in self._keys if name in names}

    def read(self, name: str) -> Array:
        with _errors_as_damage(self._path):
            return self._file.read(self._keys[name])


@contextmanager
def _errors_as_damage(path: Path) -> Iterator[None]:
    try:
        yield
    except (MXNetError, ValueError) as error:
        raise not_params(str(path), path.name, error) from error


def _params_file(directory: Path) -> Path:
    names = [name for name in read_manifest(directory).files if name.endswith(".params")]
    if len(names) != 1:
        raise Damaged("checkpoint", f"{len(names)} files .params", "one")
    return directory / names[0]


def _opened(
    directory: str | None, module: str, get: Callable[[str], HostedModule]
) -> Waits[_File | None]:
    if directory is None:
        return None
    file: _File = yield from awaited(in_background(_File, directory))
    if not file.has_prefixes:
        _, auxiliary = get(module).param_names()
        file.set_auxiliary(auxiliary)
    return file


def _of_file(own: _Source, other: _Source | None, bins: int) -> dict[str, str]:
    return _answer(_rows(list(own.roles), own, other, bins), own, other)


def _of_live(live: _Live, other: _File | None, bins: int) -> Waits[dict[str, str]]:
    rows: list[Row] = []
    for group in live.groups():
        copies = live.copied(group)
        rows += yield from awaited(in_background(_rows, group, copies, other, bins))
    return (yield from awaited(in_background(_answer, rows, live, other)))


def _rows(names: Sequence[str], own: _Source, other: _Source | None, bins: int) -> list[Row]:
    return [_row(name, own, other, bins) for name in names]


def _answer(rows: list[Row], own: _Source | _Live, other: _Source | None) -> dict[str, str]:
    missing = [] if other is None else [name for name in other.roles if name not in own.roles]
    return pack_json({"items": rows, "missing": missing})


def _row(name: str, own: _Source, other: _Source | None, bins: int) -> Row:
    values = own.read(name)
    before = None if other is None or name not in other.roles else other.read(name)
    spans = [span for one in (values, before) if one is not None and (span := span_of(one))]
    span = (min(low for low, _ in spans), max(high for _, high in spans)) if spans else None
    row = {"name": name, "role": own.roles[name]} | _described(values, bins, span)
    if before is None:
        return row | {"against": None, "change": None}
    return row | {
        "against": _described(before, bins, span),
        "change": relative_change(values, before),
    }


def _described(values: Array, bins: int, span: tuple[float, float] | None) -> Row:
    with np.errstate(all="ignore"):
        figures = figures_of(values, bins, span)
    return {"shape": list(values.shape), "dtype": values.dtype.name, "count": values.size} | figures
