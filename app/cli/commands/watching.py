"""Follow a job: as a live picture on a terminal, otherwise as one line per event."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import typer

from app.cli.commands.printing import number

if TYPE_CHECKING:
    from app.client import Client

__all__ = ["watch_job"]

_INTERRUPTED = 130


class _Show(Protocol):
    """Shows an event of the followed job."""

    def __call__(self, event: Mapping[str, Any]) -> None: ...


def watch_job(client: Client, job: int, as_json: bool) -> int:
    """Show the events of a job until it ends; return 0 if it succeeded, else 1.

    Ctrl-C only ends the watching.
    """
    try:
        with _shower(client, job, as_json) as show:
            for event in client.job_events(job):
                show(event)
    except KeyboardInterrupt:
        typer.echo(
            f"job {job} continues; 'modserve jobs watch {job}' follows it, 'modserve jobs cancel "
            f"{job}' ends it",
            err=True,
        )
        return _INTERRUPTED
    return 0 if client.job(job)["status"] == "succeeded" else 1


@contextmanager
def _shower(client: Client, job: int, as_json: bool) -> Iterator[_Show]:
    if as_json:
        yield lambda event: typer.echo(json.dumps(event))
    elif sys.stdout.isatty():
        from app.cli.commands.live_job import LiveJob  # here, because rich takes long to import

        with LiveJob(client.job(job)) as picture:
            yield picture.show
    else:
        with _bar() as move:
            yield lambda event: _print_line(event, move)


class _Bar(Protocol):
    """Shows the progress of a job."""

    def __call__(self, done: float, total: float, text: str) -> None: ...


def _print_line(event: Mapping[str, Any], move: _Bar) -> None:
    kind, data = event["type"], event["data"]
    if kind == "progress" and "epochs" in data:
        begin = data.get("begin_epoch", 0)
        part = data["batch"] / data["batches"] if data.get("batches") else 0
        rate = data.get("samples_per_second")
        text = f"{_metrics(data['metrics'])}  {rate:,.0f} samples/s" if rate else ""
        move(data["epoch"] - begin + part, data["epochs"] - begin, text)
    elif kind == "metric":
        part = f"epoch {data['epoch'] + 1} {data['part']}"
        typer.echo(f"{part:<20} {_metrics(data['metrics'])}  {data['seconds']:.1f} s")
    elif kind == "log":
        typer.echo(data.get("message", json.dumps(data)))
    elif kind in ("failed", "exhausted", "expired"):
        error = data.get("error") or data
        typer.echo(f"{kind}: {error.get('message') or error.get('detail') or json.dumps(error)}")
    elif kind not in ("progress", "checkpoint", "statistics"):
        typer.echo(kind.replace("_", " "))


def _metrics(found: Mapping[str, float | None]) -> str:
    return "  ".join(f"{name} {number(value)}" for name, value in found.items())


@contextmanager
def _bar() -> Iterator[_Bar]:
    if not sys.stderr.isatty():
        yield lambda done, total, text: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.percentage:>3.0f} %"), BarColumn(), TimeRemainingColumn())
    with Progress(
        *columns, TextColumn("{task.description}"), console=Console(stderr=True), transient=True
    ) as progress:
        task = progress.add_task("", total=None)
        yield lambda done, total, text: progress.update(
            task, completed=done, total=total, description=text
        )
