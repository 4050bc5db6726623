"""Which data directory the database belongs to."""

from __future__ import annotations

from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Create the table; it has no row until a server claims a directory."""
    op.execute(
        """
        CREATE TABLE data_directory (
            number INTEGER NOT NULL PRIMARY KEY,
            directory VARCHAR(64) NOT NULL,
            CONSTRAINT data_directory_one CHECK (number = 1)
        )
        """
    )
