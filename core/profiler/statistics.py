"""Totals of a profiler's records, as a table or as JSON in MXNet's format."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .trace_file import Record, Sample, Span

__all__ = ["DEVICE_STORAGE", "KERNEL", "SORT_KEYS", "Statistics"]

DEVICE_STORAGE = "Device Storage"
"""Category of counters whose unit is bytes."""

KERNEL = "kernel"
"""Key of a span's detail under which it is counted a second time, in the category with this
name."""

_NS_PER_MS = 1e6
_BYTES_PER_KB = 1000.0


@dataclasses.dataclass(slots=True)
class Total:
    """Count, sum and extremes of one name's durations or values."""

    count: int = 0
    sum: float = 0.0
    least: float = math.inf
    most: float = -math.inf

    def add(self, value: float) -> None:
        """Add a duration or value."""
        self.count += 1
        self.sum += value
        self.least = min(self.least, value)
        self.most = max(self.most, value)

    @property
    def average(self) -> float:
        """The mean."""
        return self.sum / self.count


SORT_KEYS: Mapping[str, Callable[[Total], float]] = {
    "total": lambda total: total.sum,
    "avg": lambda total: total.average,
    "min": lambda total: total.least,
    "max": lambda total: total.most,
    "count": lambda total: total.count,
}
"""The keys by which entries of a category can be sorted."""

Category = dict[str, Total]


@dataclasses.dataclass(frozen=True)
class _Section:
    """Presentation of the categories of one kind.

    Attributes:
        title: key in the JSON, or title of a column.
        unit: unit of all figures; "" for plain numbers.
        scale: number of the records' units in one ``unit``.
        has_total: whether a sum is meaningful.
    """

    title: str
    unit: str
    scale: float
    has_total: bool


_TIME = _Section("Time", "ms", _NS_PER_MS, has_total=True)
_MEMORY = _Section("Memory", "kB", _BYTES_PER_KB, has_total=False)
_COUNTER = _Section("Counter", "", 1.0, has_total=False)


class Statistics:
    """Totals by category and name: of spans, of byte counters and of other counters."""

    def __init__(self) -> None:
        self._sections: dict[_Section, dict[str, Category]] = {}
        self.clear()

    def clear(self) -> None:
        """Clear all totals."""
        self._sections = {_MEMORY: {}, _TIME: {}, _COUNTER: {}}

    def add(self, records: Iterable[Record]) -> None:
        """Add records; marks have nothing to total."""
        for record in records:
            if isinstance(record, Span):
                duration = record.stop - record.start
                self._add(_TIME, record.category, record.name, duration)
                if KERNEL in record.detail:
                    self._add(_TIME, KERNEL, record.detail[KERNEL], duration)
            elif isinstance(record, Sample):
                section = _MEMORY if record.category == DEVICE_STORAGE else _COUNTER
                self._add(section, record.category, record.name, record.value)

    def table(self, sort_by: str = "total", ascending: bool = False) -> str:
        """Return a table for each category."""
        lines = ["", "Profile Statistics:", "\tNote the difference in units for different entries."]
        for section, categories in self._sections.items():
            for name in sorted(categories):
                lines += [name, "=" * 17, *_heading(section)]
                lines += [
                    _row(section, entry, total)
                    for entry, total in _sorted(categories[name], sort_by, ascending)
                ]
                lines.append("")
        return "\n".join(lines) + "\n"

    def json(self, sort_by: str = "total", ascending: bool = False) -> str:
        """Return the same figures as a JSON object in MXNet's format."""
        document: dict[str, Any] = {}
        for section, categories in self._sections.items():
            document[section.title] = {
                name: {
                    entry: _figures(section, total)
                    for entry, total in _sorted(categories[name], sort_by, ascending)
                }
                for name in sorted(categories)
            }
        document["Unit"] = {_TIME.title: _TIME.unit, _MEMORY.title: _MEMORY.unit}
        return json.dumps(document, indent=4)

    def _add(self, section: _Section, category: str, name: str, value: float) -> None:
        names = self._sections[section].setdefault(category, {})
        names.setdefault(name, Total()).add(value)


def _sorted(category: Category, sort_by: str, ascending: bool) -> list[tuple[str, Total]]:
    key = SORT_KEYS[sort_by]
    return sorted(category.items(), key=lambda item: key(item[1]), reverse=not ascending)


def _columns(section: _Section) -> list[str]:
    kind = {"Memory": "Use", "Counter": "Value"}.get(section.title, section.title)
    unit = f" ({section.unit})" if section.unit else ""
    columns = [f"Min {kind}{unit}", f"Max {kind}{unit}", f"Avg {kind}{unit}"]
    return [f"{section.title}{unit}", *columns] if section.has_total else columns


def _heading(section: _Section) -> list[str]:
    columns = ["Total Count", *_columns(section)]
    return [
        f"{'Name':<36}" + "".join(f"{column:>17}" for column in columns),
        f"{'----':<36}" + "".join(f"{'-' * len(column):>17}" for column in columns),
    ]


def _row(section: _Section, name: str, total: Total) -> str:
    figures = [total.least, total.most, total.average]
    if section.has_total:
        figures.insert(0, total.sum)
    return f"{name:<36}{total.count:>17}" + "".join(
        f"{figure / section.scale:>17.4f}" for figure in figures
    )


def _figures(section: _Section, total: Total) -> dict[str, float]:
    figures: dict[str, float] = {"Count": total.count}
    if section.has_total:
        figures["Total"] = total.sum / section.scale
    figures["Min"] = total.least / section.scale
    figures["Max"] = total.most / section.scale
    figures["Avg"] = total.average / section.scale
    return figures
