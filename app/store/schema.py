"""The tables as the queries see them. ``migrations`` creates them; a test compares the two."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    false,
)

__all__ = [
    "checkpoints",
    "counters",
    "data_directory",
    "datasets",
    "events",
    "idempotency",
    "job_datasets",
    "jobs",
    "metadata",
    "modules",
    "restorations",
    "symbols",
]

metadata = MetaData()

_Id = BigInteger().with_variant(Integer, "sqlite")  # SQLite numbers INTEGER keys by itself

modules = Table(
    "modules",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("name", String(128), nullable=False, unique=True),
    Column("kind", String(32), nullable=False),
    Column("executor", String(64), nullable=False),
    Column("spec", JSON, nullable=False),
    Column("bind", JSON(none_as_null=True)),
    Column("init", JSON(none_as_null=True)),
    Column("optimizer", JSON(none_as_null=True)),
    Column("params", String(16)),
    Column("checkpoint_epoch", Integer),
    Column("checkpoint_batch", Integer),
    Column("generation", Integer, nullable=False),
    Column("version", Integer, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("updated_at", Double, nullable=False),
    Column("durable", Boolean, nullable=False),
    Column("lost", Boolean, nullable=False),
    Column("saved_states", Boolean, nullable=False),
    CheckConstraint("generation >= 1 AND version >= 1", name="modules_counts"),
    CheckConstraint(
        "(checkpoint_epoch IS NULL) = (checkpoint_batch IS NULL)", name="modules_checkpoint"
    ),
    CheckConstraint(
        "params IN ('init', 'set', 'checkpoint')"
        " AND (params <> 'init' OR init IS NOT NULL)"
        " AND (params <> 'checkpoint' OR checkpoint_epoch IS NOT NULL)",
        name="modules_params",
    ),
)

restorations = Table(
    "restorations",
    metadata,
    Column("module_id", ForeignKey("modules.id", ondelete="CASCADE"), primary_key=True),
    Column("is_under_way", Boolean, nullable=False),
    Column("deaths", Integer, nullable=False),
    Column("restored_epoch", Integer),
    Column("restored_batch", Integer),
    Column("warning", Text),
    Column("fault", Text),
)

symbols = Table(
    "symbols",
    metadata,
    Column("module_id", ForeignKey("modules.id", ondelete="CASCADE"), primary_key=True),
    Column("bucket_key", String(256), primary_key=True),
    Column("json", Text, nullable=False),
)

checkpoints = Table(
    "checkpoints",
    metadata,
    Column("module_id", ForeignKey("modules.id", ondelete="CASCADE"), primary_key=True),
    Column("epoch", Integer, primary_key=True),
    Column("batch", Integer, primary_key=True),
    Column("manifest", JSON, nullable=False),
    Column("created_at", Double, nullable=False),
    CheckConstraint("epoch >= 0 AND batch >= 0", name="checkpoints_position"),
)

datasets = Table(
    "datasets",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("name", String(128), nullable=False, unique=True),
    Column("kind", String(16), nullable=False),
    Column("arrays", JSON, nullable=False),
    Column("examples", BigInteger),
    Column("size", BigInteger, nullable=False),
    Column("sha256", String(64), nullable=False),
    Column("created_at", Double, nullable=False),
    Column("path", Text),
    Column("modified_ns", BigInteger),
    Column("classes", JSON(none_as_null=True)),
    CheckConstraint("size >= 0", name="datasets_size"),
)

jobs = Table(
    "jobs",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("module_id", ForeignKey("modules.id", ondelete="CASCADE"), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("status", String(16), nullable=False),
    Column("params", JSON, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("requested", String(16)),
    Column("attempt", Integer, nullable=False),
    Column("lost", Integer, nullable=False),
    Column("max_attempts", Integer, nullable=False),
    Column("lease_seconds", Double, nullable=False),
    Column("lease_until", Double),
    Column("server", String(64)),
    Column("executor", String(64)),
    Column("progress", JSON, nullable=False),
    Column("result", JSON(none_as_null=True)),
    Column("error", JSON(none_as_null=True)),
    Column("created_at", Double, nullable=False),
    Column("started_at", Double),
    Column("finished_at", Double),
    Column("updated_at", Double, nullable=False),
    Column("is_expiring", Boolean, nullable=False, server_default=false()),
    Column("retries", Integer, nullable=False, server_default="0"),
    Column("max_retries", Integer, nullable=False, server_default="0"),
    Column("not_before", Double),
    Column("deadline_seconds", Double),
    Column("deadline_at", Double),
    Column("timeout_seconds", Double),
    Column("ran_seconds", Double, nullable=False, server_default="0"),
    Column("claimed_at", Double),
    Column("expires_at", Double),
    Column("setback", JSON(none_as_null=True)),
    Column("begin_epoch", Integer),
    CheckConstraint("kind IN ('fit', 'score', 'predict')", name="jobs_kind"),
    CheckConstraint(
        "status IN ('queued', 'running', 'paused', 'succeeded', 'failed', 'cancelled')",
        name="jobs_status",
    ),
    CheckConstraint("requested IN ('pause', 'cancel')", name="jobs_requested"),
    CheckConstraint("requested IS NULL OR status = 'running'", name="jobs_requested_running"),
    CheckConstraint(
        "(status = 'running') = (lease_until IS NOT NULL)"
        " AND (status = 'running') = (server IS NOT NULL)",
        name="jobs_lease",
    ),
    CheckConstraint("(status = 'succeeded') = (result IS NOT NULL)", name="jobs_result"),
    CheckConstraint("(status = 'failed') = (error IS NOT NULL)", name="jobs_error"),
    CheckConstraint(
        "(status IN ('succeeded', 'failed', 'cancelled')) = (finished_at IS NOT NULL)",
        name="jobs_finished",
    ),
    CheckConstraint(
        "attempt >= 0 AND lost >= 0 AND lost <= max_attempts AND max_attempts >= 1"
        " AND lease_seconds > 0",
        name="jobs_counts",
    ),
    Index("jobs_in_order", "status", "priority", "id"),
    Index("jobs_of_module", "module_id", "id"),
    Index("jobs_by_expiry", "expires_at"),
)

Index(
    "jobs_one_running",
    jobs.c.module_id,
    unique=True,
    sqlite_where=jobs.c.status == "running",
    postgresql_where=jobs.c.status == "running",
)

job_datasets = Table(
    "job_datasets",
    metadata,
    Column("job_id", ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("dataset_id", ForeignKey("datasets.id", ondelete="CASCADE"), primary_key=True),
    Index("job_datasets_of_dataset", "dataset_id"),
)

events = Table(
    "events",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("job_id", ForeignKey("jobs.id", ondelete="CASCADE")),
    Column("attempt", Integer),
    Column("type", String(32), nullable=False),
    Column("status", String(16)),
    Column("data", JSON, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("module", String(128)),
    Column("executor", String(64)),
    Index("events_of_job", "job_id", "id"),
)

counters = Table(
    "counters",
    metadata,
    Column("name", String(32), primary_key=True),
    Column("value", BigInteger, nullable=False),
)

data_directory = Table(
    "data_directory",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("directory", String(64), nullable=False),
    CheckConstraint("number = 1", name="data_directory_one"),
)

idempotency = Table(
    "idempotency",
    metadata,
    Column("scope", String(64), primary_key=True),
    Column("key", String(256), primary_key=True),
    Column("fingerprint", String(64), nullable=False),
    Column("resource", String(256), nullable=False),
    Column("created_at", Double, nullable=False),
    Index("idempotency_age", "created_at"),
)
