"""What iterators hand to modules: descriptions of arrays, and batches of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..errors import WrongType
from ..ndarray import NDArray
from ..types import Shape

__all__ = ["DataBatch", "DataDesc"]


class _NameShape(NamedTuple):
    name: str
    shape: Shape


class DataDesc(_NameShape):
    """Name, shape, dtype and layout of one input; unpacks as (name, shape).

    Args:
        name: name of the input.
        shape: its shape, batch included.
        dtype: its dtype.
        layout: a letter per axis; ``N`` marks the batch axis. Without an ``N`` every device gets
            the whole array.
    """

    dtype: Any
    layout: str | None

    def __new__(
        cls, name: str, shape: Sequence[int], dtype: Any = np.float32, layout: str | None = "NCHW"
    ) -> DataDesc:
        desc = super().__new__(cls, name, tuple(shape))
        desc.dtype = dtype
        desc.layout = layout
        return desc

    def __repr__(self) -> str:
        return f"DataDesc[{self.name},{self.shape},{self.dtype},{self.layout}]"

    @staticmethod
    def get_batch_axis(layout: str | None) -> int:
        """Return the batch axis of a layout, or -1 if it has none."""
        return 0 if layout is None else layout.find("N")

    @staticmethod
    def get_list(
        shapes: Iterable[tuple[str, Sequence[int]]], types: Iterable[tuple[str, Any]] | None
    ) -> list[DataDesc]:
        """Return descriptions for (name, shape) pairs with (name, dtype) pairs."""
        if types is None:
            return [DataDesc(name, shape) for name, shape in shapes]
        dtypes = dict(types)
        return [DataDesc(name, shape, dtypes[name]) for name, shape in shapes]


class DataBatch:
    """Inputs and labels of one step.

    Args:
        data: arrays, in the order of the module's data names; None if there are none.
        label: arrays, in the order of its label names.
        pad: number of examples at the end that only pad the batch.
        index: the examples' positions in the data set.
        bucket_key: which bucket the batch is for.
        provide_data, provide_label: descriptions, if they differ from the bound ones.
    """

    def __init__(
        self,
        data: Any,
        label: Sequence[NDArray] | None = None,
        pad: int | None = None,
        index: Any = None,
        bucket_key: Any = None,
        provide_data: Sequence[DataDesc] | None = None,
        provide_label: Sequence[DataDesc] | None = None,
    ) -> None:
        for what, arrays in (("data", data), ("label", label)):
            if arrays is not None and not isinstance(arrays, (list, tuple)):
                raise WrongType(f"{what} of a batch is {type(arrays).__name__}; expected a list")
        self.data = data
        self.label = label
        self.pad = pad
        self.index = index
        self.bucket_key = bucket_key
        self.provide_data = provide_data
        self.provide_label = provide_label

    def __str__(self) -> str:
        data = [array.shape for array in self.data] if self.data else None
        label = [array.shape for array in self.label] if self.label else None
        return f"{type(self).__name__}: data shapes: {data} label shapes: {label}"
