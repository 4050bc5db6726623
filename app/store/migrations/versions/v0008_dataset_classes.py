"""Names of the classes of a dataset's images."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision: str | None = "0007"


def upgrade() -> None:
    """Let a dataset have names of classes."""
    op.add_column("datasets", sa.Column("classes", sa.JSON))
