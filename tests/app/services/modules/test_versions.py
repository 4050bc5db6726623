"""Which version answers a prediction."""

from __future__ import annotations

import asyncio
import dataclasses
import random
from pathlib import Path
from typing import Any

import pytest

from app.domain.module import ModuleRecord
from app.domain.versions import Canary, VersionSpec
from app.services.modules.version_files import VersionPlace
from app.services.modules.versions import Version, Versions


class Files:
    """Finds the files of every version."""

    def find(self, record: ModuleRecord, number: int) -> VersionPlace:
        return VersionPlace(f"key {number}", Path(str(number)))


@pytest.fixture
def record(bench: Any) -> ModuleRecord:
    """A module of which version 1 is promoted and version 2 a canary for a tenth."""
    spec = VersionSpec(promoted=1, canary=Canary(version=2, weight=0.1))
    return dataclasses.replace(bench.modules.get("a"), versions=spec)


@pytest.fixture
def versions(bench: Any) -> Versions:
    unused: Any = None
    files: Any = Files()
    return Versions(unused, bench.checkpoints, files, unused)


async def by_choosing(versions: Versions, record: ModuleRecord) -> str:
    return (await versions.choose(record, None)).name


async def by_asking(versions: Versions, record: ModuleRecord) -> str:
    """As the fast paths do, which ask in a task if files must be read."""
    asked = asyncio.get_running_loop().create_future()

    def ask(version: Version) -> Any:
        asked.set_result(version.name)

    versions.when_chosen(record, None, ask, asked.set_exception)
    return str(await asked)


@pytest.mark.parametrize("choose", [by_choosing, by_asking])
@pytest.mark.parametrize(("draw", "wanted"), [(0.5, "1"), (0.05, "2")])
async def test_a_canary_gets_its_share_even_while_files_are_read(
    versions: Versions,
    record: ModuleRecord,
    monkeypatch: pytest.MonkeyPatch,
    choose: Any,
    draw: float,
    wanted: str,
) -> None:
    """Drawing again, after the files of the first choice were missed, would favour versions whose
    files are known: here later draws would choose the other version."""
    draws = iter([draw, *[0.55 - draw] * 9])
    monkeypatch.setattr(random, "random", lambda: next(draws))
    assert await choose(versions, record) == wanted
