"""Requests and responses with tensors. NumPy is imported only when one is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx

from app.client.bodies import HEAVY_BYTES

if TYPE_CHECKING:
    import numpy.typing as npt

    from app.client.tensors import Arrays

__all__ = ["NPY", "NPZ", "PredictionInputs", "Tensors", "array", "arrays", "rankings"]

_NUMBER_BYTES = 8

NPY, NPZ = "application/x-npy", "application/x-npz"


@dataclass(frozen=True, slots=True)
class Tensors:
    """Tensors by name, and the body's other fields."""

    tensors: Mapping[str, npt.ArrayLike]
    fields: Mapping[str, Any] | None = None

    @property
    def is_heavy(self) -> bool:
        """Whether opening the body takes a while."""
        return _size(self.tensors) > HEAVY_BYTES

    def opened(self, files: ExitStack) -> dict[str, Any]:
        """Return the body as arguments of httpx."""
        from app.client.tensors import tensor_body

        return tensor_body(self.tensors, self.fields).opened(files)


@dataclass(frozen=True, slots=True)
class PredictionInputs:
    """The inputs of a prediction; see ``prediction_body``."""

    inputs: Mapping[str, Any]
    lone: Any = None

    @property
    def is_heavy(self) -> bool:
        """Whether opening the body takes a while."""
        return _size(self.lone) + _size(self.inputs) > HEAVY_BYTES

    def opened(self, files: ExitStack) -> dict[str, Any]:
        """Return the body as arguments of httpx."""
        from app.client.tensors import prediction_body

        return prediction_body(self.lone, self.inputs).opened(files)


def _size(value: Any) -> int:
    """Estimate the size of a value in bytes, assuming that the elements of a list are alike."""
    if isinstance(value, Mapping):
        return sum(_size(one) for one in value.values())
    if isinstance(value, bytes | str):
        return len(value)
    if isinstance(value, Sequence):
        return len(value) * _size(value[0]) if len(value) else 0
    return int(getattr(value, "nbytes", _NUMBER_BYTES))


def arrays(response: httpx.Response) -> Arrays:
    """Read the tensors of a response by name."""
    from app.client.tensors import decoded

    return decoded(response)


def array(response: httpx.Response) -> npt.NDArray[Any]:
    """Read the only tensor of a response."""
    return arrays(response)["data"]


def rankings(response: httpx.Response) -> dict[str, list[Any]]:
    """Read the best classes of a response, by output."""
    found: dict[str, list[Any]] = response.json()["outputs"]
    return found
