"""Modules, checkpoints, datasets, jobs and events.

Plain SQL, with two placeholders that differ by database: ``{serial}`` is an automatic row id that
is never reused, ``{integer}`` a column that refers to one.
"""

from __future__ import annotations

from alembic import op

revision = "0001"
down_revision: str | None = None

_STATEMENTS = (
    """
    CREATE TABLE modules (
        id {serial},
        name VARCHAR(128) NOT NULL,
        kind VARCHAR(32) NOT NULL,
        executor VARCHAR(64) NOT NULL,
        spec JSON NOT NULL,
        bind JSON,
        init JSON,
        optimizer JSON,
        params VARCHAR(16),
        checkpoint_epoch INTEGER,
        checkpoint_batch INTEGER,
        generation INTEGER NOT NULL,
        version INTEGER NOT NULL,
        created_at DOUBLE PRECISION NOT NULL,
        updated_at DOUBLE PRECISION NOT NULL,
        UNIQUE (name),
        CONSTRAINT modules_counts CHECK (generation >= 1 AND version >= 1),
        CONSTRAINT modules_checkpoint
            CHECK ((checkpoint_epoch IS NULL) = (checkpoint_batch IS NULL)),
        CONSTRAINT modules_params
            CHECK (params IN ('init', 'set', 'checkpoint')
                   AND (params <> 'init' OR init IS NOT NULL)
                   AND (params <> 'checkpoint' OR checkpoint_epoch IS NOT NULL))
    )
    """,
    """
    CREATE TABLE symbols (
        module_id {integer} NOT NULL,
        bucket_key VARCHAR(256) NOT NULL,
        json TEXT NOT NULL,
        PRIMARY KEY (module_id, bucket_key),
        FOREIGN KEY (module_id) REFERENCES modules (id) ON DELETE CASCADE
    )
    """,
    """
    CREATE TABLE checkpoints (
        module_id {integer} NOT NULL,
        epoch INTEGER NOT NULL,
        batch INTEGER NOT NULL,
        manifest JSON NOT NULL,
        created_at DOUBLE PRECISION NOT NULL,
        PRIMARY KEY (module_id, epoch, batch),
        CONSTRAINT checkpoints_position CHECK (epoch >= 0 AND batch >= 0),
        FOREIGN KEY (module_id) REFERENCES modules (id) ON DELETE CASCADE
    )
    """,
    """
    CREATE TABLE datasets (
        id {serial},
        name VARCHAR(128) NOT NULL,
        kind VARCHAR(16) NOT NULL,
        arrays JSON NOT NULL,
        examples BIGINT,
        size BIGINT NOT NULL,
        sha256 VARCHAR(64) NOT NULL,
        created_at DOUBLE PRECISION NOT NULL,
        UNIQUE (name),
        CONSTRAINT datasets_size CHECK (size >= 0)
    )
    """,
    """
    CREATE TABLE jobs (
        id {serial},
        module_id {integer} NOT NULL,
        kind VARCHAR(16) NOT NULL,
        status VARCHAR(16) NOT NULL,
        params JSON NOT NULL,
        priority INTEGER NOT NULL,
        requested VARCHAR(16),
        attempt INTEGER NOT NULL,
        lost INTEGER NOT NULL,
        max_attempts INTEGER NOT NULL,
        lease_seconds DOUBLE PRECISION NOT NULL,
        lease_until DOUBLE PRECISION,
        server VARCHAR(64),
        executor VARCHAR(64),
        progress JSON NOT NULL,
        result JSON,
        error JSON,
        created_at DOUBLE PRECISION NOT NULL,
        started_at DOUBLE PRECISION,
        finished_at DOUBLE PRECISION,
        updated_at DOUBLE PRECISION NOT NULL,
        CONSTRAINT jobs_kind CHECK (kind IN ('fit', 'score', 'predict')),
        CONSTRAINT jobs_status CHECK (
            status IN ('queued', 'running', 'paused', 'succeeded', 'failed', 'cancelled')),
        CONSTRAINT jobs_requested CHECK (requested IN ('pause', 'cancel')),
        CONSTRAINT jobs_requested_running CHECK (requested IS NULL OR status = 'running'),
        CONSTRAINT jobs_lease CHECK (
            (status = 'running') = (lease_until IS NOT NULL)
            AND (status = 'running') = (server IS NOT NULL)),
        CONSTRAINT jobs_result CHECK ((status = 'succeeded') = (result IS NOT NULL)),
        CONSTRAINT jobs_error CHECK ((status = 'failed') = (error IS NOT NULL)),
        CONSTRAINT jobs_finished CHECK (
            (status IN ('succeeded', 'failed', 'cancelled')) = (finished_at IS NOT NULL)),
        CONSTRAINT jobs_counts CHECK (
            attempt >= 0 AND lost >= 0 AND lost <= max_attempts AND max_attempts >= 1
            AND lease_seconds > 0),
        FOREIGN KEY (module_id) REFERENCES modules (id) ON DELETE CASCADE
    )
    """,
    "CREATE INDEX jobs_in_order ON jobs (status, priority, id)",
    "CREATE INDEX jobs_of_module ON jobs (module_id, id)",
    "CREATE UNIQUE INDEX jobs_one_running ON jobs (module_id) WHERE status = 'running'",
    """
    CREATE TABLE job_datasets (
        job_id {integer} NOT NULL,
        dataset_id {integer} NOT NULL,
        PRIMARY KEY (job_id, dataset_id),
        FOREIGN KEY (job_id) REFERENCES jobs (id) ON DELETE CASCADE,
        FOREIGN KEY (dataset_id) REFERENCES datasets (id) ON DELETE CASCADE
    )
    """,
    "CREATE INDEX job_datasets_of_dataset ON job_datasets (dataset_id)",
    """
    CREATE TABLE events (
        id BIGINT NOT NULL PRIMARY KEY,
        job_id {integer} NOT NULL,
        attempt INTEGER NOT NULL,
        kind VARCHAR(32) NOT NULL,
        status VARCHAR(16) NOT NULL,
        data JSON NOT NULL,
        created_at DOUBLE PRECISION NOT NULL,
        FOREIGN KEY (job_id) REFERENCES jobs (id) ON DELETE CASCADE
    )
    """,
    "CREATE INDEX events_of_job ON events (job_id, id)",
    "CREATE TABLE counters (name VARCHAR(32) NOT NULL PRIMARY KEY, value BIGINT NOT NULL)",
    "INSERT INTO counters (name, value) VALUES ('events', 0), ('idempotency', 0)",
    """
    CREATE TABLE idempotency (
        scope VARCHAR(64) NOT NULL,
        key VARCHAR(256) NOT NULL,
        fingerprint VARCHAR(64) NOT NULL,
        resource VARCHAR(256) NOT NULL,
        created_at DOUBLE PRECISION NOT NULL,
        PRIMARY KEY (scope, key)
    )
    """,
    "CREATE INDEX idempotency_age ON idempotency (created_at)",
)

_WORDS = {
    "sqlite": {"serial": "INTEGER PRIMARY KEY AUTOINCREMENT", "integer": "INTEGER"},
    "postgresql": {
        "serial": "BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY",
        "integer": "BIGINT",
    },
}


def upgrade() -> None:
    """Make all tables."""
    dialect = op.get_bind().dialect.name
    for statement in _STATEMENTS:
        op.execute(statement.format(**_WORDS[dialect]))
