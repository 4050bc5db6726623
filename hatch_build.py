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

FOLDER = Path("core/backends/native")
TARGET = FOLDER / "libnative.so"
OPTIONS = ("-std=c11", "-O3", "-fPIC", "-shared", "-fopenmp")


class CompileKernels(BuildHookInterface[Any]):
    """Put the compiled kernels into the wheel, or beside their source where it is editable.

    The processor is asked at run time, so the wheel holds for every x86-64. Without a compiler
    modserve works as well, with oneDNN alone.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and have the wheel tagged for this platform."""
        if sys.platform != "linux" or platform.machine() != "x86_64":
            return
        root = Path(self.root)
        compiler = shlex.split(os.environ.get("CC", "cc"))
        folder = root / FOLDER
        files = sorted((*folder.glob("*.c"), *folder.glob("*.h")))
        # By this the engine knows whether the library is of the source that it finds beside it.
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
        # Whole at once: a server may be running on the one before.
        made.replace(root / TARGET)
        build_data["artifacts"].append(str(TARGET))
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-linux_x86_64"
