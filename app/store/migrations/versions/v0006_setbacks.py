"""Why a job is being retried."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision: str | None = "0005"


def upgrade() -> None:
    """Add the column."""
    op.add_column("jobs", sa.Column("setback", sa.JSON))
