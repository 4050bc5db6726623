"""MXNet's ``.params`` files, written independently of the code under test."""

from __future__ import annotations

import struct
from collections.abc import Mapping

import numpy as np

__all__ = ["write_params"]


def write_params(arguments: Mapping[str, np.ndarray], auxiliary: Mapping[str, np.ndarray]) -> bytes:
    """Return the file MXNet 1.9.1's ``Module.save_params`` writes on a CPU for float32."""
    named = {f"arg:{name}": array for name, array in arguments.items()}
    named |= {f"aux:{name}": array for name, array in auxiliary.items()}
    parts = [struct.pack("<QQQ", 0x112, 0, len(named))]
    parts += [_array(array) for array in named.values()]
    parts.append(struct.pack("<Q", len(named)))
    parts += [struct.pack("<Q", len(name)) + name.encode() for name in named]
    return b"".join(parts)


def _array(array: np.ndarray) -> bytes:
    assert array.dtype == np.float32
    dense, cpu, float32 = 0, (1, 0), 0
    shape = struct.pack(f"<i{array.ndim}q", array.ndim, *array.shape)
    head = struct.pack("<Ii", 0xF993FAC9, dense) + shape + struct.pack("<iii", *cpu, float32)
    return head + array.tobytes()
