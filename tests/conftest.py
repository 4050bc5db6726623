"""Fixtures for all tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from oracle.shared import SHARED

pytest_plugins = ["workers"]


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """Return the folder of real models beside the repository; skip where there is none."""
    if not SHARED.is_dir():
        pytest.skip("no ../shared beside the repository")
    return SHARED
