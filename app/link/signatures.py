"""What predictions are made of: the same few names, dtypes and shapes, again and again.

Each side numbers those that it sends, and tells the other side once what a number stands for; from
then on a prediction names it in four bytes.
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

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Signature:
    """Names, dtypes and shapes of tensors, and where each lies from a common beginning.

    Attributes:
        placements: as they are sent: name, dtype, shape and offset of each.
        rows: the same, with dtypes of NumPy.
        nbytes: from the beginning to the end of the last.
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
        """Lay tensors of these shapes and dtypes out; raise TypeError for what are not numbers."""
        return cls(Layout.of(specs).placements)

    def arrays(self, memory: npt.NDArray[np.uint8], begin: int) -> dict[str, npt.NDArray[Any]]:
        """Return the tensors that lie in memory from a beginning on, not copied."""
        return {
            name: np.ndarray(shape, dtype, memory, begin + offset)
            for name, dtype, shape, offset in self.rows
        }


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Target:
    """What predictions of one kind are asked of.

    Attributes:
        params: of the call ``predict``, without those that differ from one to the next.
        inputs: what the inputs are.
        rows: examples of each prediction.
        is_shared: False if it is that of one prediction alone, and so gets no number.
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
    """Numbers of what one side sends; what was not sent for the longest time loses its own."""

    def __init__(self, most: int = _MOST_KEPT) -> None:
        self._most = most
        self._numbers: OrderedDict[K, int] = OrderedDict()
        self._last = 0

    def find(self, key: K) -> int | None:
        """Return the number of a key, None if it has none."""
        number = self._numbers.get(key)
        if number is not None:
            self._numbers.move_to_end(key)
        return number

    def add(self, key: K) -> tuple[int, int | None]:
        """Number a new key; return its number and the one that is free for it, or None."""
        self._last += 1
        self._numbers[key] = self._last
        is_over = len(self._numbers) > self._most
        return self._last, self._numbers.popitem(last=False)[1] if is_over else None


class NumberedByPeer(Generic[V]):
    """What the numbers of the other side stand for."""

    def __init__(self) -> None:
        self._values: dict[int, V] = {}

    def learn(self, number: int, value: V, dropped: int | None) -> None:
        """Note what a number stands for, and forget another."""
        self._values[number] = value
        if dropped is not None:
            del self._values[dropped]

    def __getitem__(self, number: int) -> V:
        return self._values[number]
