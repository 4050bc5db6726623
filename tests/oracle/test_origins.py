"""Golden files say which MXNet and which command wrote them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from oracle import golden_file

_ROOT = Path(__file__).parents[2]
_FILES = sorted(
    path
    for folder in (_ROOT / "tests").rglob("golden")
    for path in folder.rglob("*")
    if path.is_file() and path.name != golden_file.ORIGIN
)
_ORIGIN = re.compile(r"mxnet 1\.9\.1(?:, numpy 1\.\d+\.\d+)?: (tests/\S+\.py) (\w+)")
_SUBJECTS = {"tests/oracle/run_ops.py": "cases", "tests/oracle/run_topics.py": "topics"}
"""The folder that defines what a script writes, by script."""


@pytest.mark.parametrize("path", _FILES, ids=lambda path: path.name)
def test_a_golden_file_records_its_origin(path: Path) -> None:
    found = _ORIGIN.fullmatch(golden_file.origin(path))
    assert found is not None, golden_file.origin(path)
    script, subject = found.groups()
    assert (_ROOT / script).is_file()
    if golden_file.GOLDEN in path.parents:
        oracle = golden_file.GOLDEN.parent
        assert (oracle / _SUBJECTS[script] / f"{subject}.py").is_file()


def test_golden_files_in_the_folders_of_tests_are_checked_too() -> None:
    assert {path.parent.parent.name for path in _FILES} >= {"compat", "golden"}
