"""What the event log tells: of jobs, of modules and of executors."""

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
    """Everything that happens to modules and executors; what happens to jobs is ``JobEvent``."""

    MODULE_CREATED = "module_created"
    MODULE_BOUND = "module_bound"
    """It has shapes, or other ones."""
    MODULE_LOADED = "module_loaded"
    """It has the parameters of a checkpoint, or of the files in the models folder."""
    MODULE_PARAMS_CHANGED = "module_params_changed"
    """It has other parameters, or is about to have: told once until they are saved."""
    MODULE_CHANGED = "module_changed"
    """Something else of it, see the fields."""
    MODULE_CHECKPOINTED = "module_checkpointed"
    MODULE_PROMOTED = "module_promoted"
    MODULE_ROLLED_BACK = "module_rolled_back"
    MODULE_RESTORED = "module_restored"
    """It was restored to its device."""
    MODULE_EVICTED = "module_evicted"
    """It was put away for others, or unloaded; it comes back when it is called."""
    MODULE_PARAMS_LOST = "module_params_lost"
    """Its parameters were in memory alone."""
    MODULE_QUARANTINED = "module_quarantined"
    """It cannot be restored and is left alone until somebody repairs it."""
    MODULE_DELETED = "module_deleted"
    EXECUTOR_STARTED = "executor_started"
    EXECUTOR_LOST = "executor_lost"
    """Its process died, or was ended because it did not answer."""
    EXECUTOR_RESTARTED = "executor_restarted"


EventType: TypeAlias = JobEvent | ServerEvent
EVENT_TYPES: Mapping[str, EventType] = {one.value: one for one in (*JobEvent, *ServerEvent)}


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRow:
    """One event, as the log keeps it and SSE sends it.

    Attributes:
        id: grows with every event; a reader asks for what came after an id.
        job_id: None for what happens to a module or an executor by itself.
        module: by the name that clients know it by; None for what happens to an executor.
        executor: that has the module, or runs the job; None if none does yet.
        attempt: of the job, 0 before the first.
        status: the job's after the event.
        data: what the event carries; depends on ``type``.
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
    """What happened to a module or an executor, and what is to be told of it."""

    type: ServerEvent
    data: Mapping[str, Any]


_OF_PARAMS = frozenset({"params", "init", "checkpoint", "durable", "lost", "saved_states"})
_OF_THE_LOG = frozenset({"version", "updated_at", "generation"})


def happenings(
    before: ModuleRecord, after: ModuleRecord, *, has_new_params: bool
) -> list[Happening]:
    """Return what a change of a module's record tells of the module.

    Args:
        has_new_params: it has other parameters, though the record may say the same of them.
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
