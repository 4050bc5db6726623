"""Loggers with short, colored lines (``mx.log``)."""

from __future__ import annotations

import logging
import warnings
from logging import CRITICAL, DEBUG, ERROR, INFO, NOTSET, WARNING

__all__ = [
    "CRITICAL",
    "DEBUG",
    "ERROR",
    "INFO",
    "NOTSET",
    "WARNING",
    "getLogger",
    "get_logger",
]

_RED, _GREEN, _BLUE = "\x1b[31m", "\x1b[32m", "\x1b[34m"
_PLACE = "%(asctime)s %(process)d %(pathname)s:%(funcName)s:%(lineno)d]\x1b[0m %(message)s"


class _Lines(logging.Formatter):
    """Formats the level as a letter, then time, place and message."""

    def __init__(self) -> None:
        super().__init__(datefmt="%m%d %H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        color = _RED if record.levelno >= WARNING else _GREEN if record.levelno >= INFO else _BLUE
        line = logging.Formatter(f"{color}{record.levelname[0]}{_PLACE}", self.datefmt)
        return line.format(record)


def get_logger(
    name: str | None = None,
    filename: str | None = None,
    filemode: str | None = None,
    level: int = WARNING,
) -> logging.Logger:
    """Return a logger that writes to a file or, in colored lines, to the terminal.

    Args:
        name: name of the logger; None is the root logger, which is not changed.
        filename: file to write to.
        filemode: mode in which it is opened; None appends.
        level: lowest level that is written.
    """
    logger = logging.getLogger(name)
    if name is None or getattr(logger, "_init_done", False):
        return logger
    logger._init_done = True  # type: ignore[attr-defined]
    handler: logging.Handler
    if filename:
        handler = logging.FileHandler(filename, filemode or "a")
    else:
        handler = logging.StreamHandler()
        handler.setFormatter(_Lines())
    logger.addHandler(handler)
    logger.setLevel(level)
    return logger


def getLogger(
    name: str | None = None,
    filename: str | None = None,
    filemode: str | None = None,
    level: int = WARNING,
) -> logging.Logger:
    """Return ``get_logger(...)``; the old name."""
    warnings.warn(
        "getLogger is deprecated, Use get_logger instead.", DeprecationWarning, stacklevel=2
    )
    return get_logger(name, filename, filemode, level)
