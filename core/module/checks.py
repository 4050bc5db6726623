"""Checks of the values and devices passed to a module."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..device import Context
from ..errors import ShapeError, UsageError
from ..initializer import InitDesc
from ..ndarray import NDArray
from ..ops.storage import DECLARED_STORAGE

__all__ = [
    "fill_parameter",
    "group_contexts",
    "storage_type",
]

Params = Mapping[str, NDArray]


def fill_parameter(
    desc: InitDesc,
    values: NDArray,
    given: Params | None,
    initializer: Callable[[str, NDArray], None] | None,
    allow_missing: bool,
) -> None:
    """Set one parameter to its given value, or run the initializer on it."""
    if given is not None and desc in given:
        source = given[desc]
        if source.shape != values.shape:
            raise ShapeError(
                f"parameter {str(desc)!r} has shape {source.shape}, expected {values.shape}"
            )
        source.copyto(values)
    elif given is not None and not allow_missing:
        raise RuntimeError(
            f"{desc} is not presented; pass allow_missing=True to let the initializer fill it in"
        )
    elif initializer is not None and values.stype != "default":
        # Initializers assign to all elements, and a row_sparse array of zeros stores none.
        dense = values.tostype("default")
        initializer(desc, dense)
        dense.copyto(values)
    elif initializer is not None:
        initializer(desc, values)
    elif given is None:
        raise TypeError(
            f"parameter {str(desc)!r} gets no value: no parameters are given and initializer is "
            "None; pass one of them"
        )


def storage_type(attributes: Mapping[str, Mapping[str, str]], name: str) -> str:
    """Return the declared storage type of a variable, as in ``var(..., stype="row_sparse")``."""
    return DECLARED_STORAGE.get(attributes.get(name, {}).get("__storage_type__", ""), "default")


def group_contexts(group2ctxs: Any, count: int) -> list[Mapping[str, Context] | None]:
    """Return, for each of the module's devices, the device of each group."""
    if group2ctxs is None:
        return [None] * count
    if isinstance(group2ctxs, (list, tuple)):
        if len(group2ctxs) != count:
            raise UsageError(f"group2ctxs has {len(group2ctxs)} entries for {count} devices")
        return list(group2ctxs)
    if not isinstance(group2ctxs, Mapping):
        raise UsageError(f"group2ctxs is {type(group2ctxs).__name__}; expected a dict or a list")
    spread: list[dict[str, Context]] = [{} for _ in range(count)]
    for name, contexts in group2ctxs.items():
        chosen = [contexts] if isinstance(contexts, Context) else list(contexts)
        if len(chosen) == 1:
            chosen *= count
        if len(chosen) != count:
            raise UsageError(f"group2ctxs[{name!r}] has {len(chosen)} devices, expected {count}")
        for device, context in enumerate(chosen):
            spread[device][name] = context
    return list(spread)
