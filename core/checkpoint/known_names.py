"""The names that ``.states`` files may contain, and the classes they refer to."""

from __future__ import annotations

import numpy as np

from ..ndarray import CSRNDArray, NDArray, RowSparseNDArray

__all__ = ["class_of", "name_of", "register_pickled"]

_classes: dict[tuple[str, str], type] = {
    ("mxnet.ndarray.ndarray", "NDArray"): NDArray,
    ("mxnet.ndarray.sparse", "RowSparseNDArray"): RowSparseNDArray,
    ("mxnet.ndarray.sparse", "CSRNDArray"): CSRNDArray,
    ("builtins", "bytearray"): bytearray,
    ("numpy", "dtype"): np.dtype,
}
_names: dict[type, tuple[str, str]] = {cls: name for name, cls in _classes.items()}


def register_pickled(cls: type, module: str) -> None:
    """Allow objects of a class in ``.states`` files, under the name of its module in MXNet.

    Reading creates an object without calling the class and sets the pickled attributes, which can
    only be numbers, texts, arrays and objects of other known classes.
    """
    _classes[module, cls.__name__] = cls
    _names[cls] = (module, cls.__name__)


def class_of(module: str, name: str) -> type | None:
    """Return the class for a pickled name; None if the name is not known."""
    found = _classes.get((module, name))
    if found is None and module.startswith("mxnet.optimizer"):
        # MXNet moved its optimizers between submodules over the years.
        found = _classes.get(("mxnet.optimizer.optimizer", name))
    return found


def name_of(cls: type) -> tuple[str, str] | None:
    """Return the (module, name) under which a class is pickled; None if it must not be."""
    return _names.get(cls)
