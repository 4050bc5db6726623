"""The wheel: with compiled kernels where there is a compiler, pure Python elsewhere."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LIBRARY = "core/kernels/native/libnative.so"

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64",
    reason="kernels are compiled for Linux on x86-64",
)


def build(folder: Path, **environment: str) -> tuple[Path, str]:
    """Build a wheel from a copy of the source; return it and the build's output."""
    source = folder / "source"
    ignore = shutil.ignore_patterns("__pycache__", "*.so", "node_modules")
    for name in ("app", "core"):
        shutil.copytree(ROOT / name, source / name, ignore=ignore)
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=source,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    (wheel,) = folder.glob("*.whl")
    return wheel, done.stdout + done.stderr


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_a_wheel_contains_the_kernels(tmp_path: Path) -> None:
    wheel, _ = build(tmp_path)
    assert wheel.name.endswith("-py3-none-linux_x86_64.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert LIBRARY in names
    assert "app/static/index.html" in names
    assert {"app/guides/index.md", "app/guides/settings.md"} <= set(names)
    assert not [name for name in names if name.startswith("app/dashboard/")]


def test_without_a_compiler_the_wheel_is_pure_and_the_build_says_so(tmp_path: Path) -> None:
    wheel, said = build(tmp_path, CC=str(tmp_path / "no-compiler"))
    assert wheel.name.endswith("-py3-none-any.whl")
    assert LIBRARY not in zipfile.ZipFile(wheel).namelist()
    assert "install a compiler" in said
