from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.cpus import available_cpus
from app.settings import Settings

ALL = 64


@pytest.fixture(autouse=True)
def many_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(ALL)))


def fake_proc(folder: Path, cgroup: str, mounts: list[str], files: dict[str, str]) -> Path:
    """Write what a process sees of its cgroups; mount points lie below the folder."""
    (folder / "cgroup").write_text(cgroup)
    lines = [f"30 25 0:26 {mount.replace('@', str(folder))}\n" for mount in mounts]
    (folder / "mountinfo").write_text("".join(lines))
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


VERSION_2 = "/ @/fs rw,nosuid shared:9 - cgroup2 cgroup2 rw"
VERSION_1 = "/ @/fs/cpu,cpuacct rw,nosuid - cgroup cgroup rw,cpu,cpuacct"
IN_A_CONTAINER = "/docker/abc @/fs/cpu rw - cgroup cgroup rw,cpu"
MEMORY = "/ @/fs/memory rw,nosuid - cgroup cgroup rw,memory"


@pytest.mark.parametrize(
    ("cgroup", "mounts", "files", "expected"),
    [
        ("0::/\n", [VERSION_2], {}, ALL),
        ("0::/\n", [VERSION_2], {"fs/cpu.max": "max 100000\n"}, ALL),
        ("0::/\n", [VERSION_2], {"fs/cpu.max": "300000 100000\n"}, 3),
        ("0::/\n", [VERSION_2], {"fs/cpu.max": "250000 100000\n"}, 2),
        ("0::/\n", [VERSION_2], {"fs/cpu.max": "20000 100000\n"}, 1),
        ("0::/\n", [VERSION_2], {"fs/cpu.max": "9000000 100000\n"}, ALL),
        ("0::/a/b\n", [VERSION_2], {"fs/a/b/cpu.max": "max 1\n", "fs/a/cpu.max": "4 2\n"}, 2),
        ("0::/a/b\n", [VERSION_2], {"fs/a/b/cpu.max": "5 1\n", "fs/a/cpu.max": "9 1\n"}, 5),
        ("0::/../outside\n", [VERSION_2], {"fs/cpu.max": "3 1\n"}, 3),
        (
            "3:cpu,cpuacct:/a\n0::/\n",
            [MEMORY, VERSION_1],
            {
                "fs/cpu,cpuacct/a/cpu.cfs_quota_us": "600000\n",
                "fs/cpu,cpuacct/a/cpu.cfs_period_us": "100000\n",
            },
            6,
        ),
        (
            "3:cpu,cpuacct:/a\n",
            [VERSION_1],
            {
                "fs/cpu,cpuacct/a/cpu.cfs_quota_us": "-1\n",
                "fs/cpu,cpuacct/a/cpu.cfs_period_us": "100000\n",
            },
            ALL,
        ),
        (
            "3:cpu:/docker/abc/inner\n",
            [IN_A_CONTAINER],
            {
                "fs/cpu/cpu.cfs_quota_us": "700000\n",
                "fs/cpu/cpu.cfs_period_us": "100000\n",
            },
            7,
        ),
        (
            "3:cpu:/elsewhere\n",
            [IN_A_CONTAINER],
            {"fs/cpu/cpu.cfs_quota_us": "800000\n", "fs/cpu/cpu.cfs_period_us": "100000\n"},
            8,
        ),
        ("0::/\n", [VERSION_2], {"fs/cpu.max": "nonsense\n"}, ALL),
    ],
)
def test_quotas_of_cgroups_count(
    tmp_path: Path, cgroup: str, mounts: list[str], files: dict[str, str], expected: int
) -> None:
    assert available_cpus(fake_proc(tmp_path, cgroup, mounts, files)) == expected


def test_without_cgroups_the_affinity_counts(tmp_path: Path) -> None:
    assert available_cpus(tmp_path) == ALL


def test_executors_share_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.settings.available_cpus", lambda: 9)
    assert Settings().threads_per_executor == 8
    assert Settings(devices=("cpu(0)", "cpu(1)", "cpu(2)")).threads_per_executor == 2
    assert Settings(threads=5).threads_per_executor == 5
    monkeypatch.setattr("app.settings.available_cpus", lambda: 1)
    assert Settings().threads_per_executor == 1


@contextlib.contextmanager
def real_cgroup() -> Iterator[Path]:
    """A cgroup with a quota of half a processor; skip where this machine does not let us."""
    name = f"modserve-test-{os.getpid()}"
    for parent, quota in (
        (Path("/sys/fs/cgroup/cpu"), ("cpu.cfs_quota_us", "50000")),
        (Path("/sys/fs/cgroup"), ("cpu.max", "50000 100000")),
    ):
        folder = parent / name
        try:
            folder.mkdir()
        except OSError:
            continue
        try:
            (folder / quota[0]).write_text(quota[1])
            yield folder
            return
        except OSError:
            continue
        finally:
            folder.rmdir()
    pytest.skip("no cgroup can be made here")


def test_a_real_cgroup() -> None:
    count = "from app.cpus import available_cpus as n; print(n())"
    with real_cgroup() as folder:
        enter = f"import os; open({str(folder / 'cgroup.procs')!r}, 'w').write(str(os.getpid()))"
        command = [sys.executable, "-c", f"{enter}; {count}"]
        inside = subprocess.run(command, capture_output=True, text=True, check=True)
    assert inside.stdout == "1\n"
