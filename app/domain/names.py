"""Names that clients choose: safe as a path component, a URL segment and a log word."""

from __future__ import annotations

import re
from typing import Annotated, TypeAlias

from pydantic import BeforeValidator, Field, WithJsonSchema

from app.errors.tree import Invalid

__all__ = [
    "FILE_PATTERN",
    "NAME_PATTERN",
    "OWNER_PATTERN",
    "BucketKey",
    "Pattern",
    "check_name",
    "check_name_of_file",
    "in_words",
]

NAME_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}"
"""Names of modules, datasets and files. No separator and no leading dot, so that they are never
paths.
"""

FILE_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._-]{0,191}"
"""Names of files of checkpoints, which begin with the name of a module. With what is put before and
behind the name of a file in the making, they fit into the 255 bytes that file systems allow.
"""

OWNER_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}"
"""Names of the owners of keys."""

_NAME = re.compile(NAME_PATTERN)
_FILE = re.compile(FILE_PATTERN)
BucketKey: TypeAlias = Annotated[
    str,
    BeforeValidator(lambda key: str(key) if type(key) is int else key),
    WithJsonSchema({"type": ["string", "integer"], "examples": ["20", 20, "[10,20]"]}),
]
"""A bucket's key in a body: its JSON text (``20``, ``[10,20]``), or a number."""

Pattern: TypeAlias = Annotated[
    str, Field(min_length=1, max_length=200, examples=["*_output", "fc?_weight"])
]
"""A pattern of names, as for files: ``*`` stands for any characters, ``?`` for one."""

_EXPECTED = "1 to 128 of A-Z a-z 0-9 . _ - beginning with a letter or digit"
_EXPECTED_FILE = _EXPECTED.replace("128", "192")
_WORDS = {
    NAME_PATTERN: _EXPECTED,
    FILE_PATTERN: _EXPECTED_FILE,
    OWNER_PATTERN: "1 to 64 of A-Z a-z 0-9 . _ @ - beginning with a letter or digit",
}


def check_name(name: object, field: str = "name") -> str:
    """Return the name if it is valid, else raise Invalid for this field."""
    if isinstance(name, str) and _NAME.fullmatch(name):
        return name
    raise Invalid(field, name, _EXPECTED)


def check_name_of_file(name: object, field: str = "file") -> str:
    """Return the name of a file of a checkpoint if it is valid, else raise Invalid."""
    if isinstance(name, str) and _FILE.fullmatch(name):
        return name
    raise Invalid(field, name, _EXPECTED_FILE)


def in_words(message: str) -> str:
    """Return what a message that quotes the pattern of a name expects; others as they are."""
    return next(
        (words for pattern, words in _WORDS.items() if f"'^{pattern}$'" in message), message
    )
