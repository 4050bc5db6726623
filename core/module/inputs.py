"""Descriptions of a module's inputs from the forms that scripts pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..io import DataDesc
from .checks import check_names_match

__all__ = ["describe", "describe_inputs"]


def describe(shapes: Sequence[Any] | None) -> list[DataDesc]:
    """Convert (name, shape) pairs to descriptions; descriptions stay as they are."""
    return [one if isinstance(one, DataDesc) else DataDesc(*one) for one in shapes or ()]


def describe_inputs(
    data_names: Sequence[str],
    label_names: Sequence[str],
    data_shapes: Sequence[Any],
    label_shapes: Sequence[Any] | None,
) -> tuple[list[DataDesc], list[DataDesc] | None]:
    """Return descriptions of a module's data and labels; None in place of labels if none are given.

    The label of a loss layer is an argument even if no labels are given: its shape is inferred.

    Raises:
        ValueError: the names of the data are not those of the module; for labels it only warns.
    """
    data, labels = describe(data_shapes), describe(label_shapes)
    check_names_match(data_names, data, "data", strict=True)
    if labels:
        check_names_match(label_names, labels, "label", strict=False)
    return data, labels or None
