"""Which rows of a list are wanted, as SQL; what is empty or None does not matter."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Column, ColumnElement, and_, false, func, not_, or_, select

from app.domain.dataset import DatasetKind
from app.domain.events import EventRow, EventType
from app.domain.job import JobKind, JobStatus
from app.domain.module import ModuleKind, Stage
from app.domain.restoration import MOST_DEATHS, ModuleState
from app.store.schema import checkpoints, datasets, events, jobs, modules, restorations

__all__ = ["CheckpointFilter", "DatasetFilter", "EventFilter", "JobFilter", "ModuleFilter"]

Conditions = list[ColumnElement[bool]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleFilter:
    """Which modules to list.

    Attributes:
        only_models: those alone that were made of models of the models folder.
    """

    kinds: Collection[ModuleKind] = ()
    stages: Collection[Stage] = ()
    states: Collection[ModuleState] = ()
    executors: Collection[str] = ()
    prefix: str | None = None
    only_models: bool = False

    def conditions(self) -> Conditions:
        """Return the filter as SQL."""
        model = modules.c.spec["folder", "model"].as_string()
        return [
            *([model.is_not(None)] if self.only_models else []),
            *_among(modules.c.kind, self.kinds),
            *_among(modules.c.executor, self.executors),
            *_begins(modules.c.name, self.prefix),
            *_any_of(_at_stage(one) for one in self.stages),
            *_any_of(_in_state(one) for one in self.states),
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs to list."""

    modules: Collection[str] = ()
    statuses: Collection[JobStatus] = ()
    kinds: Collection[JobKind] = ()
    created_after: float | None = None
    created_before: float | None = None

    def conditions(self) -> Conditions:
        """Return the filter as SQL, on jobs joined with their modules."""
        return [
            *_among(modules.c.name, self.modules),
            *_among(jobs.c.status, self.statuses),
            *_among(jobs.c.kind, self.kinds),
            *_between(jobs.c.created_at, self.created_after, self.created_before),
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetFilter:
    """Which datasets to list."""

    kinds: Collection[DatasetKind] = ()
    prefix: str | None = None
    created_after: float | None = None
    created_before: float | None = None

    def conditions(self) -> Conditions:
        """Return the filter as SQL."""
        return [
            *_among(datasets.c.kind, self.kinds),
            *_begins(datasets.c.name, self.prefix),
            *_between(datasets.c.created_at, self.created_after, self.created_before),
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFilter:
    """Which checkpoints of a module to list.

    Attributes:
        job_ids: of the jobs that wrote them.
        only_whole: none within an epoch.
    """

    job_ids: Collection[int] = ()
    created_after: float | None = None
    created_before: float | None = None
    only_whole: bool = False

    def conditions(self) -> Conditions:
        """Return the filter as SQL."""
        found = _between(checkpoints.c.created_at, self.created_after, self.created_before)
        if self.job_ids:
            found.append(checkpoints.c.manifest["job_id"].as_integer().in_(self.job_ids))
        if self.only_whole:
            found.append(checkpoints.c.batch == 0)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """Which events to send."""

    jobs: Collection[int] = ()
    modules: Collection[str] = ()
    executors: Collection[str] = ()
    types: Collection[EventType] = ()

    def conditions(self) -> Conditions:
        """Return the filter as SQL."""
        return [
            *([events.c.job_id.in_(self.jobs)] if self.jobs else []),
            *_among(events.c.module, self.modules),
            *_among(events.c.executor, self.executors),
            *_among(events.c.type, self.types),
        ]

    def passes(self, row: EventRow) -> bool:
        """Return whether an event is to be sent."""
        return (
            (not self.jobs or row.job_id in self.jobs)
            and (not self.modules or row.module in self.modules)
            and (not self.executors or row.executor in self.executors)
            and (not self.types or row.type in self.types)
        )


def _among(column: Column[Any], values: Collection[str]) -> Conditions:
    return [column.in_([str(value) for value in values])] if values else []


def _begins(column: Column[Any], prefix: str | None) -> Conditions:
    # LIKE of SQLite takes small letters for large ones.
    return [func.substr(column, 1, len(prefix)) == prefix] if prefix else []


def _between(column: Column[Any], after: float | None, before: float | None) -> Conditions:
    found: Conditions = []
    if after is not None:
        found.append(column > after)
    if before is not None:
        found.append(column < before)
    return found


def _any_of(conditions: Any) -> Conditions:
    found = list(conditions)
    return [or_(false(), *found)] if found else []


def _at_stage(stage: Stage) -> ColumnElement[bool]:
    """Return what ``ModuleRecord.stage`` says, of rows."""
    is_bound = modules.c.bind.is_not(None)
    has_params = and_(modules.c.params.is_not(None), not_(modules.c.lost))
    trains = and_(modules.c.optimizer.is_not(None), modules.c.bind["for_training"].as_boolean())
    return {
        Stage.CREATED: not_(is_bound),
        Stage.BOUND: and_(is_bound, not_(has_params)),
        Stage.INITIALIZED: and_(is_bound, has_params, not_(trains)),
        Stage.READY: and_(is_bound, has_params, trains),
    }[stage]


def _in_state(state: ModuleState) -> ColumnElement[bool]:
    """Return what ``state_of`` says, of rows."""
    failed = modules.c.id.in_(
        select(restorations.c.module_id).where(
            or_(restorations.c.fault.is_not(None), restorations.c.deaths >= MOST_DEATHS)
        )
    )
    return {
        ModuleState.FAILED: failed,
        ModuleState.PARAMS_LOST: and_(not_(failed), modules.c.lost),
        ModuleState.READY: and_(not_(failed), not_(modules.c.lost)),
    }[state]
