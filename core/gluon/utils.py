"""Helpers under MXNet's import path (``mxnet.gluon.utils``)."""

from __future__ import annotations

import os

from ..config import repository_address
from .fetching import check_sha1, download
from .hooks import HookHandle
from .splitting import clip_global_norm, split_and_load, split_data

__all__ = [
    "HookHandle",
    "check_sha1",
    "clip_global_norm",
    "download",
    "replace_file",
    "split_and_load",
    "split_data",
]


def replace_file(src: str, dst: str) -> None:
    """Move a file to the place of another one, in one step."""
    os.replace(src, dst)


def _get_repo_url() -> str:
    """Return the address of the files that MXNet's own functions download."""
    return repository_address()


def _get_repo_file_url(namespace: str, filename: str) -> str:
    """Return the address of one of these files."""
    return f"{_get_repo_url()}{namespace}/{filename}"
