"""Iterators under the path that scripts import them by (``mxnet.io.io``)."""

from __future__ import annotations

from core.io.batch import DataBatch, DataDesc
from core.io.image_det_record_iter import ImageDetRecordIter
from core.io.image_record_iter import (
    ImageRecordInt8Iter,
    ImageRecordIter,
    ImageRecordIter_v1,
    ImageRecordUInt8Iter,
    ImageRecordUInt8Iter_v1,
)
from core.io.iterator import DataIter, ResizeIter
from core.io.mnist_iter import MNISTIter
from core.io.ndarray_iter import NDArrayIter, _init_data
from core.io.prefetching_iter import PrefetchingIter
from core.io.row_iter import RowIter as MXDataIter
from core.io.text_iter import CSVIter, LibSVMIter

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
