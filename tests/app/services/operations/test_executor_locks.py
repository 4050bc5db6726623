"""An executor's name belongs to one server at a time."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from app.errors.tree import StartError
from app.services.operations.executor_locks import ExecutorLocks


def test_a_name_can_be_taken_only_once(tmp_path: Path) -> None:
    one, two = ExecutorLocks(tmp_path / "executors"), ExecutorLocks(tmp_path / "executors")
    one.take(["cpu(0)", "cpu(1)"])
    with pytest.raises(StartError, match=rf"executor cpu\(1\) .* process id {os.getpid()};"):
        two.take(["cpu(2)", "cpu(1)"])
    three = ExecutorLocks(tmp_path / "executors")
    three.take(["cpu(2)"])  # the refused server holds none of its names
    one.release()
    two.take(["cpu(0)", "cpu(1)"])
    for locks in (two, three):
        locks.release()


def test_locks_leave_no_descriptor_open(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    one, two = ExecutorLocks(tmp_path), ExecutorLocks(tmp_path)
    one.take(["cpu(0)"])
    with pytest.raises(StartError):
        two.take(["cpu(0)"])
    one.release()
    assert len(os.listdir("/proc/self/fd")) == before
