"""Debian programs that tests run beside the server, where installed."""

from __future__ import annotations

import os
import shutil

import pytest

__all__ = ["program"]


def program(name: str, package: str) -> str:
    """Return where a program is; without it the test is skipped, but not in CI, which installs it.

    Args:
        package: of Debian, that has it.
    """
    found = shutil.which(name)
    if found is not None:
        return found
    assert "PROGRAMS_REQUIRED" not in os.environ, f"{name} is not installed; see .ci/run"
    pytest.skip(f"there is no {name}; Debian's package {package} has it")
