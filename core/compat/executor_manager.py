"""Division of a batch among devices, under MXNet's import path (``mx.executor_manager``)."""

from __future__ import annotations

from collections.abc import Sequence

from ..module.group import split_batch
from ..symbol import Symbol

__all__ = ["_check_arguments", "_split_input_slice"]


def _split_input_slice(batch_size: int, work_load_list: Sequence[float]) -> list[slice]:
    """Return the rows of a batch for each device, in proportion to its work load.

    Raises:
        ValueError: a device would get no row.
    """
    return split_batch(batch_size, work_load_list)


def _check_arguments(symbol: Symbol) -> None:
    """Check that no two arguments, and no two auxiliary states, have the same name.

    Raises:
        ValueError: two have; the message names them.
    """
    for kind, names in (
        ("argument", symbol.list_arguments()),
        ("auxiliary state", symbol.list_auxiliary_states()),
    ):
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two {kind}s are named {name!r}; give each a name of its own")
