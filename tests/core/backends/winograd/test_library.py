"""Which compiled kernels are loaded."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from core.backends.winograd import library


@pytest.mark.skipif(not library.is_available(), reason="the kernels are not compiled")
def test_a_library_of_another_source_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    changed = tmp_path / "winograd.c"
    changed.write_text("other")
    monkeypatch.setattr(library, "_SOURCE", changed)
    with caplog.at_level(logging.WARNING):
        assert library.library.__wrapped__() is None
    assert "was compiled from another source" in caplog.text


@pytest.mark.skipif(not library.is_available(), reason="the kernels are not compiled")
def test_without_its_source_a_library_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "_SOURCE", tmp_path / "winograd.c")
    assert library.library.__wrapped__() is not None
