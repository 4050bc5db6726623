"""Compiled functions of the CUDA C++ files in ``sources``.

A file is compiled at its first use, by NVRTC by way of CuPy, which keeps the result on the disk. It
is compiled anew for each set of macros; these stand for types and functions, because CuPy's cache
does not keep C++ templates that are instantiated by name.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from ...types import Array, DType

__all__ = [
    "OPTIONS",
    "SOURCES",
    "Call",
    "address",
    "argument",
    "call",
    "code_of",
    "divisor",
    "function",
    "grid_of",
    "in_turn",
]

Call: TypeAlias = Callable[[], None]

SOURCES = Path(__file__).parent / "sources"
_THREADS = 256
_MAX_BLOCKS = 4096
"""Blocks of a grid whose threads take further elements, a grid's width apart. Independent of the
device, so that sums are taken in the same order everywhere."""

OPTIONS = ("--std=c++17",)
_DIVISOR = np.dtype([("by", "<i8"), ("magic", "<u4"), ("shift", "<u4")])


def code_of(source: str, *macros: str) -> str:
    """Return the text of a file after definitions of macros, as in ``function``.

    They are no options of the compiler, whose own headers would see these.
    """
    defined = (f"#define {macro.replace('=', ' ', 1)}\n" for macro in macros)
    return "".join((*defined, _source_of(source)))


@functools.cache
def _source_of(name: str) -> str:
    """Return the text of a file with the text of its headers in it."""
    text = (SOURCES / name).read_text(encoding="utf-8").replace("#pragma once\n", "")
    for header in SOURCES.glob("*.cuh"):
        included = f'#include "{header.name}"'
        if included in text:
            text = text.replace(included, _source_of(header.name))
    return text


def raw_module(code: str, options: tuple[str, ...]) -> Any:
    """Return the compiled module on the current device."""
    import cupy  # only here, because CuPy is an optional extra

    return cupy.RawModule(code=code, options=options)


def current_device() -> int:
    """Return the number of the current device."""
    import cupy

    return int(cupy.cuda.Device().id)


_functions: dict[tuple[str, str, tuple[str, ...], int], Any] = {}


def function(source: str, name: str, *macros: str) -> Any:
    """Return a function of a file, called with (grid, block, arguments).

    Args:
        source: name of the file.
        name: name of the function.
        macros: definitions such as ``"T=float"``.
    """
    key = (source, name, macros, current_device())
    found = _functions.get(key)
    if found is None:
        found = raw_module(code_of(source, *macros), OPTIONS).get_function(name).kernel
        _functions[key] = found
    return found


def call(
    function: Any, grid: int | tuple[int, ...], *arguments: Any, threads: int = _THREADS
) -> Call:
    """Return a call of a function on arrays and numbers, which allocates nothing.

    Args:
        function: from ``function``.
        grid: number of blocks.
        arguments: integers are passed as 64 bits, floating point numbers as 32; None is a null
            pointer.
        threads: number of threads in a block.
    """
    blocks = (grid,) if isinstance(grid, int) else grid
    return partial(function, blocks, (threads,), tuple(map(argument, arguments)))


def argument(value: Any) -> Any:
    """Return an argument as CuPy passes it on unchanged."""
    if isinstance(value, int):
        return np.int64(value)
    return np.float32(value) if isinstance(value, float) else value


def address(array: Array) -> int:
    """Return the address of an array's first element."""
    # Of an array of CuPy, or of one of NumPy in tests.
    pointer = getattr(array.data, "ptr", None)
    return int(array.ctypes.data if pointer is None else pointer)


def grid_of(size: int, dtype: DType | None = None) -> int:
    """Return the number of blocks for so many elements, 16 bytes a thread if a dtype is given."""
    each = _THREADS * (1 if dtype is None else 16 // dtype.itemsize)
    return min(-(-size // each), _MAX_BLOCKS)


def divisor(number: int) -> Array:
    """Return ``Divisor`` of ``common.cuh``, passed by value."""
    shift = (number - 1).bit_length()
    magic = ((1 << 32) * ((1 << shift) - number)) // number + 1
    return np.array((number, magic & 0xFFFFFFFF, shift), _DIVISOR)


def in_turn(calls: Sequence[Call]) -> Call:
    """Return the calls as one."""
    if len(calls) == 1:
        return calls[0]
    kept = tuple(calls)

    def run() -> None:
        for one in kept:
            one()

    return run
