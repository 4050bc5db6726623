"""Timing of symbols."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..device import Context
from ..errors import UsageError
from ..symbol import Symbol
from .tolerances import default_context

__all__ = ["check_speed"]


def check_speed(
    sym: Symbol,
    location: Mapping[str, Any] | None = None,
    ctx: Context | None = None,
    N: int = 20,
    grad_req: Any = None,
    typ: str = "whole",
    **kwargs: Any,
) -> float:
    """Return the mean number of seconds per pass, after a warm-up pass.

    Args:
        sym: the symbol.
        location: NumPy arrays by argument; None draws normally distributed ones.
        ctx: the device; None is the default one.
        N: number of passes to time.
        grad_req: as for ``simple_bind``; None is ``"write"``.
        typ: ``"whole"`` for forward and backward in training, ``"forward"`` for inference.
        **kwargs: as for ``simple_bind``; the shapes, if there is no location.

    Raises:
        ValueError: ``typ`` is unknown. UsageError: the location is not a dict.
    """
    if typ not in ("whole", "forward"):
        raise ValueError(f'typ can only be "whole" or "forward", got {typ!r}.')
    if location is not None:
        if not isinstance(location, Mapping):
            raise UsageError(f"location is {type(location).__name__}; expected a dict")
        kwargs = {name: one.shape for name, one in location.items()}
    executor = sym.simple_bind(ctx or default_context(), grad_req or "write", **kwargs)
    for name, array in executor.arg_dict.items():
        if location is None:
            array[:] = np.random.normal(size=array.shape)
        elif name in location:
            array[:] = location[name].astype(array.dtype)

    def run() -> None:
        executor.forward(is_train=typ == "whole")
        if typ == "whole":
            executor.backward(executor.outputs)

    run()
    begin = time.perf_counter()
    for _ in range(N):
        run()
    for output in executor.outputs:
        output.wait_to_read()
    return (time.perf_counter() - begin) / N
