"""Checks of names and shapes that forks of ``Module`` import from ``mxnet.module.base_module``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..io import DataDesc
from ..io.inputs import check_input_names, check_names_match, describe
from ..symbol import Symbol

__all__ = ["_check_input_names", "_check_names_match", "_parse_data_desc"]


def _check_input_names(symbol: Symbol, names: Sequence[str], typename: str, throw: bool) -> None:
    """Raise ValueError (or warn, unless ``throw``) for names that are not arguments."""
    check_input_names(symbol, names, typename, throw)


def _check_names_match(
    data_names: Sequence[str], data_shapes: Sequence[Any], name: str, throw: bool
) -> None:
    """Raise ValueError (or warn, unless ``throw``) if described inputs do not match the names."""
    check_names_match(data_names, describe(data_shapes), name, throw)


def _parse_data_desc(
    data_names: Sequence[str],
    label_names: Sequence[str],
    data_shapes: Sequence[Any],
    label_shapes: Sequence[Any] | None,
) -> tuple[list[DataDesc], list[DataDesc] | None]:
    """Return descriptions of data and labels; None if no labels are given.

    Raises:
        ValueError: the data do not match the names; labels that do not match cause a warning.
    """
    data = describe(data_shapes)
    labels = None if label_shapes is None else describe(label_shapes)
    check_names_match(data_names, data, "data", strict=True)
    check_names_match(label_names, labels or (), "label", strict=False)
    return data, labels
