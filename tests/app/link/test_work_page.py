"""A shared page tells what a process was doing when it died."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from app.link.work_page import RunningWork, WorkPage

WRITE = """
import os, signal, sys
from app.link.work_page import RunningWork, WorkPage
page = WorkPage(int(sys.argv[1]))
page.write([RunningWork(call_id=7, method="predict", module="lenet")])
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize(
    ("work", "text"),
    [
        (RunningWork(call_id=3, method="executor_info"), "executor_info"),
        (RunningWork(call_id=3, method="bind", module="ä\nb"), "bind of module 'ä\\nb'"),
        (RunningWork(method="job", job_id=5, module="a"), "job 5 on module 'a'"),
    ],
)
def test_what_is_written_is_read_back(work: RunningWork, text: str) -> None:
    page = WorkPage.create()
    assert page.read() == ()
    other = RunningWork(call_id=1, method="restore_module", module="b")
    page.write([other, RunningWork(call_id=2, method="m" * 10_000), work])
    assert page.read() == (other, work)
    page.write([work])
    assert page.read() == (work,)
    assert str(work) == text
    page.clear()
    assert page.read() == ()
    page.close()


def test_a_half_written_record_is_left_out() -> None:
    page = WorkPage.create()
    work = RunningWork(call_id=2, method="bind", module="a")
    page.write([RunningWork(call_id=1, method="predict", module="b"), work])
    page._memory[4:8] = b"7\n\0\0"  # the beginning of other records under the old length
    assert page.read() == (work,)
    page.close()


def test_it_outlives_the_process_that_wrote_it() -> None:
    page = WorkPage.create()
    command = [sys.executable, "-c", WRITE, str(page.fd)]
    ended = subprocess.run(command, pass_fds=[page.fd], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert page.read() == (RunningWork(call_id=7, method="predict", module="lenet"),)
    page.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(page.fd)
