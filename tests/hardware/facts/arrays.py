"""Which calls of CuPy can be captured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["FUNCTIONS", "LIBRARY", "Probe", "cases"]

LIBRARY = None
FUNCTIONS = ()
_CALLS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "add into": lambda xp, x, out: xp.add(x, 1, out=out),
    "add": lambda xp, x, out: xp.copyto(out, x + 1),
    "sum": lambda xp, x, out: xp.sum(x, axis=0, keepdims=True, out=out[:1]),
    "matmul": lambda xp, x, out: xp.matmul(x, x, out=out),
    "einsum": lambda xp, x, out: xp.copyto(out, xp.einsum("ij,jk->ik", x, x)),
    "where": lambda xp, x, out: xp.copyto(out, xp.where(x > 0, x, 0)),
    "take": lambda xp, x, out: xp.copyto(out, x[xp.arange(len(x))[::-1]]),
    "sort": lambda xp, x, out: xp.copyto(out, xp.sort(x, axis=1)),
    "argsort": lambda xp, x, out: xp.copyto(out, xp.argsort(x, axis=1)),
    "cumsum": lambda xp, x, out: xp.copyto(out, xp.cumsum(x, axis=1)),
    "max": lambda xp, x, out: xp.copyto(out, xp.max(x, axis=1, keepdims=True)),
    "nonzero": lambda xp, x, out: xp.copyto(out, xp.nonzero(x > 0)[0][0]),
    "scatter_add": lambda xp, x, out: xp.add.at(out, xp.arange(len(x)), x),
    "random": lambda xp, x, out: xp.copyto(out, xp.random.standard_normal(x.shape)),
    "to the host": lambda xp, x, out: out.fill(float(x[0, 0])),
}


def cases() -> list[dict[str, Any]]:
    """Return the calls to try."""
    return [{"call": name} for name in _CALLS]


class Probe:
    """Makes each call directly and in a capture."""

    def __init__(self, device: Any) -> None:
        import cupy

        self._xp = cupy
        self._stream = cupy.cuda.Stream(non_blocking=True)

    def run(self, case: dict[str, Any]) -> dict[str, Any]:
        """Try one call."""
        xp, call = self._xp, _CALLS[case["call"]]
        with self._stream:
            x = xp.asarray(xp.random.RandomState(0).standard_normal((32, 32)), dtype=xp.float32)
            out = xp.zeros_like(x)
            call(xp, x, out)
            self._stream.synchronize()
            expected = out.get()
            found: dict[str, Any] = {"runs": True, "captures": False}
            out.fill(0)
            self._stream.synchronize()
            self._stream.begin_capture(xp.cuda.runtime.streamCaptureModeThreadLocal)
            try:
                call(xp, x, out)
            except Exception as error:
                found["error"] = f"{type(error).__name__}: {error}"
            try:
                graph = self._stream.end_capture()
            except Exception as error:
                found["error"] = f"{found.get('error', '')} {type(error).__name__}: {error}".strip()
            if "error" in found:
                return found
            graph.launch(self._stream)
            self._stream.synchronize()
            replayed = out.get()
        is_random = case["call"] == "random"
        return {**found, "captures": True} | {
            "replays": bool((replayed == expected).all()) or is_random
        }
