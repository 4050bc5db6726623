"""Job submissions: parsed, checked against the store, and queued."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection

from app.domain.codec import canonical_json, to_plain
from app.domain.dataset import DatasetRecord
from app.domain.fit_epochs import epochs_of
from app.domain.job import Job, JobKind
from app.domain.job_params import (
    DatasetSource,
    FitParams,
    JobParams,
    dataset_names,
    parse_job_params,
)
from app.domain.module import ModuleRecord, require
from app.domain.moment import Moment
from app.errors.tree import Invalid, ParamsLost, ServiceError
from app.files.job_inputs import check_arrays, check_named, sources_of
from app.services.access.idempotency import Replay, current_replay
from app.services.jobs.bound_forms import in_bound_forms
from app.services.jobs.table_columns import resolve_columns
from app.services.modules.version_guard import require_replaceable
from app.store.checkpoints import indexed_tags
from app.store.datasets import get_datasets
from app.store.idempotency import recall, remember
from app.store.jobs import NewJob, get_job, has_unfinished, insert_jobs, unfinished_params
from app.store.modules import module_outline
from app.store.numbering import begin_of_fit

__all__ = ["JobDefaults", "JobLimits", "Submission", "parts_of", "read_submission", "submit_in"]

_SCOPE = "jobs"
_LARGEST_PRIORITY = 1000
_MOST_RETRIES = 100
_LONGEST_SECONDS = 10 * 366 * 86400.0
_NEW_FIELDS = frozenset({"columns", "all_but"})
_CALLS = {JobKind.SCORE: "score", JobKind.PREDICT: "predict_dataset"}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLimits:
    """Priority, retries and time limits of a job.

    Attributes:
        priority: smaller runs earlier, -1000 to 1000.
        max_retries: limit on automatic retries after temporary failures.
        deadline_seconds: from now; the job fails if it has not ended by then; None for no limit.
        timeout_seconds: the job fails after running for so long; None for no limit.
    """

    priority: int = 0
    max_retries: int = 0
    deadline_seconds: float | None = None
    timeout_seconds: float | None = None

    def check(self) -> None:
        """Raise Invalid for a value out of range."""
        if abs(self.priority) > _LARGEST_PRIORITY:
            expected = f"-{_LARGEST_PRIORITY} to {_LARGEST_PRIORITY}"
            raise Invalid("priority", self.priority, expected)
        if not 0 <= self.max_retries <= _MOST_RETRIES:
            raise Invalid("max_retries", self.max_retries, f"0 to {_MOST_RETRIES}")
        for name in ("deadline_seconds", "timeout_seconds"):
            seconds = getattr(self, name)
            if seconds is not None and not 0 < seconds < _LONGEST_SECONDS:
                raise Invalid(name, seconds, "a positive number of seconds, at most ten years")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDefaults:
    """Values of a job that its client cannot choose."""

    lease_seconds: float = 30.0
    max_attempts: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A request for a job.

    Attributes:
        params: parameters of its kind; see ``app.domain.job_params``.
        plain: the same as plain values.
        idempotency_key: of the client, so that a repeated request creates only one job.
        replay: records whether an earlier request created the job.
    """

    module: str
    kind: JobKind
    params: JobParams
    plain: dict[str, Any]
    limits: JobLimits
    idempotency_key: str | None
    replay: Replay = field(default_factory=current_replay)

    @property
    def fingerprint(self) -> str:
        """Digest of the whole request, to tell whether a repeated key belongs to another one."""
        plain = _as_before(self.plain)
        return _digest(self.module, self.kind.value, plain, *_plain_limits(self.limits))

    @property
    def params_digest(self) -> str:
        """Digest of kind and parameters, without the module."""
        return _digest(self.kind.value, _as_before(self.plain))


def read_submission(
    module: str,
    kind: JobKind,
    params: Mapping[str, Any],
    limits: JobLimits | None = None,
    idempotency_key: str | None = None,
) -> Submission:
    """Parse a client's request; raise Invalid, which names each invalid field."""
    limits = limits or JobLimits()
    checked = parse_job_params(kind, params)
    limits.check()
    return Submission(
        module=module,
        kind=kind,
        params=checked,
        plain=to_plain(checked),
        limits=limits,
        idempotency_key=idempotency_key,
    )


