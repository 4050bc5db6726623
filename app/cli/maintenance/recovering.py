"""``modserve recover``: bring the database up to date with what is in a data directory."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import replace

import typer

from app.cli.output import say_error
from app.errors.tree import ServiceError, StartError
from app.services.operations.recovery_report import RecoveryReport
from app.services.operations.storage import StorageOptions, open_storage
from app.store.store import database_file

__all__ = ["run_recover"]


def run_recover(options: StorageOptions, *, check: bool, as_json: bool) -> int:
    """Recover, or only check; print the findings and return the exit status.

    Args:
        check: change neither the database nor files.
        as_json: print a single JSON object instead of lines.

    Returns:
        0; 1 where something needs a look; 3 where nothing could be done.
    """
    if not options.data_dir.is_dir():
        say_error(f"there is no directory {options.data_dir}; give --data-dir")
        return 3
    try:
        report = _look(options) if check else _recover(options)
    except (StartError, ServiceError, OSError) as error:
        say_error(f"cannot recover: {error}")
        return 3
    if as_json:
        typer.echo(json.dumps(report.to_plain(), indent=2))
    else:
        _print(report)
    return 1 if report.problems else 0


def _recover(options: StorageOptions) -> RecoveryReport:
    with ExitStack() as stack:
        storage = open_storage(options, stack)
        if storage.liveness.others():
            raise StartError(
                f"a server is using {options.data_dir}; stop it first, or give --check to only look"
            )
        return storage.recovery.run(rebuild=True)


def _look(options: StorageOptions) -> RecoveryReport:
    path = database_file(options.url)
    if path is not None and not path.exists():
        options = replace(options, url="sqlite://")  # a temporary database, deleted afterwards
    with ExitStack() as stack:
        return open_storage(options, stack, claim=False).recovery.look()


def _print(report: RecoveryReport) -> None:
    for finding in report.findings:
        typer.echo(("! " if finding.is_problem else "  ") + str(finding))
    counts = ", ".join(f"{count} {what}" for what, count in report.counts.items())
    rest = f"{len(report.problems)} need attention, marked !" if report.problems else "all is well"
    typer.echo(f"the database knows {counts}; {rest}")
