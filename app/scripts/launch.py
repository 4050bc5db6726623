"""Begin the Python that runs a script for MXNet.

It is a new interpreter in this process's place, so that arguments, signals, tracebacks and the
exit status are Python's own. ``startup/sitecustomize.py`` prepares it and its worker processes.
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
"""Options of Python under which it does not run what ``PYTHONPATH`` has for its start."""
_WITH_VALUE = "WX"
_BEFORE_SCRIPT = "cm"


class ArgumentError(ValueError):
    """Python could not run these arguments with the engine as ``mxnet``."""


def run_script(arguments: Sequence[str], *, old_numpy: bool, cpu: bool) -> NoReturn:
    """Become ``python ARGUMENTS``, where ``import mxnet`` is answered by the engine.

    Args:
        old_numpy: give NumPy back the names that it removed, such as ``np.float``.
        cpu: answer ``mx.gpu`` with the CPU.

    Raises:
        ArgumentError: among the options are some that cannot be taken.
    """
    _check(arguments)
    environment = _environment(os.environ, old_numpy=old_numpy, cpu=cpu)
    if old_numpy:
        print("modserve run: names that NumPy removed are back, such as np.float", file=sys.stderr)
    if cpu:
        print("modserve run: mx.gpu() is answered with the CPU", file=sys.stderr)
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
                    f"with -{letter} Python would not look for the engine; leave it out"
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
