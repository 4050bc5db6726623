"""Debian programs that tests run beside the server, where installed."""

from __future__ import annotations

import os
import shutil

import pytest

__all__ = ["program"]


def program(name: str, package: str) -> str:
    """Return the path of a program; skip the test if it is missing, but fail in CI.

    Args:
        name: the program.
        package: the Debian package that has it; CI installs it and sets ``PROGRAMS_REQUIRED``.
    """
    found = shutil.which(name)
    if found is not None:
        return found
    assert "PROGRAMS_REQUIRED" not in os.environ, f"{name} is not installed; see .ci/run"
    pytest.skip(f"there is no {name}; Debian's package {package} has it")
