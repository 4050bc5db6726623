"""Log lines of a process: text for people, or JSON lines for programs."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Literal, TypeAlias

__all__ = ["JsonLines", "LogFormat", "send_log"]

LogFormat: TypeAlias = Literal["text", "json"]


class JsonLines(logging.Formatter):
    """Formats a record as one line of JSON.

    Args:
        executor: name for each line; None in the server itself.
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
        level: least severe level to log.
        form: format of a line.
        executor: whose process this is; None for the server.
    """
    handler = logging.StreamHandler()
    if form == "json":
        handler.setFormatter(JsonLines(executor))
    else:
        words = "%(asctime)s %(levelname)s" + ("" if executor is None else " executor")
        handler.setFormatter(logging.Formatter(f"{words} %(name)s: %(message)s"))
    logging.basicConfig(level=level, handlers=[handler])
    # its routine messages are not worth a line at each start
    logging.getLogger("alembic").setLevel(logging.WARNING)
