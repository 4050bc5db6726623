"""Creation and files of arrays under MXNet's import path (``mxnet.ndarray.utils``)."""

from __future__ import annotations

from .creation import array, empty, zeros
from .serialization import load, load_frombuffer, save

__all__ = ["array", "empty", "load", "load_frombuffer", "save", "zeros"]
