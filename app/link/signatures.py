"""Numbers for the descriptions of predictions, which are nearly always the same few names, dtypes
and shapes.

Each side numbers those that it sends, and defines each number for the other side once; from then on
a prediction refers to it in four bytes.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from app.link.shm import Layout, Placement
from app.link.specs import TensorSpecs

__all__ = ["NumberedByPeer", "Numbers", "Signature", "Target"]

_MOST_KEPT = 4096
"""Numbers in use at a time: clients choose names and shapes, and must not fill the memory."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Signature:
    """Names, dtypes, shapes and offsets of tensors that are stored together.

    Attributes:
        placements: name, dtype, shape and offset of each, as sent on the wire.
        rows: the same with NumPy dtypes.
        nbytes: total size, up to the end of the last.
    """

    __slots__ = ("nbytes", "placements", "rows")

    def __init__(self, placements: Sequence[Placement]) -> None:
        self.placements = placements
        self.rows = [
            (name, np.dtype(dtype), tuple(shape), offset)
            for name, dtype, shape, offset in placements
        ]
        ends = (at + math.prod(shape) * dtype.itemsize for _, dtype, shape, at in self.rows)
        self.nbytes = max(ends, default=0)

    @classmethod
    def of(cls, specs: TensorSpecs) -> Signature:
        """Place tensors of these shapes and dtypes; raise TypeError for dtypes that are not
        numbers."""
        return cls(Layout.of(specs).placements)

    def arrays(self, memory: npt.NDArray[np.uint8], begin: int) -> dict[str, npt.NDArray[Any]]:
        """Return the tensors in a memory from an offset on, without a copy."""
        return {
            name: np.ndarray(shape, dtype, memory, begin + offset)
            for name, dtype, shape, offset in self.rows
        }


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Target:
    """What similar predictions have in common.

    Attributes:
        params: parameters of the call ``predict`` without those that vary between calls.
        inputs: signature of the inputs.
        rows: examples per prediction.
        is_shared: False if it is used by a single prediction, and is not worth a number.
    """

    params: Mapping[str, Any]
    inputs: Signature = field(repr=False)
    rows: int = 1
    is_shared: bool = True

    @property
    def module(self) -> str:
        """Name of the module."""
        return str(self.params["module"])


class Numbers(Generic[K]):
    """Numbers that one side assigns to keys. The least recently used key loses its own when there
    are too many."""

    def __init__(self, most: int = _MOST_KEPT) -> None:
        self._most = most
        self._numbers: OrderedDict[K, int] = OrderedDict()
        self._last = 0

    def find(self, key: K) -> int | None:
        """Return the number of a key, or None."""
        number = self._numbers.get(key)
        if number is not None:
            self._numbers.move_to_end(key)
        return number

    def add(self, key: K) -> tuple[int, int | None]:
        """Number a new key; return its number, and the number that was dropped for it or None."""
        self._last += 1
        self._numbers[key] = self._last
        is_over = len(self._numbers) > self._most
        return self._last, self._numbers.popitem(last=False)[1] if is_over else None


class NumberedByPeer(Generic[V]):
    """The meaning of the other side's numbers."""

    def __init__(self) -> None:
        self._values: dict[int, V] = {}

    def learn(self, number: int, value: V, dropped: int | None) -> None:
        """Record the meaning of a number, and forget another number."""
        self._values[number] = value
        if dropped is not None:
            del self._values[dropped]

    def __getitem__(self, number: int) -> V:
        return self._values[number]
