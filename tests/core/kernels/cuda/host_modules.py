"""CUDA C++ files compiled by g++, with the interface of ``cupy.RawModule``.

Kernels run thread by thread under ``host/runner.cpp``, on arrays of NumPy. Arguments are packed as
CuPy packs them: arrays by address, NumPy's scalars and structured arrays of one element by value.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import itertools
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from core.kernels.cuda import launch

__all__ = ["HostModule", "is_available", "on_host"]

_HOST = Path(__file__).parent / "host"
_ENTRY = re.compile(r'extern "C" __global__ void (\w+)\(')
_LAUNCH = """
extern "C" long host_launch_{0}(void **arguments, const unsigned *grid, unsigned threads,
                                unsigned seed) {{
  return host_launch({0}, arguments, grid, threads, seed);
}}
extern "C" int host_sizes_{0}(int *sizes) {{ return host_sizes({0}, sizes); }}
"""
_OPTIONS = ("-std=c++17", "-O1", "-fPIC", "-shared", "-w", "-fno-strict-aliasing")
_seeds = itertools.count(1)


def is_available() -> bool:
    """Return whether kernels can be compiled and run here."""
    return shutil.which("g++") is not None and platform.machine() == "x86_64"


@contextlib.contextmanager
def on_host() -> Iterator[None]:
    """Let kernels that are bound within the block run on the host."""
    with (
        mock.patch.object(launch, "raw_module", HostModule),
        mock.patch.object(launch, "current_device", return_value=-1),
    ):
        yield


@functools.cache
def _folder() -> Path:
    """Return the folder of compiled files, which other tests of the machine share."""
    folder = Path(tempfile.gettempdir()) / "modserve-cuda-on-host"
    folder.mkdir(exist_ok=True)
    return folder


def _compiled(text: str, name: str, *options: str) -> Path:
    """Return a shared library compiled from a text."""
    headers = "".join(path.read_text() for path in sorted(_HOST.iterdir()))
    digest = hashlib.sha256("\0".join((text, headers, *options)).encode()).hexdigest()[:20]
    made = _folder() / f"{name}-{digest}.so"
    if not made.exists():
        with tempfile.TemporaryDirectory(dir=_folder()) as temporary:
            source, new = Path(temporary) / f"{name}.cpp", Path(temporary) / "new.so"
            source.write_text(text)
            command = ["g++", *_OPTIONS, *options, "-o", str(new), str(source)]
            done = subprocess.run(command, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            new.replace(made)  # whole, whoever else makes it
    return made


@functools.cache
def _runner() -> ctypes.CDLL:
    path = _compiled((_HOST / "runner.cpp").read_text(), "runner")
    return ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)


class HostModule:
    """Like ``cupy.RawModule``."""

    def __init__(self, code: str, options: tuple[str, ...]) -> None:
        _runner()
        names = _ENTRY.findall(code)
        text = "\n".join((code, *map(_LAUNCH.format, names)))
        library = _compiled(text, "kernels", "-include", str(_HOST / "cuda_host.h"))
        self._library = ctypes.CDLL(str(library))

    def get_function(self, name: str) -> _HostKernel:
        """Return a kernel."""
        return _HostKernel(self._library, name)


class _HostKernel:
    """Like ``cupy.RawKernel``, and like the ``Function`` that its ``kernel`` is."""

    def __init__(self, library: ctypes.CDLL, name: str) -> None:
        self._name, self._launch = name, getattr(library, f"host_launch_{name}")
        self._launch.argtypes = [ctypes.c_void_p] * 2 + [ctypes.c_uint] * 2
        sizes = (ctypes.c_int * 64)()
        count = getattr(library, f"host_sizes_{name}")(sizes)
        self._sizes = sizes[:count]
        self.kernel = self

    def __call__(self, grid: tuple[int, ...], block: tuple[int, ...], args: Sequence[Any]) -> None:
        assert isinstance(grid, tuple)
        assert isinstance(block, tuple)
        assert len(block) == 1
        assert all(isinstance(n, int) and n > 0 for n in grid), (self._name, grid)
        kept = [_packed(one) for one in args]
        sizes = [ctypes.sizeof(one) for one in kept]
        assert sizes == self._sizes, (self._name, sizes, self._sizes)
        pointers = (ctypes.c_void_p * len(kept))(*(ctypes.addressof(one) for one in kept))
        dimensions = (ctypes.c_uint * 3)(*(*grid, 1, 1)[:3])
        self._launch(pointers, dimensions, block[0], next(_seeds))


def _packed(value: Any) -> Any:
    """Return the memory that the kernel reads an argument from."""
    if value is None:
        return ctypes.c_void_p(None)
    if isinstance(value, np.ndarray) and value.dtype.fields is None:
        # Stands for an array of CuPy, of which the kernel gets the address alone.
        assert value.flags.c_contiguous
        return ctypes.c_void_p(value.ctypes.data)
    assert isinstance(value, np.generic | np.ndarray), f"CuPy would guess the type of {value!r}"
    assert value.size == 1
    data = value.tobytes()
    return (ctypes.c_char * len(data)).from_buffer_copy(data)
