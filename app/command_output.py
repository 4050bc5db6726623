"""What all commands share: the option ``--json``, and errors as people or programs read them."""

from __future__ import annotations

import json
from contextvars import ContextVar
from typing import Annotated, Any

import typer

__all__ = ["AsJson", "error_as_json", "say_error"]

_as_json: ContextVar[bool] = ContextVar("as_json", default=False)


def _remember(wanted: bool) -> bool:
    _as_json.set(wanted)
    return wanted


AsJson = Annotated[
    bool,
    typer.Option("--json", callback=_remember, is_eager=True, help="Print JSON, errors too."),
]


def say_error(message: str, **more: Any) -> None:
    """Say on stderr what is wrong: in a line, or with ``--json`` as an object.

    Args:
        message: what was got, what was expected, and what to do.
        more: what else a program may want to know; what is None is left out.
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
