"""Events of jobs, modules and executors, as kept in the event log."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, TypeAlias

from app.domain.job import JobEvent, JobStatus
from app.domain.module import ModuleRecord, ParamsSource
from app.domain.versions import LIVE, VersionSpec

__all__ = ["EVENT_TYPES", "EventRow", "EventType", "Happening", "ServerEvent", "happenings"]


class ServerEvent(StrEnum):
    """Types of events of modules and executors; those of jobs are in ``JobEvent``."""

    MODULE_CREATED = "module_created"
    MODULE_BOUND = "module_bound"
    """Its shapes were set or changed."""
    MODULE_LOADED = "module_loaded"
    """Parameters of a checkpoint, or of files in the models folder, were loaded."""
    MODULE_PARAMS_CHANGED = "module_params_changed"
    """Its parameters were changed, or are about to be: reported once until they are saved."""
    MODULE_CHANGED = "module_changed"
    """Something else was changed, see the fields."""
    MODULE_CHECKPOINTED = "module_checkpointed"
    MODULE_PROMOTED = "module_promoted"
    MODULE_ROLLED_BACK = "module_rolled_back"
    MODULE_RESTORED = "module_restored"
    """It was restored to its device."""
    MODULE_EVICTED = "module_evicted"
    """It was evicted or unloaded; it is restored when it is called."""
    MODULE_PARAMS_LOST = "module_params_lost"
    """Its parameters were only in memory and are lost."""
    MODULE_QUARANTINED = "module_quarantined"
    """It cannot be restored, and no further attempt is made until it is repaired."""
    MODULE_DELETED = "module_deleted"
    EXECUTOR_STARTED = "executor_started"
    EXECUTOR_LOST = "executor_lost"
    """Its process died, or was killed because it did not answer."""
    EXECUTOR_RESTARTED = "executor_restarted"


EventType: TypeAlias = JobEvent | ServerEvent
EVENT_TYPES: Mapping[str, EventType] = {one.value: one for one in (*JobEvent, *ServerEvent)}


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRow:
    """One event, as stored in the log and sent by SSE.

    Attributes:
        id: increases with every event; readers request the events after an id.
        job_id: None for an event of a module or an executor.
        module: by the name that clients use; None for an event of an executor.
        executor: that has the module, or runs the job; None if there is none yet.
        attempt: of the job, 0 before the first.
        status: the job's after the event.
        data: details, which depend on ``type``.
        created_at: seconds since 1970.
    """

    id: int
    type: EventType
    job_id: int | None = None
    module: str | None = None
    executor: str | None = None
    attempt: int | None = None
    status: JobStatus | None = None
    data: Mapping[str, Any]
    created_at: float


class Happening(NamedTuple):
    """An event of a module or an executor, to be recorded."""

    type: ServerEvent
    data: Mapping[str, Any]


_OF_PARAMS = frozenset({"params", "init", "checkpoint", "durable", "lost", "saved_states"})
_OF_THE_LOG = frozenset({"version", "updated_at", "generation"})


def happenings(
    before: ModuleRecord, after: ModuleRecord, *, has_new_params: bool
) -> list[Happening]:
    """Return the event for a change of a module's record.

    Args:
        has_new_params: its parameters have changed, even if the record has not.
    """
    changed = {
        field.name
        for field in dataclasses.fields(ModuleRecord)
        if getattr(after, field.name) != getattr(before, field.name)
    } - _OF_THE_LOG
    found = []
    if "bind" in changed and after.bind is not None:
        facts = {"for_training": after.bind.for_training, "buckets": list(after.bind.buckets)}
        found.append(Happening(ServerEvent.MODULE_BOUND, facts))
        changed.discard("bind")
    if has_new_params or (before.durable and not after.durable):
        found.append(_new_params(after, is_training=not has_new_params))
        changed -= _OF_PARAMS
    if after.versions.promoted != before.versions.promoted:
        found.append(_promotion(before.versions, after.versions))
        changed.discard("versions")
    if changed:
        found.append(Happening(ServerEvent.MODULE_CHANGED, {"fields": sorted(changed)}))
    return found


def _new_params(after: ModuleRecord, is_training: bool) -> Happening:
    if after.params is ParamsSource.CHECKPOINT and not is_training:
        facts = {"checkpoint": str(after.checkpoint), "optimizer_states": after.saved_states}
        return Happening(ServerEvent.MODULE_LOADED, facts)
    source = "training" if is_training or after.params is None else after.params.value
    facts = {"source": source, "durable": after.durable}
    return Happening(ServerEvent.MODULE_PARAMS_CHANGED, facts)


def _promotion(before: VersionSpec, after: VersionSpec) -> Happening:
    is_back = before.earlier[:-1] == after.earlier and before.earlier[-1:] == (after.promoted,)
    kind = ServerEvent.MODULE_ROLLED_BACK if is_back else ServerEvent.MODULE_PROMOTED
    return Happening(kind, {"version": _name(after.promoted), "before": _name(before.promoted)})


def _name(version: int | None) -> str:
    return LIVE if version is None else str(version)
