"""Rows as text in columns, or as JSON; times and sizes in readable form."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import typer

__all__ = [
    "Column",
    "age",
    "dimensions",
    "number",
    "print_facts",
    "print_json",
    "print_row",
    "print_rows",
    "size",
]

Column = tuple[str, Callable[[Mapping[str, Any]], Any]]
"""A heading, and the cell of a row under it."""

_UNITS = ((86400, "d"), (3600, "h"), (60, "m"))
_GAP = "  "
_LONGEST = 160


def print_rows(rows: Sequence[Mapping[str, Any]], columns: Sequence[Column], as_json: bool) -> None:
    """Print a line for each row under headings; nothing is truncated."""
    if as_json:
        print_json(list(rows))
        return
    cells = [[heading for heading, _ in columns]]
    cells += [
        ["-" if (one := of(row)) in (None, "") else str(one) for _, of in columns] for row in rows
    ]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        padded = (text.ljust(width) for text, width in zip(line, widths, strict=True))
        typer.echo(_GAP.join(padded).rstrip())


def print_row(row: Mapping[str, Any], columns: Sequence[Column], as_json: bool) -> None:
    """Print one item: its line in a list, or its JSON."""
    if as_json:
        print_json(row)
    else:
        print_rows([row], columns, False)


def print_facts(facts: Mapping[str, Any], as_json: bool) -> None:
    """Print all fields of an item, one per line; long values are truncated, except in JSON."""
    if as_json:
        print_json(facts)
    else:
        _print_indented(facts, "")


def _print_indented(facts: Mapping[str, Any], indent: str) -> None:
    width = max(map(len, facts), default=0)
    for name, value in facts.items():
        if isinstance(value, dict) and value:
            typer.echo(f"{indent}{name}")
            _print_indented(value, indent + _GAP)
        elif isinstance(value, list) and any(isinstance(one, (dict, list)) for one in value):
            typer.echo(f"{indent}{name}")
            for one in value:
                typer.echo(f"{indent}{_GAP}{_in_a_line(one)}")
        else:
            typer.echo(f"{indent}{name:<{width}}{_GAP}{_in_a_line(value)}")


def _in_a_line(value: Any) -> str:
    if value is None or value in ([], {}):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        text = ", ".join(value)
    else:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def print_json(value: Any) -> None:
    """Print JSON."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def age(moment: str | None) -> str | None:
    """Return how long ago an ISO time was: ``3m``, ``2h``, ``5d``."""
    if moment is None:
        return None
    seconds = max(0, int((datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds()))
    for unit, letter in _UNITS:
        if seconds >= unit:
            return f"{seconds // unit}{letter}"
    return f"{seconds}s"


def size(count: int) -> str:
    """Return bytes with a unit that needs few digits: ``1.2 MB``."""
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
