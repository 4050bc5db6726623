"""The class names of an image dataset."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision: str | None = "0007"


def upgrade() -> None:
    """Add the column."""
    op.add_column("datasets", sa.Column("classes", sa.JSON))
