"""Names of the modules made from the models folder, which clients never see."""

from __future__ import annotations

import re

__all__ = ["folder_module_name", "without_folder_names"]

_SUFFIX = ".folder-"
_LETTERS = 12
_INTERNAL = re.compile(rf"{re.escape(_SUFFIX)}[0-9a-f]{{{_LETTERS}}}(?![0-9A-Za-z._-])")


def folder_module_name(model: str, signature: str) -> str:
    """Return the name of the module for one state of a model's files."""
    return f"{model}{_SUFFIX}{signature[:_LETTERS]}"


def without_folder_names(text: str) -> str:
    """Return a text with these names replaced by those that clients know."""
    return _INTERNAL.sub("", text) if _SUFFIX in text else text
