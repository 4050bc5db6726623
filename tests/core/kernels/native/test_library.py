"""Which builds of the compiled kernels are loaded."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import pytest

from core.kernels.native import library

pytestmark = pytest.mark.skipif(not library.is_available(), reason="the kernels are not compiled")


@pytest.mark.parametrize("changed", ["more.c", "simd.h"])
def test_a_library_compiled_from_other_sources_is_not_loaded(
    changed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "native"
    shutil.copytree(library._FILE.parent, folder)
    monkeypatch.setattr(library, "_FILE", folder / library._FILE.name)
    assert library.library.__wrapped__() is not None
    (folder / changed).write_text("other")
    with caplog.at_level(logging.WARNING):
        assert library.library.__wrapped__() is None
    assert "was compiled from another source" in caplog.text


def test_a_library_without_its_sources_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(library._FILE, tmp_path)
    monkeypatch.setattr(library, "_FILE", tmp_path / library._FILE.name)
    assert library.library.__wrapped__() is not None
