"""Where the files of published datasets are; nothing is downloaded."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ...base import data_dir
from ...errors import MXNetError

__all__ = ["default_root", "first_existing", "require_files"]


def default_root(name: str) -> str:
    """Return the folder of a dataset, ``$MXNET_HOME/datasets/NAME``."""
    return os.path.join(data_dir(), "datasets", name)


def first_existing(root: str, names: Sequence[str]) -> str | None:
    """Return the path of the first of these files that exists."""
    paths = (os.path.join(root, name) for name in names)
    return next((path for path in paths if os.path.isfile(path)), None)


def require_files(
    root: str, names: Sequence[str], found: Sequence[str | None], instead: str = ""
) -> None:
    """Raise MXNetError if one of the files has not been found.

    Args:
        root: folder in which they were looked for.
        names: what they are called.
        found: path of each, or None.
        instead: what would do as well.
    """
    missing = [name for name, path in zip(names, found, strict=True) if path is None]
    if missing:
        raise MXNetError(
            f"{root} lacks {', '.join(missing)}. Nothing is downloaded: put these files there"
            f"{instead and ', '}{instead}, or give their folder as root=."
        )
