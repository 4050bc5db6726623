from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.cpus import available_cpus
from core.kernels.onednn import is_available

ALL = 64
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def many_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(ALL)))


def fake_proc(folder: Path, cgroup: str, mounts: list[str], files: dict[str, str]) -> Path:
    """Write the files in which a process finds its cgroups; mount points are in the folder."""
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
def test_cgroup_quotas_limit_the_count(
    tmp_path: Path, cgroup: str, mounts: list[str], files: dict[str, str], expected: int
) -> None:
    assert available_cpus(fake_proc(tmp_path, cgroup, mounts, files)) == expected


def test_without_cgroups_the_affinity_decides(tmp_path: Path) -> None:
    assert available_cpus(tmp_path) == ALL


@contextlib.contextmanager
def real_cgroup() -> Iterator[Path]:
    """A cgroup limited to half a processor; skips where this machine does not allow one."""
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


@pytest.mark.skipif(not is_available(), reason="oneDNN is not installed")
def test_a_script_in_a_real_cgroup_uses_that_many_threads() -> None:
    count = (
        "import core as mx; from core.kernels.onednn import library;"
        " from threadpoolctl import threadpool_info;"
        " blas = {one['num_threads'] for one in threadpool_info() if one['user_api'] == 'blas'};"
        " print(library().threads(), *blas)"
    )
    with real_cgroup() as folder:
        enter = f"import os; open({str(folder / 'cgroup.procs')!r}, 'w').write(str(os.getpid()))"
        command = [sys.executable, "-c", f"{enter}; {count}"]
        names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MODSERVE_THREADS", "CORE_SHARERS")
        environ = {name: value for name, value in os.environ.items() if name not in names}
        inside = subprocess.run(
            command, capture_output=True, text=True, check=True, env=environ, cwd=ROOT
        )
    assert inside.stdout == "1 1\n"
