"""Rewriting of symbols for a backend (``Symbol.optimize_for``).

MXNet's backends replace parts of a graph by fused operators. Here operators are fused when a symbol
is bound, for its shapes and device, and the symbol itself does not change.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Mapping
from typing import Any, Self

from ..device import Context
from ..errors import MXNetError, UsageError
from ..types import to_dtype

__all__ = ["BackendSymbols"]

_BACKENDS = ("MKLDNN", "MKLDNN_QUANTIZE")
"""The backends of MXNet's wheel for CPUs."""

_STORAGE_TYPES = ("default", "row_sparse", "csr")


class BackendSymbols:
    """The methods of ``mxnet.sym.Symbol`` that rewrite it for a backend."""

    __slots__ = ()

    def optimize_for(
        self,
        backend: str,
        args: dict[str, Any] | None = None,
        aux: dict[str, Any] | None = None,
        ctx: Context | None = None,
        shape_dict: Mapping[str, Any] | None = None,
        type_dict: Mapping[str, Any] | None = None,
        stype_dict: Mapping[str, str] | None = None,
        skip_infer: bool = False,
        **kwargs: Any,
    ) -> Self:
        """Return the symbol for a backend: the same graph, because operators are fused by binding.

        An unknown backend is logged as an error, as in MXNet.

        Args:
            backend: ``"MKLDNN"`` or ``"MKLDNN_QUANTIZE"``.
            args, aux: arrays by name; with ``shape_dict`` (tuples), ``type_dict`` and
                ``stype_dict`` they tell MXNet's backends how the graph will be bound.
            ctx: the device it will be bound on.
            skip_infer, kwargs: for users' own MXNet backends; no effect.

        Raises:
            UsageError: an argument is not a name, dict or context. ValueError: a shape or storage
            type is invalid. TypeError: a dtype is invalid.
        """
        if not isinstance(backend, str):
            raise UsageError(f"backend is {type(backend).__name__}; expected a name")
        for name, given in (("args", args), ("aux", aux)):
            if given is not None and not isinstance(given, dict):
                raise UsageError(f"{name} is {type(given).__name__}; expected a dict of NDArrays")
        if ctx is not None and not isinstance(ctx, Context):
            raise UsageError(f"ctx is {type(ctx).__name__}; expected a Context")
        for shape in (shape_dict or {}).values():
            if not isinstance(shape, (tuple, list)):
                raise ValueError(f"{shape} has to be a tuple or list.")
        for dtype in (type_dict or {}).values():
            to_dtype(dtype)
        for storage in (stype_dict or {}).values():
            if storage not in _STORAGE_TYPES:
                raise ValueError(f"{storage} is not a MXNet storage type.")
        if backend not in _BACKENDS:
            logging.error("Error optimizing for backend '%s' cannot be found", backend)
        return copy.copy(self)

    def get_backend_symbol(self, backend: str) -> Self:
        """Return the symbol for a backend; see ``optimize_for``.

        Raises:
            MXNetError: there is no such backend.
        """
        if backend not in _BACKENDS:
            raise MXNetError(
                f"SubgraphProperty {backend} is not found in SubgraphBackendRegistry; it has "
                f"{', '.join(_BACKENDS)}"
            )
        return copy.copy(self)
