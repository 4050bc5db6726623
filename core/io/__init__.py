"""Data iterators (``mx.io``)."""

from __future__ import annotations

from . import io
from .io import *  # noqa: F403 - all that MXNet has under that path

__all__ = ["io"]
__all__ += io.__all__
