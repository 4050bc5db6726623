"""Consecutive primitives of oneDNN as one call: ctypes takes longer than a small layer."""

from __future__ import annotations

import ctypes
from bisect import bisect_right
from collections.abc import Callable, Sequence
from ctypes import c_int, c_long, c_void_p
from functools import partial
from itertools import accumulate, chain, groupby
from typing import Any

from ..backend import Chain
from ..onednn import library as onednn_library
from ..onednn.primitive import PrimitiveCall, primitives_of
from .library import library, loaded

__all__ = ["chained"]


class _Launch(ctypes.Structure):
    """A primitive and its arguments, as in ``chain.c``."""

    _fields_ = (
        ("primitive", c_void_p),
        ("arguments", c_void_p),
        ("count", c_int),
        ("is_light", c_int),
    )


class _Chain(ctypes.Structure):
    """Launches, as in ``chain.c``."""

    _fields_ = (
        ("execute", c_void_p),
        ("stream", c_void_p),
        ("launches", c_void_p),
        ("count", c_long),
        ("done", c_long),
    )


def chained(calls: Sequence[Callable[[], Any]]) -> list[Chain]:
    """Return the calls in order, with consecutive primitives joined into one chain."""
    if library() is None:
        return [Chain(call) for call in calls]
    chains: list[Chain] = []
    for are_primitives, group in groupby(calls, lambda call: bool(primitives_of(call))):
        if are_primitives:
            chains.append(_chain([primitives_of(call) for call in group]))
        else:
            chains += map(Chain, group)
    return chains


def _chain(steps: Sequence[Sequence[PrimitiveCall]]) -> Chain:
    """Return the chain of steps, each of which runs some primitives."""
    api = onednn_library()
    assert api is not None
    calls = list(chain.from_iterable(steps))
    launches = (_Launch * len(calls))(
        *(
            _Launch(
                call.primitive.handle, call.arguments.value, call.count, call.primitive.is_light
            )
            for call in calls
        )
    )
    run = _Chain(api.execute_address, api.stream, ctypes.addressof(launches), len(calls))
    # Keep alive what the addresses point to.
    run.kept = (calls, launches)
    ends = list(accumulate(map(len, steps)))
    return Chain(
        partial(loaded().chain_run, ctypes.byref(run)),
        len(steps),
        lambda: bisect_right(ends, run.done),
        needs_scope=False,
    )
