"""Descriptions of a module's inputs from the forms that scripts pass, and checks of their names."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from ..symbol import Symbol
from .batch import DataDesc

__all__ = ["check_input_names", "check_names_match", "describe", "describe_inputs"]


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


def check_input_names(symbol: Symbol, names: Sequence[str], kind: str, required: bool) -> None:
    """Raise ValueError (or warn, if not required) for names that are not arguments."""
    arguments = symbol.list_arguments()
    for name in names:
        if name in arguments:
            continue
        candidates = [
            one for one in arguments if not one.endswith(("_weight", "_bias", "_gamma", "_beta"))
        ]
        message = (
            f"You created Module with {kind}_names={list(names)} but input with name {name!r} is "
            f"not found in symbol.list_arguments(). Did you mean one of: {', '.join(candidates)}?"
        )
        if required:
            raise ValueError(message)
        warnings.warn(message, stacklevel=3)


def check_names_match(
    names: Sequence[str], descs: Sequence[DataDesc], kind: str, strict: bool
) -> None:
    """Raise ValueError (or warn) if the described inputs differ from the named ones."""
    given = [desc.name for desc in descs]
    if sorted(names) == sorted(given):
        return
    message = (
        f"Data provided by {kind}_shapes don't match names specified by {kind}_names "
        f"({given} vs. {list(names)})"
    )
    if strict:
        raise ValueError(message)
    warnings.warn(message, stacklevel=4)
