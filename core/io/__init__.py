"""Data iterators (``mx.io``)."""

from __future__ import annotations

from core.io.batch import DataBatch, DataDesc
from core.io.iterator import DataIter, ResizeIter
from core.io.ndarray_iter import NDArrayIter

__all__ = ["DataBatch", "DataDesc", "DataIter", "NDArrayIter", "ResizeIter"]
