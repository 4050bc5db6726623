"""Checks of the tensors in a request."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from app.errors.quoting import did_you_mean
from app.errors.tree import Invalid
from app.executor.modules.variable_roles import is_label
from app.link.protocols import Arrays
from core.types import DType, Shape, to_dtype

__all__ = [
    "batch_shape",
    "check_castable",
    "check_dtype",
    "check_names",
    "check_shape",
    "common_rows",
]


def check_names(tensors: Mapping[str, object], names: Sequence[str], may_miss: bool) -> None:
    """Raise Invalid for an unexpected tensor or, unless ``may_miss``, a missing one."""
    for name in tensors:
        if name not in names:
            near = did_you_mean(name, names)
            expected = f"one of {', '.join(names)}{near}" if names else "none"
            raise Invalid(name, "a tensor of this name", expected, _hint_for(name, near))
    for name in names:
        if name not in tensors and not may_miss:
            raise Invalid(name, "no tensor", f"a tensor for each of {', '.join(names)}")


def check_castable(name: str, got: DType, expected: DType) -> None:
    """Raise Invalid for a dtype whose conversion would lose more than precision."""
    if not np.can_cast(got, expected, "same_kind"):
        raise Invalid(name, f"dtype {got}", f"dtype {expected} or one that converts to it")


def check_dtype(name: str, got: DType, expected: DType | str) -> None:
    """Raise Invalid for a dtype other than the bound one."""
    if got != to_dtype(expected):
        raise Invalid(name, f"dtype {got}", f"dtype {to_dtype(expected)}")


def check_shape(name: str, got: Shape, expected: Shape, batch_axis: int) -> None:
    """Raise Invalid unless shapes agree on all but the batch axis."""
    same_rank = len(got) == len(expected)
    if not same_rank or any(
        a != b for axis, (a, b) in enumerate(zip(got, expected, strict=True)) if axis != batch_axis
    ):
        wanted = f"shape {batch_shape(expected, batch_axis)}"
        raise Invalid(name, f"shape {got}", wanted, _way_to(got, expected, batch_axis))


def _hint_for(name: str, near: str) -> str:
    """Return advice on an unexpected tensor."""
    if near:
        return ""
    if is_label(name):
        return "leave it out; labels are for training"
    return "leave it out, or make a module that has it among its data_names"


def _way_to(got: Shape, expected: Shape, batch_axis: int) -> str:
    """Return advice on examples of an unexpected shape."""
    example = [dim for axis, dim in enumerate(expected) if axis != batch_axis]
    if len(got) > 1 and math.prod(got[1:]) == math.prod(example):
        return f"reshape each example to {example}"
    return (
        "send examples of that shape, or bind the module with yours by POST …/bind; one of the "
        "kind mutable takes any size that its net does"
    )


def batch_shape(shape: Shape, batch_axis: int) -> str:
    """Return a shape as errors show it, with ``n`` for the number of examples: ``(n, 30, 12)``."""
    dims = ["n" if axis == batch_axis else str(dim) for axis, dim in enumerate(shape)]
    return f"({', '.join(dims)}{',' if len(dims) == 1 else ''})"


def common_rows(tensors: Arrays, batch_axes: Iterable[tuple[str, int]]) -> int:
    """Return the number of examples; raise Invalid if it is 0 or differs between tensors."""
    rows = {name: int(tensors[name].shape[axis]) for name, axis in batch_axes if axis >= 0}
    if not rows:
        return 1
    first, count = next(iter(rows.items()))
    if count == 0:
        raise Invalid(first, "no examples", "at least one")
    for name, other in rows.items():
        if other != count:
            raise Invalid(name, f"{other} examples", f"{count}, as in {first!r}")
    return count
