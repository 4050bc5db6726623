"""Filters of lists, as SQL conditions; a filter that is empty or None matches every row."""

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
        only_models: only modules that were made from the models folder.
    """

    kinds: Collection[ModuleKind] = ()
    stages: Collection[Stage] = ()
    states: Collection[ModuleState] = ()
    executors: Collection[str] = ()
    prefix: str | None = None
    only_models: bool = False

    def conditions(self) -> Conditions:
        """Return the filter as SQL conditions."""
        model = modules.c.spec["folder", "model"].as_string()
        return [
            *([model.is_not(None)] if self.only_models else []),
            *_is_one_of(modules.c.kind, self.kinds),
            *_is_one_of(modules.c.executor, self.executors),
            *_starts_with(modules.c.name, self.prefix),
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
        """Return the filter as SQL conditions on jobs joined with their modules."""
        return [
            *_is_one_of(modules.c.name, self.modules),
            *_is_one_of(jobs.c.status, self.statuses),
            *_is_one_of(jobs.c.kind, self.kinds),
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
        """Return the filter as SQL conditions."""
        return [
            *_is_one_of(datasets.c.kind, self.kinds),
            *_starts_with(datasets.c.name, self.prefix),
            *_between(datasets.c.created_at, self.created_after, self.created_before),
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFilter:
    """Which checkpoints of a module to list.

    Attributes:
        job_ids: only checkpoints written by these jobs.
        only_whole: only checkpoints taken at the end of an epoch.
    """

    job_ids: Collection[int] = ()
    created_after: float | None = None
    created_before: float | None = None
    only_whole: bool = False

    def conditions(self) -> Conditions:
        """Return the filter as SQL conditions."""
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
        """Return the filter as SQL conditions."""
        return [
            *([events.c.job_id.in_(self.jobs)] if self.jobs else []),
            *_is_one_of(events.c.module, self.modules),
            *_is_one_of(events.c.executor, self.executors),
            *_is_one_of(events.c.type, self.types),
        ]

    def passes(self, row: EventRow) -> bool:
        """Return whether an event passes the filter."""
        return (
            (not self.jobs or row.job_id in self.jobs)
            and (not self.modules or row.module in self.modules)
            and (not self.executors or row.executor in self.executors)
            and (not self.types or row.type in self.types)
        )


def _is_one_of(column: Column[Any], values: Collection[str]) -> Conditions:
    return [column.in_([str(value) for value in values])] if values else []


def _starts_with(column: Column[Any], prefix: str | None) -> Conditions:
    # LIKE would ignore case in SQLite.
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
    """Return the SQL condition that ``ModuleRecord.stage`` is this stage."""
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
    """Return the SQL condition that ``state_of`` is this state."""
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
