"""Parameters that never change (``mx.gluon.Constant``)."""

from __future__ import annotations

import warnings
from typing import Any

from ..errors import UsageError
from ..ndarray import NDArray, array
from .base_parameter import Parameter

__all__ = ["Constant"]


class Constant(Parameter):
    """A parameter with a fixed value and no gradient.

    Args:
        name: unique among the parameters of a trainer.
        value: an NDArray, a NumPy array or nested lists.
    """

    def __init__(self, name: str, value: Any) -> None:
        self.value = value if isinstance(value, NDArray) else array(value)
        super().__init__(name, "null", self.value.shape, self.value.dtype)

    @property
    def grad_req(self) -> str:
        """Always ``"null"``."""
        return "null"

    @grad_req.setter
    def grad_req(self, req: str) -> None:
        if req != "null":
            warnings.warn(
                f'Constant parameter "{self.name}" does not support grad_req other than "null", '
                f'and new value "{req}" is ignored.',
                stacklevel=2,
            )

    def _finish_deferred_init(self) -> None:
        if not self._deferred_init:
            return
        contexts = self._deferred_init.contexts
        self._deferred_init = ()
        self._init_impl(self.value, contexts)

    def check_value(self, value: Any) -> None:
        """Raise UsageError unless a value equals this one."""
        other = value if isinstance(value, NDArray) else array(value)
        same = other.shape == self.value.shape and (other.asnumpy() == self.value.asnumpy()).all()
        if not same:
            raise UsageError(
                f"Constant '{self.name}' already exists but its value doesn't match the new value"
            )
