"""Automatic retries of jobs, and time limits."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

# Added one by one: a batch rewrite would drop the old table, and cascade to all events.
_COLUMNS = (
    sa.Column("is_expiring", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("retries", sa.Integer, nullable=False, server_default="0"),
    sa.Column("max_retries", sa.Integer, nullable=False, server_default="0"),
    sa.Column("not_before", sa.Double),
    sa.Column("deadline_seconds", sa.Double),
    sa.Column("deadline_at", sa.Double),
    sa.Column("timeout_seconds", sa.Double),
    sa.Column("ran_seconds", sa.Double, nullable=False, server_default="0"),
    sa.Column("claimed_at", sa.Double),
    sa.Column("expires_at", sa.Double),
)


def upgrade() -> None:
    """Add the columns; the time of running attempts counts from when they started."""
    for column in _COLUMNS:
        op.add_column("jobs", column)
    op.execute("UPDATE jobs SET claimed_at = started_at WHERE status = 'running'")
    op.create_index("jobs_by_expiry", "jobs", ["expires_at"])
