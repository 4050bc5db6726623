"""Consecutive primitives and C functions as one call: ctypes takes longer than a small layer."""

from __future__ import annotations

import ctypes
from bisect import bisect_right
from collections.abc import Callable, Sequence
from ctypes import c_int, c_long, c_void_p
from functools import partial
from itertools import accumulate, chain, groupby
from typing import Any

from ..chain import Chain
from ..onednn import library as onednn_library
from ..onednn.primitive import PrimitiveCall, primitives_of
from .call import NativeCall
from .library import library, loaded

__all__ = ["chained"]


class _Launch(ctypes.Structure):
    """A primitive or a C function, with its arguments, as in ``chain.c``."""

    _fields_ = (
        ("compute", c_void_p),
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
    """Return the calls in order, with consecutive ones that C can make joined into one chain."""
    if library() is None:
        return [Chain(call) for call in calls]
    chains: list[Chain] = []
    for are_launches, group in groupby(calls, lambda call: bool(_launched(call))):
        if are_launches:
            chains.append(_chain([_launched(call) for call in group]))
        else:
            chains += map(Chain, group)
    return chains


def _launched(call: Callable[[], Any]) -> Sequence[PrimitiveCall | NativeCall]:
    """Return the calls a closure consists of if C can make them all; otherwise none."""
    return (call,) if isinstance(call, NativeCall) else primitives_of(call)


def _launch(call: PrimitiveCall | NativeCall) -> _Launch:
    if isinstance(call, NativeCall):
        return _Launch(compute=call.address, arguments=call.parameters)
    return _Launch(
        primitive=call.primitive.handle,
        arguments=call.arguments.value,
        count=call.count,
        is_light=call.primitive.is_light,
    )


def _chain(steps: Sequence[Sequence[PrimitiveCall | NativeCall]]) -> Chain:
    """Return the chain of steps, each of which makes some calls."""
    api = onednn_library()
    assert api is not None
    calls = list(chain.from_iterable(steps))
    launches = (_Launch * len(calls))(*map(_launch, calls))
    run = _Chain(api.execute_address, api.stream, ctypes.addressof(launches), len(calls))
    # Prepack alive what the addresses point to.
    run.kept = (calls, launches)
    ends = list(accumulate(map(len, steps)))
    return Chain(
        partial(loaded().chain_run, ctypes.byref(run)),
        len(steps),
        lambda: bisect_right(ends, run.done),  # a step is done when the last of its calls is
        needs_scope=False,
    )
