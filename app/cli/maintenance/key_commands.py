"""The commands ``keys add``, ``keys ls`` and ``keys revoke``: what they print and return."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import typer

from app.cli.output import say_error
from app.domain.api_key import ApiKey, digest_of, key_id_of, new_key_text
from app.domain.codec import from_plain
from app.errors.tree import Invalid, ServiceError, refined
from app.files.key_file import KeyFile

__all__ = [
    "KeyOptions",
    "new_key",
    "run_keys_add",
    "run_keys_generate",
    "run_keys_ls",
    "run_keys_revoke",
]

_FAILED = 3
_DURATION = re.compile(r"([0-9]{1,6})([smhd])")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyOptions:
    """The properties of a new key, as given on the command line."""

    name: str
    scopes: Sequence[str]
    expires: str | None = None
    rate: float | None = None
    concurrency: int | None = None


def run_keys_generate(*, as_json: bool) -> int:
    """Print a new key without saving it, to be passed to a server; return the exit status."""
    text = new_key_text()
    typer.echo(json.dumps({"key": text}, indent=2) if as_json else text)
    return 0


def run_keys_add(data_dir: Path, options: KeyOptions, *, as_json: bool) -> int:
    """Make a key and print it; it cannot be shown again. Return the exit status."""
    text = new_key_text()
    try:
        key = new_key(text, options)
        KeyFile(data_dir).change(lambda keys: _with(keys, key))
    except (ServiceError, OSError) as error:
        return _fail("add the key", error)
    if as_json:
        typer.echo(json.dumps({"key": text} | _row(key), indent=2))
        return 0
    typer.echo(text)
    typer.echo(
        f"This is the key {key.id} of {key.name!r} for {', '.join(key.scopes)}, "
        f"{_end(key)}. It is shown only once and cannot be read again.",
        err=True,
    )
    return 0


def run_keys_ls(data_dir: Path, *, as_json: bool) -> int:
    """List the keys without their secrets; return the exit status."""
    try:
        keys = KeyFile(data_dir).read()
    except (ServiceError, OSError) as error:
        return _fail("list the keys", error)
    if as_json:
        typer.echo(json.dumps([_row(key) for key in keys], indent=2))
        return 0
    for key in keys:
        limits = [f"{key.rate:g}/s"] if key.rate is not None else []
        limits += [f"{key.concurrency} at a time"] if key.concurrency is not None else []
        words = [key.id, key.name, ",".join(key.scopes), _end(key), *limits]
        typer.echo("  ".join(words))
    if not keys:
        typer.echo(f"{data_dir} has no keys", err=True)
    return 0


def run_keys_revoke(data_dir: Path, names: Sequence[str], *, as_json: bool) -> int:
    """Revoke keys given by id, by name or by the key itself; return the exit status."""
    gone: list[ApiKey] = []

    def without(keys: tuple[ApiKey, ...]) -> tuple[ApiKey, ...]:
        wanted = {key_id_of(name) or name for name in names}
        unknown = wanted - {key.id for key in keys} - {key.name for key in keys}
        if unknown:
            raise Invalid("key", sorted(unknown)[0], "an id or name that 'modserve keys ls' shows")
        gone.extend(key for key in keys if {key.id, key.name} & wanted)
        return tuple(key for key in keys if key not in gone)

    try:
        KeyFile(data_dir).change(without)
    except (ServiceError, OSError) as error:
        return _fail("revoke", error)
    if as_json:
        typer.echo(json.dumps([_row(key) for key in gone], indent=2))
        return 0
    for key in gone:
        typer.echo(f"revoked {key.id} of {key.name!r}; running servers refuse it within a second")
    return 0


def new_key(text: str, options: KeyOptions) -> ApiKey:
    """Return the record of a new key, which has its digest but not the key.

    Raises:
        Invalid: a property is invalid.
    """
    now = time.time()
    fields = {
        "id": key_id_of(text),
        "name": options.name,
        "scopes": list(dict.fromkeys(options.scopes)),
        "sha256": digest_of(text),
        "created_at": now,
        "expires_at": None if options.expires is None else _end_of(options.expires, now),
        "rate": options.rate,
        "concurrency": options.concurrency,
    }
    return from_plain(ApiKey, fields)


def _with(keys: tuple[ApiKey, ...], key: ApiKey) -> tuple[ApiKey, ...]:
    if any(one.name == key.name for one in keys):
        raise Invalid("name", key.name, "a name that no other key has; revoke that key first")
    return (*keys, key)


def _end_of(text: str, now: float) -> float:
    """Return when a key expires, given a duration from now or a date."""
    span = _DURATION.fullmatch(text)
    if span is not None:
        return now + int(span[1]) * _SECONDS[span[2]]
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise Invalid(
            "expires", text, "a duration like 90d, 12h, 30m or 60s, or an ISO date"
        ) from None
    end = moment.replace(tzinfo=moment.tzinfo or UTC).timestamp()
    if end <= now:
        raise Invalid("expires", text, "a time in the future")
    return end


def _row(key: ApiKey) -> dict[str, Any]:
    return {
        "id": key.id,
        "name": key.name,
        "scopes": list(key.scopes),
        "created_at": _iso(key.created_at),
        "expires_at": None if key.expires_at is None else _iso(key.expires_at),
        "rate": key.rate,
        "concurrency": key.concurrency,
    }


def _end(key: ApiKey) -> str:
    if key.expires_at is None:
        return "never expires"
    word = "expired" if key.is_expired(time.time()) else "expires"
    return f"{word} {_iso(key.expires_at)}"


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _fail(what: str, error: BaseException) -> int:
    say_error(f"cannot {what}: {refined(error)}")
    return _FAILED
