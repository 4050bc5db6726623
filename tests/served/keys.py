"""API keys for servers under test."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from app.cli.main import app

__all__ = ["add_key", "key_rows", "revoke_key"]


def add_key(data_dir: Path, name: str, *scopes: str, **options: object) -> str:
    """Make a key as an operator would, and return it."""
    words = [word for scope in scopes for word in ("--scope", scope)]
    words += [word for key, value in options.items() for word in (f"--{key}", str(value))]
    parsed: dict[str, Any] = json.loads(_run("add", data_dir, "--name", name, *words, "--json"))
    return str(parsed["key"])


def key_rows(data_dir: Path) -> list[dict[str, Any]]:
    """Return the list of keys."""
    rows: list[dict[str, Any]] = json.loads(_run("ls", data_dir, "--json"))
    return rows


def revoke_key(data_dir: Path, name: str) -> None:
    """Revoke a key as an operator would."""
    _run("revoke", data_dir, name)


def _run(verb: str, data_dir: Path, *words: str) -> str:
    command = ["keys", verb, "--data-dir", str(data_dir), *words]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    return result.stdout
