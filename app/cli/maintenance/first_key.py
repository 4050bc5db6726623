"""The first API key, made when a server starts without any: it would let nobody in."""

from __future__ import annotations

import os
from pathlib import Path

import typer

from app.cli.maintenance.key_commands import KeyOptions, new_key
from app.domain.api_key import ApiKey, KeyScope, new_key_text
from app.errors.tree import ServiceError, StartError, refined
from app.files.key_file import KeyFile

__all__ = ["ensure_key"]

_NAME = "admin"


def ensure_key(data_dir: Path) -> None:
    """Make an admin key if a data directory has no keys, and print it, once.

    It is printed before it is saved: if that is interrupted, the next start makes another key, and
    no key is ever valid that nobody has seen.

    Raises:
        StartError: the keys cannot be read or written.
    """
    file = KeyFile(data_dir)
    try:
        if not file.read():
            file.change(_with_first)
    except ServiceError as error:
        raise StartError(f"the API keys: {error}") from None
    except OSError as error:
        known = refined(error)
        reason = error.strerror if known is error else known
        raise StartError(
            f"no key can be saved in {data_dir}: {reason}; user {os.geteuid()}, whom the server "
            "runs as, must be able to write there"
        ) from None


def _with_first(keys: tuple[ApiKey, ...]) -> tuple[ApiKey, ...]:
    if keys:
        return keys  # another server made one first
    text = new_key_text()
    key = new_key(text, KeyOptions(name=_NAME, scopes=[KeyScope.ADMIN]))
    try:
        typer.echo(
            "This server had no API keys. Here is its admin key, which is shown only once:\n\n"
            f"  {text}\n\n"
            "'modserve keys add --name NAME --scope admin' makes another, 'modserve keys "
            f"revoke {_NAME}' revokes this one."
        )
    except OSError as error:
        raise StartError(f"the new key cannot be printed: {error.strerror}") from None
    return (key,)