def submit_in(
    connection: Connection, submissions: Sequence[Submission], defaults: JobDefaults, now: Moment
) -> list[Job | ServiceError]:
    """Queue jobs in one transaction.

    Returns:
        For each submission its job, or the error that refuses it; see ``JobService.submit``.
    """
    outcomes: dict[int, Job | ServiceError] = {}
    new: dict[int, NewJob] = {}
    ends: dict[str, int] = {}
    for number, one in enumerate(submissions):
        try:
            earlier = _earlier(connection, one)
            if earlier is not None:
                outcomes[number] = earlier
            else:
                new[number] = _checked(connection, one, defaults, now, ends)
        except ServiceError as error:
            outcomes[number] = error
    outcomes.update(zip(new, insert_jobs(connection, list(new.values()), now.wall), strict=True))
    for number in new:
        key, job = submissions[number].idempotency_key, outcomes[number]
        if key is not None and isinstance(job, Job):
            fingerprint = submissions[number].fingerprint
            remember(connection, _SCOPE, key, fingerprint, str(job.id), now.wall)
    return [outcomes[number] for number in range(len(submissions))]


def parts_of(submissions: Sequence[Submission]) -> list[list[int]]:
    """Split submissions, given by index, into groups that may each be queued in one transaction.

    All transactions lock in one order, keys before modules and modules by name, to avoid deadlocks.
    The second of two submissions with the same key must find the first one committed.
    """
    plain: list[int] = []
    keyed: dict[str, int] = {}
    repeated: list[int] = []
    for number in sorted(range(len(submissions)), key=lambda one: submissions[one].module):
        key = submissions[number].idempotency_key
        if key is None:
            plain.append(number)
        elif keyed.setdefault(key, number) != number:
            repeated.append(number)
    return [part for part in (plain, list(keyed.values()), *([one] for one in repeated)) if part]


def _queued_classes(connection: Connection, module: ModuleRecord) -> list[tuple[str, ...]]:
    """Return the classes that fits of a module, which have not ended, are going to make its labels;
    those of the newest first."""
    plain = unfinished_params(connection, module.name, JobKind.FIT)
    fits = [parse_job_params(JobKind.FIT, one) for one in plain]
    return [classes for fit in fits for classes in fit.classes.values()]


def _earlier(connection: Connection, submission: Submission) -> Job | None:
    """Return the job that the same request created before, if any."""
    if submission.idempotency_key is None:
        return None
    key, fingerprint = submission.idempotency_key, submission.fingerprint
    found = recall(connection, _SCOPE, key, fingerprint)
    if found is None:
        return None
    submission.replay.is_replayed = True
    return get_job(connection, int(found))


def _checked(
    connection: Connection,
    submission: Submission,
    defaults: JobDefaults,
    now: Moment,
    ends: dict[str, int],
) -> NewJob:
    """Return the job to queue; raise the error that refuses it.

    Args:
        ends: the last epochs, by module, of the fits that this transaction queues.
    """
    record = module_outline(connection, submission.module, lock=True)
    _check_possible(connection, record, submission.kind, submission.params)
    datasets = get_datasets(connection, dataset_names(submission.params))
    records = {dataset.name: dataset for dataset in datasets}
    check_named(submission.params, record)
    has_texts = any(array.classes for one in datasets for array in one.arrays)
    queued = _queued_classes(connection, record) if has_texts else []
    params = resolve_columns(submission.params, record, records, queued)
    _check_inputs(record, params, records)
    params = in_bound_forms(params, record, records)
    limits = submission.limits
    job = Job(
        kind=submission.kind,
        module=submission.module,
        params=submission.plain if params == submission.params else to_plain(params),
        priority=limits.priority,
        max_retries=limits.max_retries,
        deadline_seconds=limits.deadline_seconds,
        deadline_at=_deadline(limits, now),
        timeout_seconds=limits.timeout_seconds,
        lease_seconds=defaults.lease_seconds,
        max_attempts=defaults.max_attempts,
        begin_epoch=_begin(connection, record, params, ends),
    )
    if (epochs := epochs_of(job)) is not None:
        ends[record.name] = epochs.end
    return NewJob(job, record.id, frozenset(dataset.id for dataset in datasets))


