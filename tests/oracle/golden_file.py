"""Golden files: compressed npz, byte-identical for equal contents, that record their origin."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import ModuleType

import numpy as np

__all__ = ["GOLDEN", "ORIGIN", "case", "load", "ops", "origin", "origin_text", "save", "topic"]

GOLDEN = Path(__file__).parent / "golden"
ORIGIN = "origin"
"""Name under which the origin is recorded: of an array, an entry of JSON, or a file in a folder."""


def origin_text(mx: ModuleType, script: str) -> str:
    """Return the origin recorded in golden files.

    Args:
        mx: the library that computed them.
        script: the command that wrote them, relative to ``tests/oracle``.
    """
    return f"{mx.__name__} {mx.__version__}, numpy {np.__version__}: tests/oracle/{script}"


def save(path: Path, arrays: Mapping[str, np.ndarray], origin: str) -> None:
    """Write arrays sorted by name and without timestamps, so that a rerun changes no byte."""
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = {**arrays, ORIGIN: np.array(origin)}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in sorted(arrays):
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, np.asarray(arrays[name]), allow_pickle=False)
            member = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            member.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(member, buffer.getvalue())


def load(path: Path) -> dict[str, np.ndarray]:
    """Return all arrays of a golden file."""
    with np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files if name != ORIGIN}


def origin(path: Path) -> str:
    """Return what wrote a golden file; a folder may record it for all its files."""
    of_all = path.parent / ORIGIN
    if path.suffix == ".json" and not of_all.is_file():
        return str(json.loads(path.read_text(encoding="utf-8"))[ORIGIN])
    if path.suffix != ".npz":
        return of_all.read_text(encoding="utf-8").strip()
    with np.load(path, allow_pickle=False) as archive:
        return str(archive[ORIGIN])


@cache
def ops(family: str) -> dict[str, np.ndarray]:
    """Return the golden arrays of a family of operators, read once."""
    return load(GOLDEN / "ops" / f"{family}.npz")


@cache
def topic(name: str) -> dict[str, np.ndarray]:
    """Return the golden arrays of a topic, read once."""
    return load(GOLDEN / f"{name}.npz")


def case(name: str, case_id: str) -> dict[str, np.ndarray]:
    """Return the golden arrays of one case of a topic, without the case in their keys."""
    start = f"{case_id}/"
    return {k.removeprefix(start): x for k, x in topic(name).items() if k.startswith(start)}
