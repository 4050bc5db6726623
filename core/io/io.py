"""The iterators under MXNet's import path, ``mxnet.io.io``."""

from __future__ import annotations

from .batch import DataBatch, DataDesc
from .image_det_record_iter import ImageDetRecordIter
from .image_record_iter import (
    ImageRecordInt8Iter,
    ImageRecordIter,
    ImageRecordIter_v1,
    ImageRecordUInt8Iter,
    ImageRecordUInt8Iter_v1,
)
from .iterator import DataIter, ResizeIter
from .mnist_iter import MNISTIter
from .ndarray_iter import NDArrayIter, _init_data
from .prefetching_iter import PrefetchingIter
from .row_iter import RowIter as MXDataIter
from .text_iter import CSVIter, LibSVMIter

__all__ = [
    "CSVIter",
    "DataBatch",
    "DataDesc",
    "DataIter",
    "ImageDetRecordIter",
    "ImageRecordInt8Iter",
    "ImageRecordIter",
    "ImageRecordIter_v1",
    "ImageRecordUInt8Iter",
    "ImageRecordUInt8Iter_v1",
    "LibSVMIter",
    "MNISTIter",
    "MXDataIter",
    "NDArrayIter",
    "PrefetchingIter",
    "ResizeIter",
    "_init_data",
]
