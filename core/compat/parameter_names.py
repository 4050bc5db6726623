"""A private method of MXNet's parameters that forks of its ``Trainer`` call."""

from __future__ import annotations

from typing import Any

from ..device import Context
from ..ndarray import NDArray

__all__ = ["ParameterNames"]


class ParameterNames:
    """Private methods of ``mxnet.gluon.Parameter``."""

    def _all(self, arrays: list[NDArray] | None) -> list[NDArray]:
        raise NotImplementedError(f"{type(self).__name__} must define _all")

    def _on(self, arrays: list[NDArray] | None, ctx: Context | None) -> NDArray:
        raise NotImplementedError(f"{type(self).__name__} must define _on")

    def _check_and_get(self, arr_list: list[NDArray] | None, ctx: Any) -> Any:
        """Return the array on a device, or all arrays if ``ctx`` is ``list``.

        Raises:
            RuntimeError: the parameter has no arrays yet, or none on this device.
        """
        return self._all(arr_list) if ctx is list else self._on(arr_list, ctx)
