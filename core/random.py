"""Counter-based randomness, one generator per device, all seeded by ``seed``.

The generator is Philox (J. Salmon et al.: Parallel Random Numbers: As Easy as 1, 2, 3, 2011). Its
position can be read and set, so that a resumed run draws the same numbers; its key consists of the
seed and the device, so that devices draw from separate sequences.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .backends import backend_of
from .device import Context, cpu, current_context
from .errors import MXNetError, UsageError
from .types import Array, DType, Shape

__all__ = [
    "DeviceRandom",
    "device_random",
    "get_state",
    "host_random",
    "own_generators",
    "seed",
    "set_state",
]

_FLOAT32 = np.dtype("float32")

_CHANCES = 256
"""Values of a random byte."""
_BLOCK = 1 << 15
"""Number of random bytes drawn at a time, so that they stay in the cache."""


class DeviceRandom:
    """Random numbers of one device, filled into given arrays."""

    def __init__(self, context: Context, seed_value: int) -> None:
        self._context = context
        self._on_host = context.device_type != "gpu"
        self.seed(seed_value)

    def seed(self, seed_value: int) -> None:
        """Start the sequence for this seed and device."""
        key = np.array([seed_value % 2**64, hash_device(self._context)], dtype=np.uint64)
        self._generator = np.random.Generator(np.random.Philox(key=key))

    def uniform(self, out: Array, low: float = 0.0, high: float = 1.0) -> None:
        """Fill ``out`` with numbers from [low, high)."""
        self._fill(out, self._generator.random)
        if (low, high) != (0.0, 1.0):
            out *= high - low
            out += low

    def bernoulli(self, out: Array, probability: float, value: float = 1.0) -> None:
        """Fill ``out`` with ``value`` with this probability, else with 0, independently for each
        element.

        Eight random bits decide most elements, and a float64 the remaining ones. The probability is
        exact, and an element takes a quarter of the time of a number from ``uniform``.
        """
        # The reshape of any other array would be a copy.
        if self._on_host and out.flags.c_contiguous:
            self._write_chances(out.reshape(-1), probability, value)
            return
        host = np.empty(out.shape, out.dtype)
        self._write_chances(host.reshape(-1), probability, value)
        backend_of(self._context).copy_into(out, host)

    def normal(self, out: Array, loc: float = 0.0, scale: float = 1.0) -> None:
        """Fill ``out`` with normally distributed numbers."""
        self._fill(out, self._generator.standard_normal)
        if (loc, scale) != (0.0, 1.0):
            out *= scale
            out += loc

    def draw(self, method: str, *parameters: Any, shape: Shape, dtype: DType) -> Array:
        """Return draws of a named distribution of ``numpy.random.Generator`` as a new array.

        Parameters are numbers, or arrays of this device that broadcast to the shape.

        Raises:
            MXNetError: a parameter is out of the distribution's range.
        """
        backend = backend_of(self._context)
        given = [backend.to_host(p) if hasattr(p, "shape") else p for p in parameters]
        try:
            host = getattr(self._generator, method)(*given, size=shape)
        except ValueError as error:
            raise MXNetError(f"cannot draw from the {method} distribution: {error}") from None
        return backend.asarray(np.asarray(host).astype(dtype))

    def permutation(self, count: int) -> Array:
        """Return the numbers below ``count`` in random order, int64."""
        return backend_of(self._context).asarray(_permutation(count, self._seed_of_order()))

    def shuffle(self, data: Array, out: Array) -> None:
        """Write the rows of ``data`` in random order, that of ``permutation``."""
        backend, seed = backend_of(self._context), self._seed_of_order()
        if data.ndim == 1 and out.flags.c_contiguous:
            backend.copy_into(out, data)
            if backend.shuffle(out, seed):
                return
        order = backend.asarray(_permutation(len(data), seed))
        # With its default mode, NumPy's ``take`` buffers the output so as to check the range first.
        options: dict[str, Any] = {"mode": "clip"} if self._on_host else {}
        backend.xp.take(data, order, axis=0, out=out, **options)

    def _seed_of_order(self) -> int:
        """Draw the seed of an order, which SFC64 draws in half of the time that Philox takes."""
        return int(self._generator.integers(2**63))

    def get_state(self) -> dict[str, Any]:
        """Return the position of the sequence as plain data."""
        state = self._generator.bit_generator.state
        return {
            "counter": [int(word) for word in state["state"]["counter"]],
            "key": [int(word) for word in state["state"]["key"]],
            "buffer": [int(word) for word in state["buffer"]],
            "buffer_pos": int(state["buffer_pos"]),
            "has_uint32": int(state["has_uint32"]),
            "uinteger": int(state["uinteger"]),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue from a position returned by ``get_state``."""
        self._generator.bit_generator.state = {
            "bit_generator": "Philox",
            "state": {
                "counter": np.array(state["counter"], dtype=np.uint64),
                "key": np.array(state["key"], dtype=np.uint64),
            },
            "buffer": np.array(state["buffer"], dtype=np.uint64),
            "buffer_pos": state["buffer_pos"],
            "has_uint32": state["has_uint32"],
            "uinteger": state["uinteger"],
        }

    def _write_chances(self, out: Array, probability: float, value: float) -> None:
        # A byte below `sure` decides for, one above it against. One equal to it decides for with
        # probability `rest`, so that the sum is exact.
        sure, rest = divmod(probability * _CHANCES, 1)
        words = _BLOCK // 8
        for start in range(0, out.size, _BLOCK):
            part = out[start : start + _BLOCK]
            raw = self._generator.bit_generator.random_raw(min(words, -(-part.size // 8)))
            drawn = raw.view(np.uint8)[: part.size]
            happens = drawn < int(sure)
            if rest:
                undecided = np.flatnonzero(drawn == int(sure))
                happens[undecided] = self._generator.random(undecided.size) < rest
            np.copyto(part, happens)
            part *= value

    def _fill(self, out: Array, generate: Any) -> None:
        # Both devices draw from the host's Philox stream, so that a model trains to the same
        # numbers wherever it runs; the GPU pays a copy.
        direct = out.dtype in (np.float32, np.float64)
        if self._on_host and direct and out.flags.c_contiguous:
            generate(out=out, dtype=out.dtype)
        else:
            host = generate(out.shape, dtype=out.dtype if direct else _FLOAT32)
            backend_of(self._context).copy_into(out, host)


def _permutation(count: int, seed: int) -> Array:
    order = np.arange(count)
    if not backend_of(cpu()).shuffle(order, seed):
        return np.random.Generator(np.random.SFC64(seed)).permutation(count)
    return order


def hash_device(context: Context) -> int:
    """Return a number that makes this device's sequence differ from those of other devices."""
    return (context.device_typeid << 32) | context.device_id


class _Generators:
    """One generator per device, made on first use."""

    def __init__(self) -> None:
        self.seed = secrets.randbits(63)
        self.by_context: dict[Context, DeviceRandom] = {}


_lock = threading.Lock()
# If a process is forked while another thread holds the lock, its copy of it is never released.
os.register_at_fork(
    before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
)
_shared = _Generators()
_of_thread = threading.local()


def _present() -> _Generators:
    """Return the generators that this thread draws from."""
    found: _Generators = getattr(_of_thread, "generators", _shared)
    return found


@contextmanager
def own_generators() -> Iterator[None]:
    """Give this thread separate generators within the block.

    They start from unpredictable positions; see ``set_state``. Draws of this thread and of other
    threads do not affect each other.
    """
    before = _present()
    _of_thread.generators = _Generators()
    try:
        yield
    finally:
        _of_thread.generators = before


def device_random(context: Context | None = None) -> DeviceRandom:
    """Return the generator of a context, made on first use."""
    context, present = context or current_context(), _present()
    with _lock:
        if context not in present.by_context:
            present.by_context[context] = DeviceRandom(context, present.seed)
        return present.by_context[context]


def host_random() -> DeviceRandom:
    """Return the generator of ``cpu(0)``, which initializers and iterators draw from."""
    return device_random(Context("cpu", 0))


def seed(seed_state: int, ctx: Context | str = "all") -> None:
    """Seed the generator of one context, or of all existing and future ones
    (``mx.random.seed``)."""
    if isinstance(ctx, Context):
        device_random(ctx).seed(seed_state)
        return
    if ctx != "all":
        raise UsageError(f"ctx is {ctx!r}; expected a context or 'all'")
    present = _present()
    with _lock:
        present.seed = int(seed_state)
        for generator in present.by_context.values():
            generator.seed(present.seed)


def get_state() -> dict[str, Any]:
    """Return the positions of all generators as plain data (JSON-serialisable)."""
    present = _present()
    with _lock:
        devices = {str(ctx): one.get_state() for ctx, one in present.by_context.items()}
        return {"seed": present.seed, "devices": devices}


def set_state(state: dict[str, Any]) -> None:
    """Continue from the positions returned by ``get_state``; devices not listed start their
    sequences."""
    present = _present()
    with _lock:
        present.seed = int(state["seed"])
        for context, generator in present.by_context.items():
            if str(context) not in state["devices"]:
                generator.seed(present.seed)
    for name, position in state["devices"].items():
        kind, number = name.rstrip(")").split("(")
        device_random(Context(kind, int(number))).set_state(position)
