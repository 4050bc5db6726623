"""The committed build matches its sources, is small, and loads nothing from elsewhere."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest

from served.node import DASHBOARD, run_node

STATIC = DASHBOARD.parent / "static"
MOST_BYTES = 95_000


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.slow
def test_the_committed_files_match_a_fresh_build(dashboard: Path) -> None:
    """Types are generated anew from openapi.json: using what the API no longer has fails to
    compile."""
    run_node(dashboard, "npm", "run", "build")
    built, committed = files(dashboard.parent / "static"), files(STATIC)
    assert built.keys() == committed.keys(), "run: make dashboard"
    assert [name for name in built if built[name] != committed[name]] == [], "run: make dashboard"


def test_the_build_is_small() -> None:
    packed = {name: len(gzip.compress(content)) for name, content in files(STATIC).items()}
    assert sum(packed.values()) <= MOST_BYTES, packed


def test_no_file_refers_to_another_host() -> None:
    for name, content in files(STATIC).items():
        hosts = set(re.findall(rb"https?://([\w.-]+)", content)) - {b"www.w3.org"}
        assert not hosts, f"{name}: {hosts}"


def test_the_lock_file_is_exact_and_names_no_registry() -> None:
    text = (DASHBOARD / "package-lock.json").read_text()
    assert '"resolved"' not in text
    package = json.loads((DASHBOARD / "package.json").read_text())
    for versions in (package["dependencies"], package["devDependencies"]):
        assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in versions.values())


@pytest.mark.parametrize(
    "path", sorted((DASHBOARD / "src").rglob("*.ts*")), ids=lambda p: str(p.relative_to(DASHBOARD))
)
def test_source_files_are_short(path: Path) -> None:
    text = path.read_text()
    if path.name != "schema.d.ts":  # generated, and not committed
        assert len(text.splitlines()) <= 500
        assert not re.search(r"innerHTML|dangerouslySetInnerHTML|\beval\(|new Function", text)
