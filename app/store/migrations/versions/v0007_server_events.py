"""Events about modules and executors, not only about jobs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision: str | None = "0006"

_NO_LONGER_NEEDED = (("job_id", sa.BigInteger), ("attempt", sa.Integer), ("status", sa.String(16)))


def upgrade() -> None:
    """Make an event's job optional, and store the names of its module and executor."""
    with op.batch_alter_table("events") as events:
        for name, type_ in _NO_LONGER_NEEDED:
            events.alter_column(name, existing_type=type_, nullable=True)
        events.alter_column("kind", existing_type=sa.String(32), new_column_name="type")
        events.add_column(sa.Column("module", sa.String(128)))
        events.add_column(sa.Column("executor", sa.String(64)))
    op.execute(
        "UPDATE events SET"
        " module = (SELECT modules.name FROM modules JOIN jobs ON jobs.module_id = modules.id"
        " WHERE jobs.id = events.job_id),"
        " executor = (SELECT jobs.executor FROM jobs WHERE jobs.id = events.job_id)"
    )
