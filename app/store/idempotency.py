"""Requests that were answered before, by the key their client gave them."""

from __future__ import annotations

from sqlalchemy import Connection, delete, insert, select

from app.errors import IdempotencyMismatch
from app.store.schema import counters, idempotency

__all__ = ["forget_key_of", "forget_keys_before", "recall", "remember"]


def recall(connection: Connection, scope: str, key: str, fingerprint: str) -> str | None:
    """Return what a request with this key created, None if the key is new.

    Call it first in the transaction that goes on to create.

    Args:
        scope: what is created: ``"jobs"``, ``"modules"``.
        key: the client's ``Idempotency-Key``.
        fingerprint: SHA-256 of what is asked for.

    Raises:
        IdempotencyMismatch: the key came with another request.
    """
    # Of two requests with one key that come together, the second waits here for the first.
    connection.execute(
        select(counters.c.value).where(counters.c.name == "idempotency").with_for_update()
    )
    row = connection.execute(
        select(idempotency).where(idempotency.c.scope == scope, idempotency.c.key == key)
    ).one_or_none()
    if row is None:
        return None
    if row.fingerprint != fingerprint:
        raise IdempotencyMismatch(
            "Idempotency-Key", key, "a key not used for another request", "send a new key"
        )
    return str(row.resource)


def remember(
    connection: Connection, scope: str, key: str, fingerprint: str, resource: str, now: float
) -> None:
    """Note what a request created, in the transaction that creates it."""
    connection.execute(
        insert(idempotency).values(
            scope=scope, key=key, fingerprint=fingerprint, resource=resource, created_at=now
        )
    )


def forget_key_of(connection: Connection, scope: str, resource: str) -> None:
    """Free the key by which a resource was created, because the resource is being deleted."""
    connection.execute(
        delete(idempotency).where(idempotency.c.scope == scope, idempotency.c.resource == resource)
    )


def forget_keys_before(connection: Connection, moment: float) -> None:
    """Remove keys older than a moment."""
    connection.execute(delete(idempotency).where(idempotency.c.created_at < moment))
