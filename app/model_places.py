"""Finding the files of a model by the path of one of them, their common prefix or their folder."""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["find_model"]

_SYMBOL = re.compile(r"(.+)-symbol\.json")
_PARAMS = re.compile(r"(.+)-([0-9]{4,9})\.params")


def find_model(target: str) -> tuple[str, int]:
    """Return prefix and epoch: that of the parameter file if one was named, else the last one.

    Args:
        target: a ``-symbol.json`` or ``.params`` file, their common prefix, or their folder.

    Raises:
        ValueError: there is no model, or more than one; the message says which.
    """
    path = Path(target)
    if path.is_dir():
        return _of_folder(path)
    if found := _SYMBOL.fullmatch(path.name):
        return _last(path.with_name(found[1]))
    if found := _PARAMS.fullmatch(path.name):
        return str(path.with_name(found[1])), int(found[2])
    if path.is_file():
        raise ValueError(
            f"{path} is not named like a model file, PREFIX-symbol.json or PREFIX-0001.params; "
            "rename it, and its other file, if it is one"
        )
    return _last(path)


def _of_folder(folder: Path) -> tuple[str, int]:
    found = sorted(one[1] for path in folder.iterdir() if (one := _SYMBOL.fullmatch(path.name)))
    if not found:
        inside = sorted(str(path) for path in folder.glob("*/*-symbol.json"))
        instead = f"; name one of {', '.join(inside)}" if inside else ""
        raise ValueError(f"{folder} has no file like net-symbol.json{instead}")
    if len(found) > 1:
        names = ", ".join(str(folder / f"{one}-symbol.json") for one in found)
        raise ValueError(f"{folder} has several models; name one of {names}")
    return _last(folder / found[0])


def _last(prefix: Path) -> tuple[str, int]:
    folder = prefix.parent
    epochs = [
        int(found[2])
        for path in (folder.iterdir() if folder.is_dir() else ())
        if (found := _PARAMS.fullmatch(path.name)) and found[1] == prefix.name
    ]
    if not epochs:
        raise ValueError(
            f"there are no parameters like {prefix}-0001.params; name a file of the model, what "
            "its files begin with, or their folder"
        )
    return str(prefix), max(epochs)
