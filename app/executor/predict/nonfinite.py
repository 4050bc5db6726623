"""Refuses predictions that are NaN because a parameter is not finite.

Outputs may be NaN for other reasons, such as NaN in the inputs; those are answered as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from app.errors.tree import HostError
from app.executor.modules.finite_values import REMEDY, nonfinite_name
from app.link.protocols import Arrays
from core.kernels.kernel import Version
from core.ndarray import NDArray

__all__ = ["NonfiniteCheck"]


class NonfiniteCheck:
    """Checks the outputs that are computed from some parameters."""

    def __init__(self, *parameters: Mapping[str, NDArray]) -> None:
        self._parameters = parameters
        self._sound_at: int | None = None

    def check(self, outputs: Arrays, inputs: Iterable[Arrays]) -> None:
        """Raise HostError if outputs are NaN though the inputs are finite, and a parameter is not.

        Args:
            outputs: of a batch.
            inputs: of each request in it.
        """
        if not any(map(_has_nan, outputs.values())) or self._sound_at == Version.clock:
            return
        name = nonfinite_name(pair for part in self._parameters for pair in part.items())
        if name is None:
            self._sound_at = Version.clock  # until an array changes, this need not be found again
        elif any(all(map(_is_finite, given.values())) for given in inputs):
            raise HostError(
                "conflict",
                f"the prediction is NaN because parameter {name!r} holds NaN or infinity; {REMEDY}",
            )


def _has_nan(output: npt.NDArray[Any]) -> bool:
    if output.dtype.kind in "biu" or output.size == 0:
        return False
    if output.dtype.kind != "f":  # bfloat16, whose minimum warns of NaN
        return bool(np.isnan(output).any())
    least = output.min()  # one pass, and NaN if any element is
    return bool(least != least)


def _is_finite(tensor: npt.NDArray[Any]) -> bool:
    return tensor.dtype.kind in "biu" or bool(np.isfinite(tensor).all())
