"""How examples become a batch: functions for ``DataLoader(batchify_fn=...)``.

MXNet 1.9.1 has but the default function; the classes are those of its later versions and of
GluonNLP. All take the list of a batch's examples.
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
    """Return arrays stacked, tuples as a list with one batch for each place, numbers as an array.

    What is no NDArray keeps the dtype that NumPy gives it: int64 for whole numbers.
    """
    return _stacked(data, None)


def default_mp_batchify_fn(data: Sequence[Any]) -> Any:
    """Return what ``default_batchify_fn`` does, with ``cpu_shared(0)`` as its context."""
    return _stacked(data, _SHARED)


class Stack:
    """Stacks arrays or numbers; of tuples and lists the elements at each place.

    Args:
        use_shared_mem: let the batch have the context ``cpu_shared(0)``, as all batches have that
            come from worker processes.
    """

    def __init__(self, use_shared_mem: bool = False) -> None:
        self._context = _SHARED if use_shared_mem else None

    def __call__(self, data: Sequence[Any]) -> Any:
        """Return the batch, a list of batches for tuples and lists."""
        if isinstance(data[0], (tuple, list)):
            return [self(part) for part in zip(*data, strict=True)]
        return _stacked(data, self._context)


class Pad:
    """Fills arrays up to the longest one's length, in every axis, and stacks them.

    Args:
        val: what they are filled up with, 0 where None.
        dtype: of the batch, by default that of the first array.
        round_to: lengths become multiples of this number.
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
            NotImplementedError: examples of several elements; ``Group`` is for them.
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
    """Leaves arrays of different shapes beside each other, in a list.

    Args:
        expand: give each an axis of length 1 for the batch.
        batch_axis: where that axis is.
        use_shared_mem: see ``Stack``.
    """

    def __init__(
        self, expand: bool = True, batch_axis: int = 0, use_shared_mem: bool = False
    ) -> None:
        self._expand = expand
        self._batch_axis = batch_axis
        self._context = _SHARED if use_shared_mem else None

    def __call__(self, data: Sequence[Any]) -> list[NDArray]:
        """Return the arrays; what is no NDArray becomes one of float32."""
        arrays = [
            _moved(one, self._context) if isinstance(one, NDArray) else array(one, self._context)
            for one in data
        ]
        if not self._expand:
            return arrays
        return [expand_dims(one, axis=self._batch_axis) for one in arrays]


class Group:
    """Applies a function of its own to each element of the examples.

    Args:
        fn, args: one function for each element, or a list of them.

    Raises:
        UsageError: a list and further functions, or something that cannot be called.
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
            UsageError: an example has another number of elements than there are functions.
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
    """Leaves the examples as they are, in a list: texts, for instance."""

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
    """Return what ``default_mp_batchify_fn`` does, with arrays that are stacked as they are sent.

    For worker processes: nothing else can be done with ``Rows``.
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
