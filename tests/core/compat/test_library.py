"""Libraries compiled for MXNet."""

from __future__ import annotations

from pathlib import Path

import pytest

import core as mx


def test_a_compiled_library_is_refused_with_a_way_out(tmp_path: Path) -> None:
    path = tmp_path / "libcustom.so"
    path.write_bytes(b"")
    with pytest.raises(mx.MXNetError, match=r"libcustom\.so is compiled for MXNet.*CustomOp"):
        mx.library.load(str(path))


def test_a_library_that_does_not_exist_is_named() -> None:
    with pytest.raises(mx.MXNetError, match=r"load path no/such.so does NOT exist"):
        mx.library.load("no/such.so")
