"""Positional arguments of operator functions, in order."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

__all__ = ["MODULES", "parameters", "write_files"]

MODULES = ("op", "_internal", "contrib", "linalg", "sparse", "image")
"""Modules of ``mx.sym`` whose functions are operators."""

_OWN = {"name", "attr", "out", "kwargs"}
"""Parameters of every function."""


def parameters(function: Any) -> list[str]:
    """Return the names of an operator function's inputs and attributes; ``*data`` for any number.

    Where the inputs are any number, attributes go by keyword and are left out.
    """
    found = inspect.signature(function).parameters.values()
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in found):
        return ["*data"]
    return [parameter.name for parameter in found if parameter.name not in _OWN]


def write_files(mx: Any, folder: Path) -> None:
    """Write one JSON file per module."""
    for name in MODULES:
        module = getattr(mx.sym, name)
        functions = {
            key: parameters(value)
            for key, value in vars(module).items()
            if inspect.isfunction(value) and "_backward" not in key
        }
        text = json.dumps(functions, indent=None, sort_keys=True)
        (folder / f"{name}.json").write_text(text.replace("], ", "],\n") + "\n", encoding="utf-8")
