"""How a batch is divided among devices, where scripts import it from (``mx.executor_manager``)."""

from __future__ import annotations

from collections.abc import Sequence

from ..module.group import split_batch
from ..symbol import Symbol

__all__ = ["_check_arguments", "_split_input_slice"]


def _split_input_slice(batch_size: int, work_load_list: Sequence[float]) -> list[slice]:
    """Return the rows of a batch that each device gets, in proportion to its work load.

    Raises:
        ValueError: a device would get no row.
    """
    return split_batch(batch_size, work_load_list)


def _check_arguments(symbol: Symbol) -> None:
    """Refuse a symbol in which two arguments, or two auxiliary states, have one name.

    Raises:
        ValueError: which name it is.
    """
    for kind, names in (
        ("argument", symbol.list_arguments()),
        ("auxiliary state", symbol.list_auxiliary_states()),
    ):
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two {kind}s are named {name!r}; give each a name of its own")
