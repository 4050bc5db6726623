"""Folders of images as request bodies."""

from __future__ import annotations

import tarfile
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

__all__ = ["Images"]

_TIMEOUT_SECONDS = (10.0, None, 60.0, 10.0)
"""Timeouts to connect, read, write, and get a connection: decoding many images takes its time."""


@dataclass(frozen=True, slots=True)
class Images:
    """A folder of images, sent as a tar file; or an archive of images, sent as it is."""

    is_heavy: ClassVar[bool] = True
    path: Path

    def opened(self, files: ExitStack) -> dict[str, Any]:
        """Return the body as arguments of httpx."""
        if not self.path.is_dir():
            file = files.enter_context(self.path.open("rb"))
            return {"content": file, "timeout": _TIMEOUT_SECONDS}
        # On disk, because a folder may not fit into memory.
        packed = Path(files.enter_context(tempfile.TemporaryDirectory())) / "images.tar"
        with tarfile.open(packed, "w", dereference=True) as archive:
            for path in sorted(self.path.rglob("*")):
                inside = path.relative_to(self.path)
                if path.is_file() and not any(part.startswith(".") for part in inside.parts):
                    archive.add(path, str(inside))
        return {"content": files.enter_context(packed.open("rb")), "timeout": _TIMEOUT_SECONDS}
