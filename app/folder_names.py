"""Names of the modules that models of the models folder are made into; clients never see them."""

from __future__ import annotations

import re

__all__ = ["folder_module_name", "without_folder_names"]

_SUFFIX = ".folder-"
_LETTERS = 12
_INTERNAL = re.compile(rf"{re.escape(_SUFFIX)}[0-9a-f]{{{_LETTERS}}}(?![0-9A-Za-z._-])")


def folder_module_name(model: str, signature: str) -> str:
    """Return the name of the module that a state of a model's files becomes."""
    return f"{model}{_SUFFIX}{signature[:_LETTERS]}"


def without_folder_names(text: str) -> str:
    """Return a text in which the models stand by the names that clients know them by."""
    return _INTERNAL.sub("", text) if _SUFFIX in text else text
