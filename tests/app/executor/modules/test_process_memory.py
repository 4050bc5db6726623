"""Freed memory goes back to the system, from whatever thread it was taken."""

from __future__ import annotations

import subprocess
import sys

import pytest

MIB = 2**20
MOST_KEPT = 40 * MIB
_PROGRAM = """
import sys, threading
import numpy as np
from app.executor.modules.process_memory import *
if sys.argv[1] == "limited":
    retain_little_memory()
before = private_bytes()

def work(seed):
    rng = np.random.default_rng(seed)
    kept = []
    for _ in range(60):
        kept += [np.ones(int(rng.integers(1, 31)) * 2**20, np.uint8), np.ones(2000, np.uint8)]
        del kept[:-8]

threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
return_free_memory()
print(private_bytes() - before)
"""


def kept_by(mode: str) -> int:
    """Return the bytes that a process keeps after threads have freed all their arrays."""
    command = [sys.executable, "-c", _PROGRAM, mode]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def test_little_is_kept_of_what_threads_have_freed() -> None:
    assert kept_by("limited") < MOST_KEPT


@pytest.mark.skipif(sys.platform != "linux", reason="a habit of glibc")
def test_the_measure_would_notice_what_glibc_keeps_by_default() -> None:
    assert kept_by("default") > 2 * MOST_KEPT
