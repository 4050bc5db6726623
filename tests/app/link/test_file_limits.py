"""A process may open as many files as the system allows."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import resource
from app.link.file_limits import allow_most_files
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 100))
print(allow_most_files(), resource.getrlimit(resource.RLIMIT_NOFILE))
"""


def test_the_soft_limit_is_raised_to_the_hard_limit() -> None:
    ran = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "100 (100, 100)"
