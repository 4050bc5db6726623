"""Log lines of a process: text for people, or JSON, an object a line, for programs."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Literal, TypeAlias

__all__ = ["JsonLines", "LogFormat", "send_log"]

LogFormat: TypeAlias = Literal["text", "json"]


class JsonLines(logging.Formatter):
    """Writes a record as one line of JSON.

    Args:
        executor: named in each line; None for the server itself.
    """

    def __init__(self, executor: str | None = None) -> None:
        super().__init__()
        self._executor = executor

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {
            "time": moment.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
        }
        if self._executor is not None:
            line["executor"] = self._executor
        line |= {"message": record.getMessage(), **getattr(record, "fields", {})}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


def send_log(level: str | int, form: LogFormat, executor: str | None = None) -> None:
    """Send the log lines of this process to standard error.

    Args:
        level: least severe one that is written.
        form: of a line.
        executor: whose process this is; None for the server's.
    """
    handler = logging.StreamHandler()
    if form == "json":
        handler.setFormatter(JsonLines(executor))
    else:
        words = "%(asctime)s %(levelname)s" + ("" if executor is None else " executor")
        handler.setFormatter(logging.Formatter(f"{words} %(name)s: %(message)s"))
    logging.basicConfig(level=level, handlers=[handler])
    # What it sets up before it looks for anything to do is not worth a line at each start.
    logging.getLogger("alembic").setLevel(logging.WARNING)
