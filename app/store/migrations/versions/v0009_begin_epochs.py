"""The epoch at which a fit that goes on counting begins."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision: str | None = "0008"


def upgrade() -> None:
    """Add the column."""
    op.add_column("jobs", sa.Column("begin_epoch", sa.Integer))
