"""Memory limits from trees of control groups, as in containers and services."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from app.executor.modules import memory_limits
from app.executor.modules.group_memory import GroupMemory, group_memories
from app.executor.modules.memory_limits import available_bytes, default_budget, total_bytes
from core.device import cpu

ROOT = Path(__file__).parents[4]
VERSION_2 = "/ @/fs rw,nosuid shared:9 - cgroup2 cgroup2 rw"
OF_MEMORY = "/ @/memory rw,nosuid - cgroup cgroup rw,memory"
OF_CONTAINER = "/docker/abc @/memory rw - cgroup cgroup rw,memory"
OF_CPU = "/ @/cpu rw,nosuid - cgroup cgroup rw,cpu"
MIB = 2**20


def tree(folder: Path, cgroup: str, mounts: list[str], files: dict[str, str]) -> Path:
    """Write the files in which a process sees its groups; mount points are in the folder."""
    (folder / "cgroup").write_text(cgroup)
    lines = [f"30 25 0:26 {mount.replace('@', str(folder))}\n" for mount in mounts]
    (folder / "mountinfo").write_text("".join(lines))
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.mark.parametrize(
    ("cgroup", "mounts", "files", "expected"),
    [
        ("0::/\n", [VERSION_2], {}, []),
        ("0::/\n", [VERSION_2], {"fs/memory.max": "max\n"}, []),
        ("0::/\n", [VERSION_2], {"fs/memory.max": "nonsense\n"}, []),
        ("0::/\n", [VERSION_2], {"fs/memory.max": "900\n"}, [(900, 0)]),
        (
            "0::/\n",
            [VERSION_2],
            {
                "fs/memory.max": "900\n",
                "fs/memory.current": "700\n",
                "fs/memory.stat": "anon 90\nactive_file 100\ninactive_file 200\nslab 1\n",
            },
            [(900, 400)],
        ),
        (
            "0::/system.slice/modserve.service\n",
            [VERSION_2],
            {
                "fs/system.slice/modserve.service/memory.max": "800\n",
                "fs/system.slice/memory.max": "500\n",
                "fs/system.slice/memory.current": "400\n",
            },
            [(800, 0), (500, 400)],
        ),
        (
            "4:memory:/a\n1:cpu:/b\n0::/\n",
            [OF_CPU, OF_MEMORY, VERSION_2],
            {
                "memory/a/memory.limit_in_bytes": "600\n",
                "memory/a/memory.usage_in_bytes": "500\n",
                "memory/a/memory.stat": "active_file 1\ntotal_active_file 20\n"
                "total_inactive_file 30\n",
                "memory/memory.limit_in_bytes": "9223372036854771712\n",
                "cpu/b/memory.limit_in_bytes": "1\n",
            },
            [(600, 450)],
        ),
        (
            "4:memory:/docker/abc\n",
            [OF_CONTAINER],
            {"memory/memory.limit_in_bytes": "300\n", "memory/memory.usage_in_bytes": "310\n"},
            [(300, 310)],
        ),
        ("4:memory:/elsewhere\n", [OF_CONTAINER], {"memory/memory.limit_in_bytes": "9"}, [(9, 0)]),
    ],
)
def test_limits_of_a_group_and_its_ancestors_apply(
    tmp_path: Path,
    cgroup: str,
    mounts: list[str],
    files: dict[str, str],
    expected: list[tuple[int, int]],
) -> None:
    found = group_memories(tree(tmp_path, cgroup, mounts, files))
    assert found == [GroupMemory(*one) for one in expected]


def test_without_groups_there_is_no_limit(tmp_path: Path) -> None:
    assert group_memories(tmp_path) == []


def test_the_modules_budget_is_a_share_of_a_services_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Set by systemd's MemoryMax, Docker's --memory and Kubernetes' limits."""
    service = "fs/system.slice/modserve.service/memory"
    files = {f"{service}.max": f"{100 * MIB}\n", f"{service}.current": f"{90 * MIB}\n"}
    files[f"{service}.stat"] = f"inactive_file {50 * MIB}\n"
    seen = tree(tmp_path, "0::/system.slice/modserve.service\n", [VERSION_2], files)
    monkeypatch.setattr(memory_limits, "group_memories", lambda: group_memories(seen))
    assert total_bytes(cpu()) == 100 * MIB
    assert default_budget(cpu()) == 70 * MIB
    assert available_bytes(cpu()) == 60 * MIB, "the memory of cached files can be freed"


def test_the_limit_of_a_real_group_applies() -> None:
    name = f"modserve-test-{os.getpid()}"
    for parent, limit in (("memory", "memory.limit_in_bytes"), ("", "memory.max")):
        folder = Path("/sys/fs/cgroup", parent, name)
        try:
            folder.mkdir()
        except OSError:
            continue
        try:
            (folder / limit).write_text(str(512 * MIB))
            found = budget_in(folder)
            assert found == int(512 * MIB * 0.7)
            return
        except OSError:
            continue
        finally:
            folder.rmdir()
    pytest.skip("no cgroup can be made here")


def budget_in(folder: Path) -> int:
    code = (
        f"import os; open({str(folder / 'cgroup.procs')!r}, 'w').write(str(os.getpid()));"
        " from app.executor.modules.memory_limits import default_budget;"
        " from core.device import cpu; print(default_budget(cpu()))"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    return int(done.stdout)
