"""Files of many images."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Mapping
from typing import Any

__all__ = ["tarred", "zipped"]


def zipped(files: Mapping[str, bytes]) -> bytes:
    """Return a zip file of files by path."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return stream.getvalue()


def tarred(files: Mapping[str, bytes], **of_each: Any) -> bytes:
    """Return a tar file of files by path, each with extra header fields."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            for field, value in of_each.items():
                setattr(entry, field, value)
            archive.addfile(entry, io.BytesIO(content))
    return stream.getvalue()
