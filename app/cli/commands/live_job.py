"""A job on a terminal: its progress, its latest metrics, and a row per epoch, redrawn in place."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from app.cli.commands.printing import number

__all__ = ["LiveJob"]

_EPOCHS_SHOWN = 12
_STYLES = {"succeeded": "green", "failed": "red", "exhausted": "red", "expired": "red"}


class LiveJob:
    """Shows a job during a ``with`` block; the last state remains on the screen."""

    def __init__(self, job: Mapping[str, Any]) -> None:
        self._title = f"job {job['id']}  {job['kind']} of {job['module']}"
        self._status = str(job["status"])
        self._newest = Text()
        self._epochs: dict[int, dict[str, str]] = {}
        self._progress = Progress(
            TextColumn("{task.percentage:>3.0f} %"),
            BarColumn(bar_width=None),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            expand=True,
        )
        self._task = self._progress.add_task("", total=None)
        self._live = Live(console=Console(), get_renderable=self._draw)

    def __enter__(self) -> LiveJob:
        self._live.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._live.__exit__(*error)

    def show(self, event: Mapping[str, Any]) -> None:
        """Process an event; log lines are printed above the display."""
        kind, data = event["type"], event["data"]
        if kind == "progress":
            self._take_progress(data)
        elif kind == "metric":
            self._take_epoch(data)
        elif kind == "log":
            self._live.console.print(Text(data.get("message", json.dumps(data))))
        elif kind not in ("checkpoint", "statistics"):
            self._take_change(kind, data)
        self._live.refresh()

    def _take_progress(self, data: Mapping[str, Any]) -> None:
        if "epochs" not in data:
            return
        part = data["batch"] / data["batches"] if data.get("batches") else 0
        begin = data.get("begin_epoch", 0)
        done, total = data["epoch"] - begin + part, data["epochs"] - begin
        self._progress.update(self._task, completed=done, total=total)
        facts = [f"epoch {data['epoch'] + 1}/{data['epochs']}"]
        facts += [f"{name} {number(value)}" for name, value in data["metrics"].items()]
        if data.get("samples_per_second"):
            facts.append(f"{data['samples_per_second']:,.0f} samples/s")
        self._newest = Text("  ".join(facts))

    def _take_epoch(self, data: Mapping[str, Any]) -> None:
        row = self._epochs.setdefault(data["epoch"], {})
        for name, value in data["metrics"].items():
            row[f"{data['part']} {name}"] = number(value)
        row["seconds"] = f"{data['seconds']:.1f}"

    def _take_change(self, kind: str, data: Mapping[str, Any]) -> None:
        self._status = kind.replace("_", " ")
        error = data.get("error")
        if isinstance(error, dict):
            self._newest = Text(str(error.get("message") or json.dumps(error)), style="red")
        if kind == "succeeded":
            total = self._progress.tasks[0].total
            self._progress.update(self._task, completed=total or 1, total=total or 1)

    def _draw(self) -> RenderableType:
        status = Text(self._status, style=_STYLES.get(self._status, "bold"))
        title = Text.assemble(self._title, "  ", status)
        parts: list[RenderableType] = [title, self._progress.get_renderable()]
        if self._newest.plain:
            parts.append(self._newest)
        if self._epochs:
            parts.append(self._table())
        return Group(*parts)

    def _table(self) -> Table:
        rows = sorted(self._epochs.items())[-_EPOCHS_SHOWN:]
        columns = dict.fromkeys(name for _, row in rows for name in row if name != "seconds")
        table = Table(box=None, pad_edge=False)
        for name in ("epoch", *columns, "seconds"):
            table.add_column(name, justify="right")
        for epoch, row in rows:
            table.add_row(str(epoch + 1), *(row.get(name, "") for name in (*columns, "seconds")))
        return table
