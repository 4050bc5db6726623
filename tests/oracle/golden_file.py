"""Golden files: compressed npz with equal bytes for equal contents."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np

__all__ = ["GOLDEN", "load", "ops", "save", "topic"]

GOLDEN = Path(__file__).parent / "golden"


def save(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays sorted by name and without time stamps, so that a rerun changes no byte."""
    path.parent.mkdir(parents=True, exist_ok=True)
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
        return {name: archive[name] for name in archive.files}


@cache
def ops(family: str) -> dict[str, np.ndarray]:
    """Return the golden arrays of a family of operators, read once."""
    return load(GOLDEN / "ops" / f"{family}.npz")


@cache
def topic(name: str) -> dict[str, np.ndarray]:
    """Return the golden arrays of a topic, read once."""
    return load(GOLDEN / f"{name}.npz")
