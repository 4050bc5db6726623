"""Requests that carry or answer tensors. NumPy is loaded when the first of them is made."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx

if TYPE_CHECKING:
    import numpy.typing as npt

    from app.client.tensors import Arrays

__all__ = ["NPY", "NPZ", "Asked", "Tensors", "array", "arrays", "rankings"]

NPY, NPZ = "application/x-npy", "application/x-npz"


@dataclass(frozen=True, slots=True)
class Tensors:
    """Tensors by name, and what else the body says."""

    tensors: Mapping[str, npt.ArrayLike]
    fields: Mapping[str, Any] | None = None

    def opened(self, files: ExitStack) -> dict[str, Any]:
        """Return them as arguments of httpx."""
        from app.client.tensors import tensor_body

        return tensor_body(self.tensors, self.fields).opened(files)


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked to be predicted: see ``prediction_body``."""

    inputs: Mapping[str, Any]
    lone: Any = None

    def opened(self, files: ExitStack) -> dict[str, Any]:
        """Return it as arguments of httpx."""
        from app.client.tensors import prediction_body

        return prediction_body(self.lone, self.inputs).opened(files)


def arrays(response: httpx.Response) -> Arrays:
    """Read the tensors of an answer by name."""
    from app.client.tensors import decoded

    return decoded(response)


def array(response: httpx.Response) -> npt.NDArray[Any]:
    """Read the only tensor of an answer."""
    return arrays(response)["data"]


def rankings(response: httpx.Response) -> dict[str, list[Any]]:
    """Read the best classes by output."""
    found: dict[str, list[Any]] = response.json()["outputs"]
    return found
