"""Starting the Python that runs an MXNet script.

A new interpreter replaces this process, so that arguments, signals, tracebacks and the exit status
are Python's own. ``startup/sitecustomize.py`` prepares it and its worker processes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

__all__ = ["ArgumentError", "run_script"]

_STARTUP = str(Path(__file__).with_name("startup"))
_OF_STARTUP = "EIS"
"""Options of Python with which it ignores the startup code on ``PYTHONPATH``."""
_WITH_VALUE = "WX"
_BEFORE_SCRIPT = "cm"
"""Options whose value is the program: what follows belongs to that."""


class ArgumentError(ValueError):
    """Python could not run these arguments with the engine as ``mxnet``."""


def run_script(arguments: Sequence[str], *, old_numpy: bool, cpu: bool) -> NoReturn:
    """Replace this process by ``python ARGUMENTS``, in which ``import mxnet`` loads the engine.

    Args:
        old_numpy: restore names that NumPy has removed, such as ``np.float``.
        cpu: let ``mx.gpu`` return the CPU.

    Raises:
        ArgumentError: an option cannot be used.
    """
    _check(arguments)
    environment = _environment(os.environ, old_numpy=old_numpy, cpu=cpu)
    if old_numpy:
        print("modserve run: restored names that NumPy removed, such as np.float", file=sys.stderr)
    if cpu:
        print("modserve run: mx.gpu() is the CPU", file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, [sys.executable, *arguments], environment)


def _check(arguments: Sequence[str]) -> None:
    rest = iter(arguments)
    for argument in rest:
        if not argument.startswith("-") or argument == "-":
            return
        if argument.startswith("--"):
            raise ArgumentError(
                f"{argument} is not an option of modserve run; "
                "options of the script follow its path"
            )
        for place, letter in enumerate(argument[1:], 1):
            if letter in _BEFORE_SCRIPT:
                return
            if letter in _WITH_VALUE:
                if place == len(argument) - 1:
                    next(rest, None)
                break
            if letter in _OF_STARTUP:
                raise ArgumentError(
                    f"with -{letter} Python would not find the engine; leave it out"
                )


def _environment(given: Mapping[str, str], *, old_numpy: bool, cpu: bool) -> dict[str, str]:
    environment = dict(given)
    folders = [_STARTUP, *filter(None, [given.get("PYTHONPATH")])]
    environment["PYTHONPATH"] = os.pathsep.join(folders)
    if old_numpy:
        environment["MODSERVE_OLD_NUMPY"] = "1"
    if cpu:
        environment["CORE_GPU_AS_CPU"] = "1"
    return environment
