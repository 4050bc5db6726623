"""The commands ``backup`` and ``restore``: what they print and return."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import typer

from app.cli.maintenance.backing_up import make_backup
from app.cli.maintenance.backup_manifest import BackupManifest
from app.cli.maintenance.restoring import restore_backup
from app.cli.output import say_error
from app.errors.tree import ServiceError, StartError, refined

__all__ = ["run_backup", "run_restore"]

_FAILED = 3


def run_backup(data_dir: Path, url: str, target: Path, *, as_json: bool) -> int:
    """Back up and print a summary; return the exit status, 1 if something was left out."""
    try:
        backup = make_backup(data_dir, url, target)
    except (StartError, ServiceError, OSError) as error:
        return _fail("back up", error)
    if as_json:
        rows = {"left_out": backup.left_out, "notes": backup.notes}
        typer.echo(json.dumps(_counts(backup.manifest) | rows, indent=2))
    else:
        for line in backup.left_out:
            typer.echo(f"! left out: {line}")
        for line in backup.notes:
            typer.echo(f"  {line}")
        typer.echo(f"{target} has {_summary(backup.manifest)}")
    return 1 if backup.left_out else 0


def run_restore(source: Path, data_dir: Path, *, has_own_url: bool, as_json: bool) -> int:
    """Restore and print a summary; return the exit status.

    Args:
        has_own_url: the server's database is outside the data directory.
    """
    try:
        say = functools.partial(typer.echo, err=True)
        manifest = restore_backup(source, data_dir, with_database=not has_own_url, say=say)
    except (StartError, ServiceError) as error:
        return _fail("restore", error)
    except OSError as error:
        return _fail("restore", error, "; what is there is kept: the same command goes on with it")
    has_history = manifest.has_database and not has_own_url
    if as_json:
        typer.echo(json.dumps(_counts(manifest) | {"has_history": has_history}, indent=2))
        return 0
    if not has_history:
        typer.echo(
            "  without the job history: start the server with an empty database, which takes "
            "in the rest"
        )
    typer.echo(f"{data_dir} has {_summary(manifest)}")
    return 0


def _fail(what: str, error: BaseException, advice: str = "") -> int:
    say_error(f"cannot {what}: {refined(error)}{advice}")
    return _FAILED


def _counts(manifest: BackupManifest) -> dict[str, Any]:
    return {
        "modules": manifest.modules,
        "datasets": manifest.datasets,
        "files": len(manifest.files),
        "bytes": manifest.size,
        "has_database": manifest.has_database,
    }


def _summary(manifest: BackupManifest) -> str:
    return (
        f"{manifest.modules} modules and {manifest.datasets} datasets, in {len(manifest.files)} "
        f"files of {manifest.size:,} bytes"
    )
