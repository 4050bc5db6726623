"""The clock of a store goes on when the machine's clock is set."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from app.store import clock as clock_module
from app.store.clock import StoreClock, open_clock
from app.store.store import Store

DAY = 86400.0


def opened(store: Store, wall: float) -> StoreClock:
    with store.write() as connection:
        return open_clock(connection, lambda: wall)


def test_the_machines_clock_is_told_beside_it(store: Store) -> None:
    present = store.clock()
    assert present.wall == pytest.approx(time.time(), abs=5.0)
    assert present.steady == pytest.approx(time.time(), abs=5.0)
    assert present.lead == 0.0
    assert store.clock().steady > present.steady


@pytest.mark.parametrize("step", [DAY, -DAY])
def test_it_goes_on_when_the_machines_clock_is_set(
    store: Store, monkeypatch: pytest.MonkeyPatch, step: float
) -> None:
    wall = [1e9]
    with store.write() as connection:
        clock = open_clock(connection, lambda: wall[0])
    passed = clock_module.seconds_since_boot()
    monkeypatch.setattr(clock_module, "seconds_since_boot", lambda: passed + 10.0)
    before = clock().steady
    wall[0] += step + 10.0
    monkeypatch.setattr(clock_module, "seconds_since_boot", lambda: passed + 20.0)
    present = clock()
    assert present.steady == pytest.approx(before + 10.0)
    assert present.wall == 1e9 + step + 10.0


@pytest.fixture
def fresh(tmp_path: Path) -> Store:
    store = Store(f"sqlite:///{tmp_path / 'fresh.db'}")
    store.open()
    return store


def test_servers_of_one_boot_agree_and_another_boot_begins_anew(
    fresh: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = fresh.clock()
    again = opened(fresh, first.wall + DAY)()
    assert again.steady == pytest.approx(first.steady, abs=5.0)
    assert again.lead == pytest.approx(DAY, abs=5.0)
    boot = tmp_path / "boot_id"
    boot.write_text("0f2aa1b0-1111-2222-3333-444455556666\n")
    monkeypatch.setattr(clock_module, "_BOOT_ID", boot)
    assert opened(fresh, first.wall + DAY)().lead == 0.0
    assert opened(fresh, first.wall)().lead == pytest.approx(-DAY, abs=5.0)
    boot.unlink()  # a system that does not tell: every start begins anew
    assert opened(fresh, first.wall)().lead == 0.0
    assert opened(fresh, first.wall + DAY)().lead == 0.0
    fresh.close()
