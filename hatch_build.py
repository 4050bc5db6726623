"""Compiles the engine's C kernels at installation, where there is a compiler."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDER = Path("core/kernels/native")
TARGET = FOLDER / "libnative.so"
# No -march: each function names the instructions that it needs. No -ffast-math: it would let the
# compiler assume that there is no NaN and no infinity.
OPTIONS = ("-std=c11", "-O3", "-fPIC", "-shared", "-fopenmp")


class CompileKernels(BuildHookInterface[Any]):
    """Put the compiled kernels into the wheel, or beside their source in an editable installation.

    The library asks for the processor's instructions at run time, so the wheel runs on every
    x86-64. Without a compiler, modserve runs with oneDNN alone.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and have the wheel tagged for this platform."""
        if sys.platform != "linux" or platform.machine() != "x86_64":
            return
        root = Path(self.root)
        compiler = shlex.split(os.environ.get("CC", "cc"))  # CC may be "ccache gcc"
        folder = root / FOLDER
        files = sorted((*folder.glob("*.c"), *folder.glob("*.h")))
        # The engine compares this with the files beside the library, and does not use a library
        # that was compiled from others (`core/kernels/native/library.py`).
        source = zlib.crc32(b"".join(path.read_bytes() for path in files))
        inputs = [str(path) for path in files if path.suffix == ".c"]
        made = (root / TARGET).with_suffix(".new")
        options = [*OPTIONS, f"-DSOURCE={source}u", "-o", str(made)]
        command = [*compiler, *options, *inputs, "-lm"]
        try:
            subprocess.run(command, check=True, capture_output=True, text=True)
        except (OSError, subprocess.CalledProcessError) as error:
            reason = getattr(error, "stderr", None) or error
            self.app.display_warning(
                "The engine's kernels in C were not compiled; oneDNN runs instead, which takes "
                "up to twice as long. To have them, install a compiler (Debian, Ubuntu: gcc "
                f"libc6-dev). What failed: {reason}"
            )
            return
        # By renaming: a running server has the old file mapped, and would crash if it changed.
        made.replace(root / TARGET)
        build_data["artifacts"].append(str(TARGET))
        build_data["pure_python"] = False
        # Any Python 3: the library is called through ctypes and knows nothing of Python.
        build_data["tag"] = "py3-none-linux_x86_64"
