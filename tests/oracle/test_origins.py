"""Golden files say which MXNet and which command wrote them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from oracle import golden_file

_FILES = sorted(
    path
    for path in golden_file.GOLDEN.rglob("*")
    if path.is_file() and path.name != golden_file.ORIGIN
)
_ORIGIN = re.compile(r"mxnet 1\.9\.1, numpy 1\.\d+\.\d+: tests/oracle/(run_\w+\.py) (\w+)")


@pytest.mark.parametrize("path", _FILES, ids=lambda path: path.name)
def test_a_golden_file_records_its_origin(path: Path) -> None:
    found = _ORIGIN.fullmatch(golden_file.origin(path))
    assert found is not None, golden_file.origin(path)
    script, subject = found.groups()
    oracle = golden_file.GOLDEN.parent
    assert (oracle / script).is_file()
    assert (
        oracle / {"run_ops.py": "cases", "run_topics.py": "topics"}[script] / f"{subject}.py"
    ).is_file()
