"""Datasets whose files belong to the operator and stay where they are."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision: str | None = "0004"


def upgrade() -> None:
    """Add the columns; the files of existing datasets are all our own."""
    op.add_column("datasets", sa.Column("path", sa.Text))
    op.add_column("datasets", sa.Column("modified_ns", sa.BigInteger))
