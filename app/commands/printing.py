"""Rows as text in columns, or as JSON; moments and sizes as people read them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import typer

__all__ = ["Column", "age", "dimensions", "number", "print_rows", "print_value", "size"]

Column = tuple[str, Callable[[Mapping[str, Any]], Any]]
"""A heading, and what a row has under it."""

_UNITS = ((86400, "d"), (3600, "h"), (60, "m"))
_GAP = "  "


def print_rows(rows: Sequence[Mapping[str, Any]], columns: Sequence[Column], as_json: bool) -> None:
    """Print a line for each row under headings; nothing is cut, wherever the text goes."""
    if as_json:
        print_value(list(rows))
        return
    cells = [[heading for heading, _ in columns]]
    cells += [
        ["-" if (one := of(row)) in (None, "") else str(one) for _, of in columns] for row in rows
    ]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        padded = (text.ljust(width) for text, width in zip(line, widths, strict=True))
        typer.echo(_GAP.join(padded).rstrip())


def print_value(value: Any) -> None:
    """Print JSON."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def age(moment: str | None) -> str | None:
    """Return how long ago an ISO moment was: ``3m``, ``2h``, ``5d``."""
    if moment is None:
        return None
    seconds = max(0, int((datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds()))
    for unit, letter in _UNITS:
        if seconds >= unit:
            return f"{seconds // unit}{letter}"
    return f"{seconds}s"


def size(count: int) -> str:
    """Return bytes with the unit that leaves few digits: ``1.2 MB``."""
    value, unit = float(count), "B"
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000 or unit == "GB":
            break
        value /= 1000
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"


def number(value: float | None) -> str:
    """Return a metric in four digits."""
    return "nan" if value is None else f"{value:.4g}"


def dimensions(shape: Sequence[int]) -> str:
    """Return a shape as ``64x1x28x28``."""
    return "x".join(map(str, shape)) or "scalar"
