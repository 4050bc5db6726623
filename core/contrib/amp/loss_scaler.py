"""The factor of losses, which follows the gradients."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

from ...gluon import Parameter
from ...ndarray import NDArray, multi_all_finite

__all__ = ["LossScaler"]

_ARRAYS_AT_ONCE = 200  # in one call of the operator, as in MXNet


class LossScaler:
    """Halves the factor of the loss when gradients overflow, and doubles it after 2,000 steps."""

    def __init__(self) -> None:
        self._loss_scale = 2.0**16
        self._next_loss_scale = self._loss_scale
        self._max_loss_scale = 2.0**24
        self._scale_seq_len = 2000
        self._unskipped = 0

    @property
    def loss_scale(self) -> float:
        """The present factor."""
        return self._loss_scale

    def has_overflow(self, params: Sequence[Parameter]) -> bool:
        """Return whether a gradient is not finite; the factor of the next step follows from it."""
        grads = [param.list_grad()[0] for param in params if param.grad_req != "null"]
        overflows = any(
            not multi_all_finite(*part, num_arrays=len(part)).asscalar()
            for part in _parts(grads, _ARRAYS_AT_ONCE)
        )
        # As in MXNet a new factor takes effect one step late: the next loss is scaled by the one
        # that the step before this chose.
        self._loss_scale = self._next_loss_scale
        if overflows:
            self._next_loss_scale = self._loss_scale / 2
            self._unskipped = 0
            logging.info("AMP: decreasing loss scale to %f", self._next_loss_scale)
            return True
        self._unskipped += 1
        if self._unskipped == self._scale_seq_len:
            self._unskipped = 0
            self._next_loss_scale = min(self._max_loss_scale, self._loss_scale * 2)
            logging.info("AMP: increasing loss scale to %f", self._next_loss_scale)
        return False


def _parts(arrays: list[NDArray], length: int) -> Iterator[list[NDArray]]:
    for start_at in range(0, len(arrays), length):
        yield arrays[start_at : start_at + length]
