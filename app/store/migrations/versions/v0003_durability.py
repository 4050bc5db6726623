"""Which modules have parameters only in memory, and how the restoration of modules went."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_SERIALS = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Add the columns; whether a module is durable follows from its other columns."""
    for name in ("durable", "lost", "saved_states"):
        default = sa.true() if name == "durable" else sa.false()
        column = sa.Column(name, sa.Boolean, nullable=False, server_default=default)
        op.add_column("modules", column)
    op.create_table(
        "restorations",
        sa.Column(
            "module_id", _SERIALS, sa.ForeignKey("modules.id", ondelete="CASCADE"), primary_key=True
        ),
        sa.Column("is_under_way", sa.Boolean, nullable=False),
        sa.Column("deaths", sa.Integer, nullable=False),
        sa.Column("restored_epoch", sa.Integer),
        sa.Column("restored_batch", sa.Integer),
        sa.Column("warning", sa.Text),
        sa.Column("fault", sa.Text),
    )
    _judge_modules()


def _judge_modules() -> None:
    modules = sa.table(
        "modules",
        sa.column("id", sa.Integer),
        sa.column("params", sa.String),
        sa.column("init", sa.JSON(none_as_null=True)),
        sa.column("optimizer", sa.JSON(none_as_null=True)),
        sa.column("durable", sa.Boolean),
        sa.column("saved_states", sa.Boolean),
    )
    connection = op.get_bind()
    for row in list(connection.execute(sa.select(modules))):
        is_unseeded = row.params == "init" and (row.init or {}).get("seed") is None
        values = {
            "durable": row.params != "set" and not is_unseeded,
            "saved_states": row.params == "checkpoint" and row.optimizer is not None,
        }
        connection.execute(sa.update(modules).where(modules.c.id == row.id).values(**values))
