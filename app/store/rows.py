"""Conversion between rows and domain values; the only place that knows the layout of each."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import Row

from app.domain.archive import ArchiveFacts
from app.domain.checkpoint import CheckpointManifest, CheckpointTag
from app.domain.codec import from_plain, to_plain
from app.domain.dataset import ArrayInfo, DatasetKind, DatasetRecord
from app.domain.declaration import FolderModel
from app.domain.events import EVENT_TYPES, EventRow
from app.domain.job import Job, JobAction, JobKind, JobStatus
from app.domain.module import (
    BindSpec,
    InitSpec,
    ModuleKind,
    ModuleRecord,
    OptimizerSpec,
    ParamsSource,
)
from app.domain.origin import Origin
from app.domain.serving import ServingSpec
from app.domain.transforms import stored_transform
from app.domain.upload_warnings import UploadWarning
from app.domain.versions import VersionSpec
from app.store.damage import mapping, names_row

__all__ = [
    "dataset_of",
    "dataset_values",
    "event_of",
    "job_columns",
    "job_of",
    "job_values",
    "manifest_of",
    "module_of",
    "module_values",
    "salvaged_job",
]

_FROM_FILES = "the next start of the server writes it anew from its files"
_MODULE_TUPLES = (
    "data_names",
    "label_names",
    "state_names",
    "fixed_param_names",
    "fixed_param_patterns",
    "excluded_param_patterns",
    "contexts",
)


@names_row("module", "name", _FROM_FILES)
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
        durable=row.durable,
        lost=row.lost,
        saved_states=row.saved_states,
        generation=row.generation,
        version=row.version,
        created_at=row.created_at,
        updated_at=row.updated_at,
        default_bucket_key=row.spec["default_bucket_key"],
        compression_params=row.spec.get("compression_params"),
        origin=_origin_of(row.spec.get("origin")),
        folder=_folder_of(row.spec.get("folder")),
        archive=_archive_of(row.spec.get("archive")),
        warnings=tuple(from_plain(UploadWarning, one) for one in row.spec.get("warnings", ())),
        serving=from_plain(ServingSpec, row.spec.get("serving", {})),
        transforms={
            name: stored_transform(one) for name, one in row.spec.get("transforms", {}).items()
        },
        labels={output: tuple(names) for output, names in row.spec.get("labels", {}).items()},
        versions=from_plain(VersionSpec, row.spec.get("versions", {})),
        highest_deleted=row.spec.get("highest_deleted"),
        # Rows that an older server wrote lack newer fields.
        **{name: tuple(row.spec.get(name, ())) for name in _MODULE_TUPLES},
    )


def module_values(record: ModuleRecord) -> dict[str, Any]:
    """Return a module's columns, without id and symbols."""
    spec: dict[str, Any] = {name: list(getattr(record, name)) for name in _MODULE_TUPLES}
    spec["default_bucket_key"] = record.default_bucket_key
    spec["origin"] = None if record.origin is None else to_plain(record.origin)
    spec["folder"] = None if record.folder is None else to_plain(record.folder)
    spec["archive"] = None if record.archive is None else to_plain(record.archive)
    spec["warnings"] = [to_plain(one) for one in record.warnings]
    spec["transforms"] = {name: to_plain(one) for name, one in record.transforms.items()}
    spec["labels"] = {output: list(names) for output, names in record.labels.items()}
    spec["serving"] = to_plain(record.serving)
    spec["versions"] = to_plain(record.versions)
    spec["highest_deleted"] = record.highest_deleted
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
        "durable": record.durable,
        "lost": record.lost,
        "saved_states": record.saved_states,
        "generation": record.generation,
        "version": record.version,
        "created_at": record.created_at,
        "updated_at": record.updated_at,
    }


@names_row("job", "id", "delete the job; one that is unfinished fails by itself")
def job_of(row: Row[Any]) -> Job:
    """Build a job from its row, which has the module's name as ``module``."""
    plain = {name: getattr(row, name) for name in _JOB_FIELDS}
    for name in _JOB_OBJECTS:
        if plain[name] is not None:
            mapping(plain[name])
    return _job(row, plain)


