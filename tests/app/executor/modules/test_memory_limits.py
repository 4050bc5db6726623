"""What a device has left: the machine's memory or the container's, whichever is less."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.executor.modules import memory_limits
from app.executor.modules.memory_limits import available_bytes, default_budget, total_bytes
from core.device import cpu


@pytest.fixture
def group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A control group's files, to be written."""
    monkeypatch.setattr(memory_limits, "_CGROUP", tmp_path)
    return tmp_path


def machine_bytes() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith("MemAvailable:"))
    return int(line.split()[1]) * 1024


@pytest.mark.serial
@pytest.mark.parametrize("limit", [None, "max"])
def test_without_a_container_the_machine_decides(group: Path, limit: str | None) -> None:
    if limit is not None:
        (group / "memory.max").write_text(limit)
        (group / "memory.current").write_text("4096\n")
    assert available_bytes(cpu()) == pytest.approx(machine_bytes(), rel=0.2)


def test_a_container_leaves_what_it_has_not_used(group: Path) -> None:
    (group / "memory.max").write_text("10000000\n")
    (group / "memory.current").write_text("4000000\n")
    assert available_bytes(cpu()) == 6_000_000


def test_a_container_over_its_limit_leaves_nothing(group: Path) -> None:
    (group / "memory.max").write_text("1000\n")
    (group / "memory.current").write_text("2000\n")
    assert available_bytes(cpu()) == 0


def test_modules_may_take_a_share_of_what_the_container_has(group: Path) -> None:
    (group / "memory.max").write_text("10000000\n")
    assert total_bytes(cpu()) == 10_000_000
    assert default_budget(cpu()) == 7_000_000
    assert default_budget(cpu(), sharers=2) == 3_500_000
