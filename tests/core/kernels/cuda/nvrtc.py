"""NVIDIA's run-time compiler, which needs neither a device nor a driver."""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import importlib.util
from pathlib import Path

__all__ = ["Failure", "compile_for", "library"]


class Failure(AssertionError):
    """The compiler refused a text."""


@functools.cache
def library() -> ctypes.CDLL | None:
    """Return NVRTC from the wheel nvidia-cuda-nvrtc or the system; None if there is none."""
    found = importlib.util.find_spec("nvidia")
    folders = [] if found is None else list(found.submodule_search_locations or ())
    paths = [path for folder in folders for path in Path(folder).glob("*/lib/libnvrtc.so.*")]
    names = [*map(str, sorted(paths)), ctypes.util.find_library("nvrtc")]
    for name in names:
        if name is not None and "builtins" not in name and "alt" not in name:
            return ctypes.CDLL(name)
    return None


def compile_for(architecture: int, code: str, options: tuple[str, ...]) -> str:
    """Compile to machine code, and return what the compiler tells of registers and memory."""
    nvrtc, program = library(), ctypes.c_void_p()
    assert nvrtc is not None
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), code.encode(), b"kernel.cu", 0, None, None)
    given = (*options, f"--gpu-architecture=sm_{architecture}", "--ptxas-options=-v")
    array = (ctypes.c_char_p * len(given))(*(option.encode() for option in given))
    status = nvrtc.nvrtcCompileProgram(program, len(given), array)
    size = ctypes.c_size_t()
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    text = log.value.decode()
    if status:
        raise Failure(text)
    return text
