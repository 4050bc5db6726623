"""Functions that combine examples into a batch, for ``DataLoader(batchify_fn=...)``.

MXNet 1.9.1 has only the default function; the classes are from its later versions and from
GluonNLP. All take a list of examples.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...device import Context
from ...errors import UsageError
from ...ndarray import NDArray, array, expand_dims, stack
from .shared_memory import Rows

__all__ = [
    "Append",
    "AsList",
    "Group",
    "Pad",
    "Stack",
    "default_batchify_fn",
    "default_mp_batchify_fn",
    "gathered",
]

Batchify = Callable[[Sequence[Any]], Any]

_SHARED = Context("cpu_shared", 0)


def default_batchify_fn(data: Sequence[Any]) -> Any:
    """Stack arrays, combine numbers into an array, and tuples into a list of one batch per element.

    Anything but an NDArray keeps NumPy's dtype: int64 for integers.
    """
    return _stacked(data, None)


def default_mp_batchify_fn(data: Sequence[Any]) -> Any:
    """Do the same as ``default_batchify_fn``, with the context ``cpu_shared(0)``."""
    return _stacked(data, _SHARED)


class Stack:
    """Stacks arrays or numbers; tuples and lists elementwise.

    Args:
        use_shared_mem: give the batch the context ``cpu_shared(0)``, which batches from worker
            processes always have.
    """

    def __init__(self, use_shared_mem: bool = False) -> None:
        self._context = _SHARED if use_shared_mem else None

    def __call__(self, data: Sequence[Any]) -> Any:
        """Return the batch, a list of batches for tuples and lists."""
        if isinstance(data[0], (tuple, list)):
            return [self(part) for part in zip(*data, strict=True)]
        return _stacked(data, self._context)


class Pad:
    """Pads arrays to the length of the longest, in every axis, and stacks them.

    Args:
        val: value of the padding; None is 0.
        dtype: dtype of the batch, by default that of the first array.
        round_to: round lengths up to multiples of this number.
        use_shared_mem: see ``Stack``.
    """

    def __init__(
        self,
        val: float | None = None,
        dtype: Any = None,
        round_to: int | None = None,
        use_shared_mem: bool = False,
    ) -> None:
        self._pad_val = 0 if val is None else val
        self._dtype = dtype
        self._round_to = round_to
        self._context = _SHARED if use_shared_mem else None
        self._warned = False

    def __call__(self, data: Sequence[Any]) -> NDArray:
        """Return the batch.

        Raises:
            NotImplementedError: examples have several elements; use ``Group``.
        """
        if not isinstance(data[0], (NDArray, np.ndarray, list)):
            raise NotImplementedError(
                "Pad() does not support multiple items, use Group(Pad(), Pad(), ...) instead"
            )
        if isinstance(data[0], NDArray) and not self._warned:
            self._warned = True
            warnings.warn(
                "Using Pad with NDArrays is discouraged for speed reasons. Pad lists or NumPy "
                "arrays instead.",
                stacklevel=2,
            )
        arrays = [np.asarray(one) for one in data]
        batch = _padded(arrays, self._pad_val, self._dtype, self._round_to)
        return array(batch, self._context, batch.dtype)


class Append:
    """Collects arrays of different shapes in a list.

    Args:
        expand: insert a batch axis of length 1 into each.
        batch_axis: position of that axis.
        use_shared_mem: see ``Stack``.
    """

    def __init__(
        self, expand: bool = True, batch_axis: int = 0, use_shared_mem: bool = False
    ) -> None:
        self._expand = expand
        self._batch_axis = batch_axis
        self._context = _SHARED if use_shared_mem else None

    def __call__(self, data: Sequence[Any]) -> list[NDArray]:
        """Return the arrays; anything but an NDArray is converted to one of float32."""
        arrays = [
            _moved(one, self._context) if isinstance(one, NDArray) else array(one, self._context)
            for one in data
        ]
        if not self._expand:
            return arrays
        return [expand_dims(one, axis=self._batch_axis) for one in arrays]


class Group:
    """Applies a separate function to each element of the examples.

    Args:
        fn, args: one function for each element, or a list of them.

    Raises:
        UsageError: a list is followed by further functions, or something is not callable.
    """

    def __init__(self, fn: Batchify | Sequence[Batchify], *args: Batchify) -> None:
        if isinstance(fn, (list, tuple)):
            if args:
                raise UsageError(
                    "Group takes functions, Group(A, B), or one list of them, Group([A, B]); got "
                    f"a list and {len(args)} more"
                )
            self._fn: tuple[Batchify, ...] = tuple(fn)
        else:
            self._fn = (fn, *args)  # type: ignore[arg-type]
        for place, one in enumerate(self._fn):
            if not callable(one):
                raise UsageError(
                    f"Batchify functions must be callable! type(fn[{place}]) = {type(one)}"
                )

    def __call__(self, data: Sequence[Any]) -> tuple[Any, ...]:
        """Return a batch for each element.

        Raises:
            UsageError: the number of elements in an example differs from that of functions.
        """
        if len(data[0]) != len(self._fn):
            raise UsageError(
                f"an example has {len(data[0])} elements; Group has {len(self._fn)} functions"
            )
        return tuple(
            batchify([example[place] for example in data])
            for place, batchify in enumerate(self._fn)
        )


class AsList:
    """Returns the list of examples unchanged, for instance texts."""

    def __call__(self, data: Sequence[Any]) -> list[Any]:
        """Return the list."""
        return list(data)


def _stacked(data: Sequence[Any], context: Context | None) -> Any:
    if isinstance(data[0], NDArray):
        return _moved(stack(*data), context)
    if isinstance(data[0], tuple):
        return [_stacked(part, context) for part in zip(*data, strict=True)]
    values = np.asarray(data)
    return array(values, context, values.dtype)


def gathered(data: Sequence[Any]) -> Any:
    """Do the same as ``default_mp_batchify_fn``, but stack arrays while they are sent.

    For worker processes only, because ``Rows`` can only be sent.
    """
    if isinstance(data[0], tuple):
        return [gathered(part) for part in zip(*data, strict=True)]
    raws = [one.dense() if type(one) is NDArray else one for one in data]
    first = raws[0]
    if not isinstance(first, np.ndarray) or first.dtype.kind not in "fiub":
        return default_mp_batchify_fn(data)
    alike = all(
        isinstance(one, np.ndarray) and one.shape == first.shape and one.dtype == first.dtype
        for one in raws
    )
    return Rows(raws) if alike else default_mp_batchify_fn(data)


def _moved(data: NDArray, context: Context | None) -> NDArray:
    return data if context is None else data.as_in_context(context)


def _padded(
    arrays: list[np.ndarray[Any, Any]], value: float, dtype: Any, round_to: int | None
) -> np.ndarray[Any, Any]:
    lengths = np.max([one.shape for one in arrays], axis=0)
    if round_to is not None:
        lengths = -(-lengths // round_to) * round_to
    batch = np.full((len(arrays), *lengths), value, arrays[0].dtype if dtype is None else dtype)
    for row, one in zip(batch, arrays, strict=True):
        row[tuple(slice(length) for length in one.shape)] = one
    return batch
