"""Requests that were already answered, by the idempotency key that the client sent."""

from __future__ import annotations

from sqlalchemy import Connection, delete, insert, select

from app.errors.tree import IdempotencyMismatch
from app.store.schema import counters, idempotency

__all__ = ["forget_key_of", "forget_keys_before", "recall", "remember"]


def recall(connection: Connection, scope: str, key: str, fingerprint: str) -> str | None:
    """Return what an earlier request with this key created, None if the key is new.

    Call this first in the transaction that goes on to create the resource.

    Args:
        scope: kind of the resource: ``"jobs"`` or ``"modules"``.
        key: the client's ``Idempotency-Key``.
        fingerprint: SHA-256 of the request.

    Raises:
        IdempotencyMismatch: the key was used for a different request.
    """
    # If two requests with the same key arrive together, the second waits here for the first.
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
            "Idempotency-Key", key, "a key that no other request has used", "send a new key"
        )
    return str(row.resource)


def remember(
    connection: Connection, scope: str, key: str, fingerprint: str, resource: str, now: float
) -> None:
    """Record what a request created, in the transaction that creates it."""
    connection.execute(
        insert(idempotency).values(
            scope=scope, key=key, fingerprint=fingerprint, resource=resource, created_at=now
        )
    )


def forget_key_of(connection: Connection, scope: str, resource: str) -> None:
    """Delete the key that created a resource, because the resource itself is being deleted."""
    connection.execute(
        delete(idempotency).where(idempotency.c.scope == scope, idempotency.c.resource == resource)
    )


def forget_keys_before(connection: Connection, moment: float) -> None:
    """Delete keys that were recorded before this time."""
    connection.execute(delete(idempotency).where(idempotency.c.created_at < moment))
