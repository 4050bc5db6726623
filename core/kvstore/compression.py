"""2-bit gradient compression with error feedback, as MXNet's ``gradient_compression.cc``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..backends import backend_of
from ..errors import UsageError, did_you_mean
from ..ndarray import NDArray

__all__ = ["TwoBitCompression", "make_compression"]

_OPTIONS = ("type", "threshold")


class TwoBitCompression:
    """Sends each element of a gradient as one of three values: -threshold, 0 or threshold.

    The rounding error is added to the next gradient of the same key and device
    (Seide et al., Interspeech 2014).

    Args:
        threshold: the value sent, above 0.
    """

    def __init__(self, threshold: float) -> None:
        self.threshold = threshold
        self._residuals: dict[tuple[Any, int], Any] = {}

    def compress(self, key: Any, arrays: Sequence[NDArray]) -> list[NDArray]:
        """Return the gradients as the receiver decodes them."""
        return [self._pass_on((key, place), array) for place, array in enumerate(arrays)]

    def _pass_on(self, where: tuple[Any, int], array: NDArray) -> NDArray:
        if array.stype != "default" or array.dtype != np.float32:
            raise UsageError(
                f"key {where[0]!r}: only dense float32 gradients are compressed, got "
                f"{array.stype} {np.dtype(array.dtype)}"
            )
        backend = backend_of(array.context)
        with backend.scope():
            xp = backend.xp
            residual = self._residuals.get(where)
            if residual is None:
                residual = self._residuals[where] = xp.zeros_like(array.dense())
            residual += array.dense()
            sent = xp.zeros_like(residual)
            sent[residual >= self.threshold] = self.threshold
            sent[residual <= -self.threshold] = -self.threshold
            residual -= sent
        return NDArray(sent, array.context)


def make_compression(params: Mapping[str, Any]) -> TwoBitCompression:
    """Return the compression that ``{'type': '2bit', 'threshold': 0.5}`` describes.

    Raises:
        UsageError: an unknown option or type, or a threshold that is not above 0.
    """
    for name in params:
        if name not in _OPTIONS:
            raise UsageError(
                f"compression_params: unknown option {name!r}{did_you_mean(name, _OPTIONS)}; "
                f"use {' and '.join(_OPTIONS)}"
            )
    if params.get("type") != "2bit":
        raise UsageError(f"compression_params: type is {params.get('type')!r}; expected '2bit'")
    threshold = float(params.get("threshold", 0.5))
    if not threshold > 0:
        raise UsageError(f"compression_params: threshold is {threshold}; expected one above 0")
    return TwoBitCompression(threshold)
