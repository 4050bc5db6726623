"""What all commands share: the option ``--json``, and how errors are printed."""

from __future__ import annotations

import json
from contextvars import ContextVar
from typing import Annotated, Any

import typer

__all__ = ["AsJson", "error_as_json", "say_error"]

_as_json: ContextVar[bool] = ContextVar("as_json", default=False)


def _remember(wanted: bool) -> bool:
    # Kept here, because an error may occur before the command, which gets the option, is called.
    _as_json.set(wanted)
    return wanted


AsJson = Annotated[
    bool,
    typer.Option("--json", callback=_remember, is_eager=True, help="Print JSON, errors too."),
]


def say_error(message: str, **more: Any) -> None:
    """Print an error to stderr: one line of text, or with ``--json`` an object.

    Args:
        message: what was got, what was expected, and what to do.
        more: further facts for programs; those that are None are left out.
    """
    if _as_json.get():
        typer.echo(error_as_json(message, **more), err=True)
    else:
        hint = more.get("hint")
        typer.echo(f"Error: {message}" + (f" ({hint})" if hint else ""), err=True)


def error_as_json(message: str, **more: Any) -> str:
    """Return an error as ``--json`` prints it."""
    given = {name: one for name, one in more.items() if one is not None}
    return json.dumps({"error": {"message": message, **given}}, ensure_ascii=False)
