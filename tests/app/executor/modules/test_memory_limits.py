"""Memory left to a device: the machine's or the container's, whichever is less."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.executor.modules import memory_limits
from app.executor.modules.group_memory import GroupMemory
from app.executor.modules.memory_limits import available_bytes, default_budget, total_bytes
from core.device import cpu


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> list[GroupMemory]:
    """The control groups with limits, initially none."""
    found: list[GroupMemory] = []
    monkeypatch.setattr(memory_limits, "group_memories", lambda: found)
    return found


def machine_bytes() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith("MemAvailable:"))
    return int(line.split()[1]) * 1024


@pytest.mark.serial
def test_without_a_container_the_machine_decides(groups: list[GroupMemory]) -> None:
    assert available_bytes(cpu()) == pytest.approx(machine_bytes(), rel=0.2)


def test_a_container_leaves_what_it_has_not_used(groups: list[GroupMemory]) -> None:
    groups.append(GroupMemory(limit=10_000_000, used=4_000_000))
    assert available_bytes(cpu()) == 6_000_000


def test_a_container_over_its_limit_leaves_nothing(groups: list[GroupMemory]) -> None:
    groups.append(GroupMemory(limit=1000, used=2000))
    assert available_bytes(cpu()) == 0


def test_modules_may_use_a_share_of_the_containers_memory(groups: list[GroupMemory]) -> None:
    groups += [GroupMemory(limit=20_000_000, used=0), GroupMemory(limit=10_000_000, used=0)]
    assert total_bytes(cpu()) == 10_000_000
    assert default_budget(cpu()) == 7_000_000
    assert default_budget(cpu(), sharers=2) == 3_500_000
