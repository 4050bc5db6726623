"""How much memory is free, on a machine and in a container with a limit."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.backends import backend_of
from core.device import cpu
from core.executor import free_memory
from core.executor.free_memory import free_bytes

VERSION_2 = "/ @/fs rw,nosuid shared:9 - cgroup2 cgroup2 rw"
VERSION_1 = "/ @/fs rw,nosuid - cgroup cgroup rw,memory"
AVAILABLE = 10_000 * 1024


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "meminfo"
    file.write_text("MemTotal:  20000 kB\nMemFree:  500 kB\nMemAvailable:  10000 kB\n")
    monkeypatch.setattr(free_memory, "_MACHINE", file)


def free(folder: Path, cgroup: str, mount: str, files: dict[str, str]) -> int:
    (folder / "cgroup").write_text(cgroup)
    (folder / "mountinfo").write_text(f"30 25 0:26 {mount.replace('@', str(folder))}\n")
    for name, text in files.items():
        path = folder / "fs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return free_bytes(backend_of(cpu()), folder)


def test_without_a_limit_it_is_what_the_machine_has_available(tmp_path: Path) -> None:
    files = {"memory.max": "max\n", "memory.current": "7000\n"}
    assert free(tmp_path, "0::/\n", VERSION_2, files) == AVAILABLE


def test_a_limit_counts_without_inactive_page_cache(tmp_path: Path) -> None:
    files = {
        "memory.max": "5000\n",
        "memory.current": "4000\n",
        "memory.stat": "anon 1500\ninactive_file 600\nactive_file 100\n",
    }
    assert free(tmp_path, "0::/\n", VERSION_2, files) == 1600


def test_the_lowest_of_nested_limits_counts(tmp_path: Path) -> None:
    files = {
        "a/b/memory.max": "max\n",
        "a/b/memory.current": "10\n",
        "a/memory.max": "900\n",
        "a/memory.current": "1000\n",
    }
    assert free(tmp_path, "0::/a/b\n", VERSION_2, files) == 0


def test_a_limit_of_version_1_counts(tmp_path: Path) -> None:
    files = {
        "job/memory.limit_in_bytes": "5000\n",
        "job/memory.usage_in_bytes": "4000\n",
        "job/memory.stat": "inactive_file 10\ntotal_inactive_file 20\n",
        "memory.limit_in_bytes": "9223372036854771712\n",
        "memory.usage_in_bytes": "6000\n",
    }
    assert free(tmp_path, "4:memory:/job\n0::/\n", VERSION_1, files) == 1020
