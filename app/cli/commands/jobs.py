"""``modserve jobs``: list, watch and control jobs."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from app.cli.commands.asking import LOCAL, Key, Url, asking
from app.cli.commands.printing import (
    Column,
    age,
    number,
    print_facts,
    print_json,
    print_row,
    print_rows,
)
from app.cli.commands.watching import watch_job
from app.cli.output import AsJson

__all__ = ["jobs"]

jobs = typer.Typer(help="Jobs of a server: list, watch, control.", no_args_is_help=True)

JobNumber = Annotated[int, typer.Argument(metavar="JOB", help="Number of the job.")]


def _attempt(job: Any) -> str | None:
    """Return which attempt this is of those that may be lost in a row: after a checkpoint the next
    is the first again."""
    if not job["attempt"]:
        return None
    return f"{min(job['lost'] + 1, job['max_attempts'])}/{job['max_attempts']}"


def _progress(job: Any) -> str | None:
    progress = job["progress"]
    if job["status"] == "queued" and job["queue_position"] is not None:
        return f"place {job['queue_position']}"
    if "epoch" not in progress:
        return None
    return f"epoch {progress['epoch'] + 1}/{progress['epochs']}"


def _metrics(job: Any) -> str:
    found = job["progress"].get("metrics", {})
    return " ".join(f"{name}={number(value)}" for name, value in found.items())


_COLUMNS: tuple[Column, ...] = (
    ("JOB", lambda job: job["id"]),
    ("KIND", lambda job: job["kind"]),
    ("MODULE", lambda job: job["module"]),
    ("STATUS", lambda job: job["status"]),
    ("ATTEMPT", _attempt),
    ("PROGRESS", _progress),
    ("METRICS", _metrics),
    ("AGE", lambda job: age(job["created_at"])),
)


@jobs.command("ls")
def list_jobs(
    module: Annotated[list[str] | None, typer.Option(help="Only jobs of these modules.")] = None,
    status: Annotated[list[str] | None, typer.Option(help="Only jobs with these statuses.")] = None,
    url: Url = LOCAL,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """List jobs, the newest first."""
    with asking(url, key) as client:
        print_rows(client.jobs(module=module or None, status=status or None), _COLUMNS, as_json)


@jobs.command("show")
def show_job(job: JobNumber, url: Url = LOCAL, key: Key = None, as_json: AsJson = False) -> None:
    """Print all details of a job."""
    with asking(url, key) as client:
        print_facts(client.job(job), as_json)


@jobs.command("watch")
def watch(job: JobNumber, url: Url = LOCAL, key: Key = None, as_json: AsJson = False) -> None:
    """Follow a job to its end; the exit status is 0 if it succeeded."""
    with asking(url, key) as client:
        raise typer.Exit(watch_job(client, job, as_json))


def _add_action(verb: str, text: str) -> None:
    """Add the command for an action on a job."""

    @jobs.command(verb, help=text)
    def steer(job: JobNumber, url: Url = LOCAL, key: Key = None, as_json: AsJson = False) -> None:
        with asking(url, key) as client:
            print_row(getattr(client, verb)(job), _COLUMNS, as_json)


for _verb, _text in (
    ("cancel", "Cancel a job."),
    ("pause", "Pause a job; one that runs saves a checkpoint first."),
    ("resume", "Queue a paused job again."),
    ("retry", "Queue a failed or cancelled job again."),
):
    _add_action(_verb, _text)


@jobs.command("rm")
def remove(job: JobNumber, url: Url = LOCAL, key: Key = None, as_json: AsJson = False) -> None:
    """Delete a finished job with its events and metrics; its checkpoints stay."""
    with asking(url, key) as client:
        client.delete_job(job)
    if as_json:
        print_json({"deleted": [job]})
