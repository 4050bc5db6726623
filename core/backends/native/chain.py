"""Consecutive primitives of oneDNN as one call: ctypes takes longer than a small layer."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from ctypes import c_int, c_long, c_void_p
from functools import partial
from itertools import groupby
from typing import Any, cast

from ..backend import Chain
from ..onednn import library as onednn_library
from ..onednn.primitive import PrimitiveCall
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
    for are_primitives, group in groupby(calls, lambda call: isinstance(call, PrimitiveCall)):
        if are_primitives:
            chains.append(_chain(cast("list[PrimitiveCall]", list(group))))
        else:
            chains += map(Chain, group)
    return chains


def _chain(calls: Sequence[PrimitiveCall]) -> Chain:
    api = onednn_library()
    assert api is not None
    launches = (_Launch * len(calls))(
        *(
            _Launch(
                call.primitive.handle, call.arguments.value, call.count, call.primitive.is_light
            )
            for call in calls
        )
    )
    chain = _Chain(api.execute_address, api.stream, ctypes.addressof(launches), len(calls))
    # Keep alive what the addresses point to.
    chain.kept = (calls, launches)
    return Chain(
        partial(loaded().chain_run, ctypes.byref(chain)),
        len(calls),
        lambda: int(chain.done),
        needs_scope=False,
    )
