"""Deprecated methods of Gluon's blocks."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from ..device import Context

__all__ = ["BlockNames"]


class BlockNames:
    """The older pair of methods to write and read a block's parameters."""

    def save_params(self: Any, filename: str) -> None:
        """Write parameters under names without the block's prefix; deprecated, as in MXNet."""
        warnings.warn(
            "save_params is deprecated. Please use save_parameters. Note that if you want load "
            "from SymbolBlock later, please use export instead.",
            stacklevel=2,
        )
        self.collect_params().save(filename, strip_prefix=self.prefix)

    def load_params(
        self: Any,
        filename: str,
        ctx: Context | Sequence[Context] | None = None,
        allow_missing: bool = False,
        ignore_extra: bool = False,
    ) -> None:
        """Call ``load_parameters``; deprecated, as in MXNet."""
        warnings.warn("load_params is deprecated. Please use load_parameters.", stacklevel=2)
        self.load_parameters(filename, ctx, allow_missing, ignore_extra)
