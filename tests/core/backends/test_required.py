"""The release gate must not skip the tests of the fast kernels."""

from __future__ import annotations

import os

import pytest

from core.kernels import native, onednn

_IN_CI = pytest.mark.skipif("CI" not in os.environ, reason="kernels may be missing elsewhere")


@_IN_CI
def test_onednn_is_installed() -> None:
    assert onednn.is_available()


@_IN_CI
def test_kernels_are_compiled() -> None:
    assert native.is_available()
