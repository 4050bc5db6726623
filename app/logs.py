"""Log lines of a process: text for people, or JSON lines for programs."""

from __future__ import annotations

import json
import logging
import re
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

__all__ = ["JsonLines", "LogFormat", "TextLines", "quoted_value", "send_log"]

LogFormat: TypeAlias = Literal["text", "json"]

_CONTROLS = re.compile(
    # Controls, with which clients could write lines of their own or steer a terminal; separators
    # and directions of Unicode, with which they could make a line look like another.
    "[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)
_PLAIN = re.compile(r"[^\s\"=]+")


def quoted_value(value: object) -> str:
    """Return the text of a field's value, in quotes unless it is a single word."""
    text = str(value)
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)


def _without_controls(text: str) -> str:
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


class TextLines(logging.Formatter):
    """Formats a record as one line; those of a traceback are below it, indented."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the line."""
        return _without_controls(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:
        """Return the lines of a traceback, none of which can be taken for one of the log."""
        lines = super().formatException(ei).split("\n")
        return "\n".join(f"  {_without_controls(line)}" for line in lines)


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
        # What JSON leaves as it is, terminals may obey; escaped so, it is still the same JSON.
        return _without_controls(json.dumps(line, default=str, ensure_ascii=False))


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
        handler.setFormatter(TextLines(f"{words} %(name)s: %(message)s"))
    logging.basicConfig(level=level, handlers=[handler])
    # its routine messages are not worth a line at each start
    logging.getLogger("alembic").setLevel(logging.WARNING)
