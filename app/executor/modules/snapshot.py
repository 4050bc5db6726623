"""A copy of a module's parameters and optimizer states, to be written while training goes on.

It is taken in the device thread, at the cost of a copy in memory, and can be written by any thread
at the speed of the disk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from app.domain.module import SINGLE
from app.domain.names import check_name
from app.executor.modules.engine_optimizer import main_module, optimizer_of
from app.executor.modules.finite_values import nonfinite_name
from app.executor.modules.hosted_module import HostedModule, parse_key
from core.ndarray import NDArray, array
from core.ndarray.serialization import write_list
from core.symbol import Symbol

__all__ = ["Snapshot"]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The contents of a checkpoint's files, which are named as by MXNet.

    Attributes:
        name: of the module.
        symbols: by bucket key; not copied, because they never change.
        arguments, auxiliary: copies of the parameters, by name.
        states: makes the bytes of the optimizer's states; None without an optimizer.
    """

    name: str
    symbols: Mapping[str, Symbol]
    arguments: Mapping[str, NDArray]
    auxiliary: Mapping[str, NDArray]
    states: Callable[[], bytes] | None

    @classmethod
    def of(cls, module: HostedModule, optimizer_states: bool) -> Snapshot:
        """Copy a module's parameters and, on request, the states of the optimizer if it has one."""
        values = module.values()
        assert values is not None
        arguments, auxiliary = values
        has_states = optimizer_states and optimizer_of(module.engine) is not None
        return cls(
            name=module.name,
            symbols=dict(module.symbols),
            arguments={name: value.copy() for name, value in arguments.items()},
            auxiliary={name: value.copy() for name, value in auxiliary.items()},
            states=main_module(module.engine).copy_optimizer_states() if has_states else None,
        )

    def nonfinite(self) -> str | None:
        """Return the name of a parameter that holds NaN or infinity, None if none does."""
        return nonfinite_name((*self.arguments.items(), *self.auxiliary.items()))

    def write(self, directory: Path, epoch: int) -> None:
        """Write symbols, parameters and optimizer states into a directory."""
        prefix = directory / self.name
        self._write_symbols(prefix)
        named = {f"arg:{name}": value for name, value in self.arguments.items()}
        named |= {f"aux:{name}": value for name, value in self.auxiliary.items()}
        _write_arrays(Path(f"{prefix}-{epoch:04d}.params"), list(named.values()), list(named))
        if self.states is not None:
            Path(f"{prefix}-{epoch:04d}.states").write_bytes(self.states())

    def _write_symbols(self, prefix: Path) -> None:
        integers = []
        for key, symbol in self.symbols.items():
            if key == SINGLE:
                _write_symbol(Path(f"{prefix}-symbol.json"), symbol)
                continue
            value = parse_key(key, "symbols")
            if isinstance(value, int):
                integers.append(value)
            _write_symbol(Path(f"{prefix}-{_file_word(value)}-symbol.json"), symbol)
        # MXNet's ``BucketingModule.load`` reads the keys from this array of int32.
        if integers and len(integers) == len(self.symbols):
            keys = array(np.array(integers), dtype=np.int32)
            _write_arrays(Path(f"{prefix}.buckets"), [keys], [])


def _write_symbol(path: Path, symbol: Symbol) -> None:
    path.write_text(symbol.tojson(), encoding="utf-8")


def _write_arrays(path: Path, arrays: Sequence[NDArray], names: Sequence[str]) -> None:
    with path.open("wb") as file:
        write_list(file, [array.stored() for array in arrays], names)


def _file_word(key: Any) -> str:
    """Return a bucket key in a form that suits a file name."""
    text = "-".join(str(one) for one in key) if isinstance(key, tuple) else str(key)
    return check_name(text, "bucket key")
