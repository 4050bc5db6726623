"""Rows to domain values and back; the one place that knows how each is laid out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Row

from app.domain.checkpoint import CheckpointManifest, CheckpointTag
from app.domain.codec import from_plain, to_plain
from app.domain.dataset import ArrayInfo, DatasetKind, DatasetRecord
from app.domain.job import EventRow, Job, JobAction, JobEvent, JobKind, JobStatus
from app.domain.module import (
    BindSpec,
    InitSpec,
    ModuleKind,
    ModuleRecord,
    OptimizerSpec,
    ParamsSource,
)
from app.domain.origin import Origin

__all__ = [
    "dataset_of",
    "dataset_values",
    "event_of",
    "job_of",
    "job_values",
    "manifest_of",
    "module_of",
    "module_values",
]

_MODULE_TUPLES = (
    "data_names",
    "label_names",
    "state_names",
    "fixed_param_names",
    "fixed_param_patterns",
    "excluded_param_patterns",
    "contexts",
)


def module_of(row: Row[Any], symbols: Mapping[str, str]) -> ModuleRecord:
    """Build a module from its row and its symbols."""
    checkpoint = None
    if row.checkpoint_epoch is not None:
        checkpoint = CheckpointTag(row.checkpoint_epoch, row.checkpoint_batch)
    return ModuleRecord(
        id=row.id,
        name=row.name,
        kind=ModuleKind(row.kind),
        symbols=symbols,
        executor=row.executor,
        bind=None if row.bind is None else from_plain(BindSpec, row.bind),
        init=None if row.init is None else from_plain(InitSpec, row.init),
        optimizer=None if row.optimizer is None else from_plain(OptimizerSpec, row.optimizer),
        params=None if row.params is None else ParamsSource(row.params),
        checkpoint=checkpoint,
        generation=row.generation,
        version=row.version,
        created_at=row.created_at,
        updated_at=row.updated_at,
        default_bucket_key=row.spec["default_bucket_key"],
        compression_params=row.spec.get("compression_params"),
        origin=_origin_of(row.spec.get("origin")),
        # What older servers did not know of, their rows do not have.
        **{name: tuple(row.spec.get(name, ())) for name in _MODULE_TUPLES},
    )


def module_values(record: ModuleRecord) -> dict[str, Any]:
    """Return the columns of a module, id and symbols apart."""
    spec: dict[str, Any] = {name: list(getattr(record, name)) for name in _MODULE_TUPLES}
    spec["default_bucket_key"] = record.default_bucket_key
    spec["origin"] = None if record.origin is None else to_plain(record.origin)
    spec["compression_params"] = _plain_dict(record.compression_params)
    return {
        "name": record.name,
        "kind": record.kind.value,
        "executor": record.executor,
        "spec": spec,
        "bind": _plain(record.bind),
        "init": _plain(record.init),
        "optimizer": _plain(record.optimizer),
        "params": None if record.params is None else record.params.value,
        "checkpoint_epoch": None if record.checkpoint is None else record.checkpoint.epoch,
        "checkpoint_batch": None if record.checkpoint is None else record.checkpoint.batch,
        "generation": record.generation,
        "version": record.version,
        "created_at": record.created_at,
        "updated_at": record.updated_at,
    }


def job_of(row: Row[Any]) -> Job:
    """Build a job from its row, which has the module's name as ``module``."""
    return Job(
        id=row.id,
        kind=JobKind(row.kind),
        module=row.module,
        status=JobStatus(row.status),
        params=row.params,
        priority=row.priority,
        requested=None if row.requested is None else JobAction(row.requested),
        attempt=row.attempt,
        lost=row.lost,
        max_attempts=row.max_attempts,
        lease_seconds=row.lease_seconds,
        lease_until=row.lease_until,
        server=row.server,
        executor=row.executor,
        progress=row.progress,
        result=row.result,
        error=row.error,
        created_at=row.created_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        updated_at=row.updated_at,
    )


def job_values(job: Job) -> dict[str, Any]:
    """Return the columns of a job, id and module apart."""
    return {
        "kind": job.kind.value,
        "status": job.status.value,
        "params": dict(job.params),
        "priority": job.priority,
        "requested": None if job.requested is None else job.requested.value,
        "attempt": job.attempt,
        "lost": job.lost,
        "max_attempts": job.max_attempts,
        "lease_seconds": job.lease_seconds,
        "lease_until": job.lease_until,
        "server": job.server,
        "executor": job.executor,
        "progress": dict(job.progress),
        "result": None if job.result is None else dict(job.result),
        "error": None if job.error is None else dict(job.error),
        "created_at": job.created_at,
        "started_at": job.started_at,
        "finished_at": job.finished_at,
        "updated_at": job.updated_at,
    }


def event_of(row: Row[Any]) -> EventRow:
    """Build an event from its row."""
    return EventRow(
        id=row.id,
        job_id=row.job_id,
        attempt=row.attempt,
        kind=JobEvent(row.kind),
        status=JobStatus(row.status),
        data=row.data,
        created_at=row.created_at,
    )


def dataset_of(row: Row[Any]) -> DatasetRecord:
    """Build a dataset from its row."""
    return DatasetRecord(
        id=row.id,
        name=row.name,
        kind=DatasetKind(row.kind),
        arrays=tuple(from_plain(ArrayInfo, array) for array in row.arrays),
        examples=row.examples,
        size=row.size,
        sha256=row.sha256,
        created_at=row.created_at,
    )


def dataset_values(record: DatasetRecord) -> dict[str, Any]:
    """Return the columns of a dataset, id apart."""
    return {
        "name": record.name,
        "kind": record.kind.value,
        "arrays": [to_plain(array) for array in record.arrays],
        "examples": record.examples,
        "size": record.size,
        "sha256": record.sha256,
        "created_at": record.created_at,
    }


def manifest_of(row: Row[Any]) -> CheckpointManifest:
    """Build a checkpoint's manifest from its row."""
    return from_plain(CheckpointManifest, row.manifest)


def _origin_of(plain: Any) -> Origin | None:
    return None if plain is None else from_plain(Origin, plain)


def _plain_dict(value: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if value is None else dict(value)


def _plain(value: BindSpec | InitSpec | OptimizerSpec | None) -> Any:
    return None if value is None else to_plain(value)