def salvaged_job(row: Row[Any]) -> Job:
    """Build a job from its row, with something harmless for each column that is damaged."""
    plain = {name: getattr(row, name) for name in _JOB_FIELDS}
    for name in _JOB_OBJECTS:
        if not isinstance(plain[name], dict | None):
            plain[name] = _INSTEAD.get(name)
            if name == "params":  # a person may still read there what was asked
                plain[name] = {"damaged": str(getattr(row, name))}
    return _job(row, plain)


def _job(row: Row[Any], plain: Mapping[str, Any]) -> Job:
    return Job(
        **plain,
        kind=JobKind(row.kind),
        status=JobStatus(row.status),
        requested=None if row.requested is None else JobAction(row.requested),
    )


def job_values(job: Job) -> dict[str, Any]:
    """Return a job's columns, without id and module."""
    return job_columns(job, {field.name for field in dataclasses.fields(Job)} - {"id"})


def job_columns(job: Job, fields: Collection[str]) -> dict[str, Any]:
    """Return the columns that hold these fields of a job, without its module."""
    columns = {name: getattr(job, name) for name in fields if name != "module"}
    if not _EXPIRY.isdisjoint(fields):
        columns["expires_at"] = job.expires_at
    return columns


_JOB_FIELDS = tuple(
    field.name
    for field in dataclasses.fields(Job)
    if field.name not in {"kind", "status", "requested"}
)
_JOB_OBJECTS = ("params", "progress", "result", "error", "setback")
_INSTEAD: Mapping[str, Any] = {"progress": {}}
_EXPIRY = frozenset({"status", "deadline_at", "timeout_seconds", "claimed_at", "ran_seconds"})
"""The fields that determine when a job runs out of time."""


@names_row("event", "id", "the event is left out")
def event_of(row: Row[Any]) -> EventRow:
    """Build an event from its row."""
    return EventRow(
        id=row.id,
        type=EVENT_TYPES[row.type],
        job_id=row.job_id,
        module=row.module,
        executor=row.executor,
        attempt=row.attempt,
        status=None if row.status is None else JobStatus(row.status),
        data=mapping(row.data),
        created_at=row.created_at,
    )


@names_row("dataset", "name", _FROM_FILES)
def dataset_of(row: Row[Any]) -> DatasetRecord:
    """Build a dataset from its row."""
    return DatasetRecord(
        id=row.id,
        name=row.name,
        kind=DatasetKind(row.kind),
        arrays=tuple(from_plain(ArrayInfo, array) for array in row.arrays),
        examples=row.examples,
        classes=tuple(row.classes or ()),
        size=row.size,
        sha256=row.sha256,
        created_at=row.created_at,
        path=row.path,
        modified_ns=row.modified_ns,
    )


def dataset_values(record: DatasetRecord) -> dict[str, Any]:
    """Return a dataset's columns, without id."""
    return {
        "name": record.name,
        "kind": record.kind.value,
        "arrays": [to_plain(array) for array in record.arrays],
        "examples": record.examples,
        "classes": list(record.classes) or None,
        "size": record.size,
        "sha256": record.sha256,
        "created_at": record.created_at,
        "path": record.path,
        "modified_ns": record.modified_ns,
    }


@names_row("checkpoint of epoch", "epoch", _FROM_FILES)
def manifest_of(row: Row[Any]) -> CheckpointManifest:
    """Build a checkpoint's manifest from its row."""
    return from_plain(CheckpointManifest, row.manifest)


def _folder_of(plain: Any) -> FolderModel | None:
    return None if plain is None else from_plain(FolderModel, plain)


def _archive_of(plain: Any) -> ArchiveFacts | None:
    return None if plain is None else from_plain(ArchiveFacts, plain)


def _origin_of(plain: Any) -> Origin | None:
    return None if plain is None else from_plain(Origin, plain)


def _plain_dict(value: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if value is None else dict(value)


def _plain(value: BindSpec | InitSpec | OptimizerSpec | None) -> Any:
    return None if value is None else to_plain(value)
