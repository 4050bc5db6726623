"""Descriptions of a module's inputs, from what scripts give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..io import DataDesc
from .checks import check_names_match

__all__ = ["describe", "describe_inputs"]


def describe(shapes: Sequence[Any] | None) -> list[DataDesc]:
    """Return descriptions for descriptions or (name, shape) pairs."""
    return [one if isinstance(one, DataDesc) else DataDesc(*one) for one in shapes or ()]


def describe_inputs(
    data_names: Sequence[str],
    label_names: Sequence[str],
    data_shapes: Sequence[Any],
    label_shapes: Sequence[Any] | None,
) -> tuple[list[DataDesc], list[DataDesc] | None]:
    """Return descriptions of a module's data and labels; None for labels that are not described.

    Without labels a loss layer's label is still an argument: its shape is inferred.

    Raises:
        ValueError: the data are not those that the module names; of labels a warning says so.
    """
    data, labels = describe(data_shapes), describe(label_shapes)
    check_names_match(data_names, data, "data", strict=True)
    if labels:
        check_names_match(label_names, labels, "label", strict=False)
    return data, labels or None
