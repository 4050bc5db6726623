"""``modserve jobs``: list, watch and steer jobs."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from app.commands.asking import LOCAL, AsJson, Key, Url, asking
from app.commands.printing import Column, age, number, print_rows, print_value
from app.commands.watching import watch_job

__all__ = ["jobs"]

jobs = typer.Typer(help="Jobs of a server: list, watch, steer.", no_args_is_help=True)

JobNumber = Annotated[int, typer.Argument(metavar="JOB", help="Its number.")]


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
    ("PROGRESS", _progress),
    ("METRICS", _metrics),
    ("AGE", lambda job: age(job["created_at"])),
)


@jobs.command("ls")
def list_jobs(
    module: Annotated[list[str] | None, typer.Option(help="Only of these modules.")] = None,
    status: Annotated[list[str] | None, typer.Option(help="Only with these statuses.")] = None,
    url: Url = LOCAL,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """List jobs, the newest first."""
    with asking(url, key) as client:
        print_rows(client.jobs(module=module or None, status=status or None), _COLUMNS, as_json)


@jobs.command("show")
def show_job(job: JobNumber, url: Url = LOCAL, key: Key = None) -> None:
    """Print all that is known of a job, as JSON."""
    with asking(url, key) as client:
        print_value(client.job(job))


@jobs.command("watch")
def watch(job: JobNumber, url: Url = LOCAL, key: Key = None, as_json: AsJson = False) -> None:
    """Follow a job to its end; the exit status is 0 if it succeeded."""
    with asking(url, key) as client:
        raise typer.Exit(watch_job(client, job, as_json))


def _steer(verb: str, job: int, url: str, key: str | None, as_json: bool) -> None:
    with asking(url, key) as client:
        found = getattr(client, verb)(job)
        print_rows([found], _COLUMNS, as_json)


@jobs.command("cancel")
def cancel(job: JobNumber, url: Url = LOCAL, key: Key = None, as_json: AsJson = False) -> None:
    """Cancel a job."""
    _steer("cancel", job, url, key, as_json)


@jobs.command("pause")
def pause(job: JobNumber, url: Url = LOCAL, key: Key = None, as_json: AsJson = False) -> None:
    """Pause a job; one that runs saves a checkpoint first."""
    _steer("pause", job, url, key, as_json)


@jobs.command("resume")
def resume(job: JobNumber, url: Url = LOCAL, key: Key = None, as_json: AsJson = False) -> None:
    """Queue a paused job again."""
    _steer("resume", job, url, key, as_json)


@jobs.command("retry")
def retry(job: JobNumber, url: Url = LOCAL, key: Key = None, as_json: AsJson = False) -> None:
    """Queue a failed or cancelled job again."""
    _steer("retry", job, url, key, as_json)


@jobs.command("rm")
def remove(job: JobNumber, url: Url = LOCAL, key: Key = None) -> None:
    """Delete a finished job with its events and metrics; its checkpoints stay."""
    with asking(url, key) as client:
        client.delete_job(job)
