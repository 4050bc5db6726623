"""What still works after a kernel has read an illegal address, and what says so."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import cupy
import numpy as np

_CODE = """
extern "C" __global__ void wild(float* x) { x[threadIdx.x + (1ll << 40)] = 1.0f; }
extern "C" __global__ void tame(float* x) { x[threadIdx.x] = 1.0f; }
"""


def attempt(what: str, call: Callable[[], Any]) -> None:
    """Print the error of a call, or that there is none."""
    try:
        found = str(call())[:100]
    except Exception as error:
        names = [one.__name__ for one in type(error).__mro__[:-2]]
        found = f"{'<'.join(names)}: {error}"[:300]
    print(json.dumps({"what": what, "found": found}), flush=True)


def main() -> None:
    """Ruin this process's context and ask around."""
    module = cupy.RawModule(code=_CODE)
    wild, tame = module.get_function("wild"), module.get_function("tame")
    x = cupy.zeros(32, "f")
    stream = cupy.cuda.get_current_stream()
    attempt("too much memory", lambda: cupy.empty(1 << 41, "u1"))
    attempt("after too much memory", lambda: x.get().sum())
    attempt("too large a block", lambda: tame((1,), (4096,), (x,)))
    attempt("after too large a block", lambda: x.get().sum())
    attempt("a wild launch", lambda: wild((1,), (32,), (x,)))
    attempt("wait after it", stream.synchronize)
    attempt("query of the stream", lambda: stream.done)
    attempt("launch after it", lambda: tame((1,), (32,), (x,)))
    attempt("get after it", lambda: x.get().sum())
    attempt("set after it", lambda: x.set(np.zeros(32, "f")))
    attempt("allocation from the pool", lambda: cupy.empty(32, "f").data.ptr > 0)
    attempt("new allocation", lambda: cupy.empty(1 << 24, "f").data.ptr > 0)
    attempt("properties", lambda: cupy.cuda.runtime.getDeviceProperties(0)["name"])
    attempt("free memory", lambda: cupy.cuda.runtime.memGetInfo())
    attempt("count of devices", cupy.cuda.runtime.getDeviceCount)
    attempt("last error", cupy.cuda.runtime.deviceSynchronize)


if __name__ == "__main__":
    main()
