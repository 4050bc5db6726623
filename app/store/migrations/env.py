"""Alembic's environment: runs the revisions in the connection and transaction it is given."""

from __future__ import annotations

from alembic import context

from app.store.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,  # SQLite can only alter a table by rewriting it
)
with context.begin_transaction():
    context.run_migrations()