def _begin(
    connection: Connection, module: ModuleRecord, params: JobParams, ends: Mapping[str, int]
) -> int | None:
    """Return the epoch at which a fit begins; refuse one that would replace versions in use."""
    if not isinstance(params, FitParams):
        return None
    begin = params.begin_epoch
    if begin is None:
        return max(begin_of_fit(connection, module), ends.get(module.name, 0))
    versions = range(begin + 1, params.epochs + 1)
    require_replaceable(module, versions, "leave out begin_epoch, and the fit goes on counting")
    return begin


def _check_possible(
    connection: Connection, module: ModuleRecord, kind: JobKind, params: JobParams
) -> None:
    """Refuse a job that could only fail later, unless an unfinished fit may change that."""
    try:
        _check_stage(connection, module, kind, params)
    except ServiceError:
        if not has_unfinished(connection, module.name, [JobKind.FIT]):
            raise


def _check_stage(
    connection: Connection, module: ModuleRecord, kind: JobKind, params: JobParams
) -> None:
    if module.lost:
        raise ParamsLost(module.name, [str(tag) for tag in indexed_tags(connection, module.name)])
    if isinstance(params, FitParams):
        if params.optimizer is None and module.optimizer is None:
            raise Invalid(
                "optimizer",
                None,
                "an optimizer, because the module has none",
                'for example {"name": "sgd", "options": {"learning_rate": 0.1}}',
            )
    elif module.params is None:
        require(module, _CALLS[kind])


def _check_inputs(
    module: ModuleRecord, params: JobParams, records: Mapping[str, DatasetRecord]
) -> None:
    """Refuse arrays that the datasets do not have; the labels of a fit may be missing."""
    sources: dict[str, DatasetSource] = {"": params}
    if isinstance(params, FitParams) and params.validation is not None:
        sources["validation."] = params.validation
        _check_classes(records[params.dataset], records[params.validation.dataset])
    for prefix, source in sources.items():
        record = records[source.dataset]
        present = [array.name for array in record.arrays]
        labels = module.label_names if isinstance(params, FitParams) else ()
        names = [*module.data_names, *source.inputs, *(one for one in labels if one in present)]
        check_arrays(sources_of(source, names, record), record, prefix)


def _check_classes(training: DatasetRecord, validation: DatasetRecord) -> None:
    """Refuse a validation set of images whose classes differ from the training set's."""
    if validation.classes and training.classes and validation.classes != training.classes:
        others = sorted(set(validation.classes) ^ set(training.classes))[:10]
        got = f"classes that differ: {', '.join(others)}" if others else "classes in another order"
        raise Invalid(
            "validation.dataset",
            f"{validation.name!r}, {got}",
            f"the classes of {training.name!r}",
            f"upload its images again, with ?classes_of={training.name}",
        )


def _deadline(limits: JobLimits, now: Moment) -> float | None:
    return None if limits.deadline_seconds is None else now.steady + limits.deadline_seconds


def _plain_limits(limits: JobLimits) -> list[Any]:
    """Return the limits for the fingerprint; the priority alone if nothing else is set, as in
    fingerprints of older releases."""
    more = [limits.max_retries, limits.deadline_seconds, limits.timeout_seconds]
    return [limits.priority, *more] if any(more) else [limits.priority]


def _as_before(plain: dict[str, Any]) -> dict[str, Any]:
    """Return a source without the fields that older releases do not have, if they are empty: for
    digests that are the same as theirs."""
    plain = {name: value for name, value in plain.items() if name != "classes" or value}
    plain["inputs"] = {
        name: {key: one for key, one in source.items() if key not in _NEW_FIELDS or one}
        for name, source in plain["inputs"].items()
    }
    if plain.get("begin_epoch", 0) is None:  # older releases began at 0
        plain["begin_epoch"] = 0
    if plain.get("validation") is not None:
        plain["validation"] = _as_before(plain["validation"])
    return plain


def _digest(*parts: Any) -> str:
    return hashlib.sha256(canonical_json(parts).encode()).hexdigest()
