"""The release gate must not skip the tests that use a library."""

from __future__ import annotations

import ast
import importlib.util
import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent


def optional_libraries() -> set[str]:
    """Return what tests give to ``pytest.importorskip``."""
    calls = (
        node
        for path in ROOT.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(), str(path)))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.importorskip"
    )
    return {ast.literal_eval(call.args[0]) for call in calls}


@pytest.mark.skipif("CI" not in os.environ, reason="libraries may be missing elsewhere")
@pytest.mark.parametrize("name", sorted(optional_libraries()))
def test_a_library_is_installed(name: str) -> None:
    if name == "kserve" and sys.version_info >= (3, 14):
        pytest.skip("kserve does not support this Python yet")
    assert importlib.util.find_spec(name) is not None, f"{name}: pip install -e .[dev]"


def test_the_libraries_are_found_in_the_tests() -> None:
    assert {"PIL", "kserve", "tritonclient.http"} <= optional_libraries()
