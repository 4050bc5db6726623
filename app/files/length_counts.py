"""How often each length occurred in predictions: one file a module.

    <data>/lengths/<module>.json

The counts only serve to suggest better buckets, so a lost or damaged file is simply started again.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from app.domain.names import check_name
from app.errors.tree import Damaged, NotFound
from app.files.durable_files import write_durably
from app.files.json_records import encode_record, read_record

__all__ = ["LengthCountFiles", "LengthCounts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthCounts:
    """Counts of the lengths of one input of one module.

    Attributes:
        module_id: tells the module from a later one of the same name.
        input: name of the input.
        axis: axis of its shape that has the length.
        counts: number of examples by length.
    """

    module_id: int
    input: str
    axis: int
    counts: tuple[tuple[int, int], ...] = ()


class LengthCountFiles:
    """The files of all modules."""

    def __init__(self, data_dir: Path) -> None:
        self._root = data_dir / "lengths"

    def read(self, module: str) -> LengthCounts | None:
        """Return the counts of a module, None if there are none."""
        try:
            return read_record(LengthCounts, self._path(module))
        except (NotFound, Damaged):
            return None

    def write(self, module: str, counts: LengthCounts) -> None:
        """Write the counts of a module."""
        self._root.mkdir(parents=True, exist_ok=True)
        write_durably(self._path(module), encode_record(counts))

    def delete(self, module: str) -> None:
        """Remove the file of a deleted module."""
        self._path(module).unlink(missing_ok=True)

    def names(self) -> list[str]:
        """Return the names of the modules that have files."""
        return sorted(path.stem for path in self._root.glob("*.json"))

    def _path(self, module: str) -> Path:
        return self._root / f"{check_name(module, 'module')}.json"
