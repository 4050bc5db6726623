"""Sends predictions to executors; modules that are not on their devices are restored first."""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import time
from collections import Counter
from collections.abc import Coroutine, Hashable, Sequence
from typing import Any

from app.domain.codec import from_plain
from app.domain.module import ModuleKind, ModuleRecord
from app.domain.sequence import SequencePart
from app.errors.http import error_code
from app.errors.tree import ExecutorGone, HostError, Unavailable
from app.link import calls
from app.link.client import Asked, OnOutcome, Outcome
from app.link.signatures import Signature, Target
from app.link.slots import Piece
from app.services.modules.module_access import ModuleAccess
from app.services.modules.versions import LIVE_VERSION, Version, Versions
from app.services.operations.executors import Executors
from app.services.predictions.instances import Instance, Instances
from app.services.predictions.observed_lengths import ObservedLengths
from app.services.predictions.predict_calls import TensorRow, examples_of, predict_call, unloaded
from app.services.predictions.sequence_places import SequencePlaces
from app.services.predictions.statistics import Statistics

__all__ = ["Predictions"]

_MOST_TARGETS = 4096
_MOST_RESTORES = 3
"""Per prediction: other modules may need the memory and evict the module again."""


class _Next(enum.Enum):
    """What to do after an instance did not answer."""

    ASK = enum.auto()
    """Choose an instance again, and retry."""
    LOAD = enum.auto()
    """Load the version on the same instance, and retry."""
    END = enum.auto()
    """Return the error to the client."""


class Predictions:
    """Sends predictions to executors, with a limit on those in flight for each module."""

    def __init__(
        self,
        access: ModuleAccess,
        versions: Versions,
        executors: Executors,
        instances: Instances,
        lengths: ObservedLengths,
        statistics: Statistics,
        most_waiting: int,
    ) -> None:
        """Prepare.

        Args:
            lengths: counts the input lengths of modules with buckets.
            statistics: counts outcomes.
            most_waiting: limit on one module's predictions in flight.
        """
        self._lengths = lengths
        self._statistics = statistics
        self._access = access
        self._versions = versions
        self._executors = executors
        self._instances = instances
        self._sequences = SequencePlaces(instances)
        self._most_waiting = most_waiting
        self._under_way: Counter[str] = Counter()
        self._targets: dict[Hashable, Target] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def record(self, module: str) -> ModuleRecord | None:
        """Return a module's record if it is cached, else None."""
        return self._access.known_now(module)

    def has_some(self, module: str) -> bool:
        """Return whether predictions of a module are in flight."""
        return module in self._under_way

    def target(
        self,
        record: ModuleRecord,
        version: Version,
        rows: tuple[TensorRow, ...],
        bucket: str | None = None,
        part: SequencePart | None = None,
        *,
        is_strict: bool = False,
    ) -> Target:
        """Return the target of a prediction; predictions that are alike share one.

        Parts of sequences share none: each names its own sequence, so it is sent in a JSON frame.

        Args:
            is_strict: see ``calls.Predict``.

        Raises:
            Unavailable: the module was unloaded.
        """
        if part is not None:
            call = predict_call(record, bucket, part, version.key, is_strict=is_strict)
            _, params = calls.to_call(call)
            return Target(params, _signature(rows), examples_of(record, rows), is_shared=False)
        key = record.name, record.serving, version.key, rows, bucket, is_strict
        found = self._targets.get(key)
        if found is None:
            call = predict_call(record, bucket, None, version.key, is_strict=is_strict)
            _, params = calls.to_call(call)
            if len(self._targets) >= _MOST_TARGETS:  # clients may send any number of shapes
                self._targets.clear()
            found = self._targets[key] = Target(params, _signature(rows), examples_of(record, rows))
        return found

    def ask(
        self,
        record: ModuleRecord,
        version: Version,
        target: Target,
        pieces: Sequence[Piece],
        on_outcome: OnOutcome,
        *,
        deadline: float = 0.0,
        priority: int = 0,
    ) -> Asked:
        """Send a prediction (see ``ExecutorClient.submit``).

        Args:
            pieces: must not change until the outcome arrives.

        Raises:
            Unavailable: too many are in flight.
            HostError, ExecutorGone: it cannot be sent now.
        """
        if self._under_way[record.name] >= self._most_waiting:
            raise Unavailable(
                f"{self._most_waiting} predictions of module {record.name!r} are under way; try "
                "again in a moment, or raise MODSERVE_MAX_PREDICTIONS"
            )
        wanted = on_outcome, deadline, priority
        asked = _Prediction(self, record, version, target, pieces, *wanted)
        asked.submit()
        self._under_way[record.name] += 1  # in time: no outcome arrives before ``submit`` returns
        return asked

    async def outcome(
        self,
        record: ModuleRecord,
        version: Version,
        target: Target,
        pieces: Sequence[Piece],
        *,
        deadline: float = 0.0,
        priority: int = 0,
    ) -> Outcome:
        """Send a prediction and return its outcome, which the caller releases.

        Cancelling the wait withdraws the prediction.

        Raises:
            Exception: the prediction failed; see ``ask``.
        """
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

        def on_outcome(outcome: Outcome | Exception) -> None:
            if isinstance(outcome, Outcome):
                future.set_result(outcome)
            else:
                future.set_exception(outcome)

        wanted = record, version, target, pieces, on_outcome
        asked = self.ask(*wanted, deadline=deadline, priority=priority)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            asked.withdraw()
            if future.done() and future.exception() is None:
                future.result().release()
            raise

    def _after(
        self,
        error: Exception,
        record: ModuleRecord,
        version: Version,
        part: SequencePart | None,
        instance: Instance,
    ) -> _Next:
        """Return what to do after an instance did not answer."""
        assert version.key is not None
        if not self._instances.note_lost(instance, version.name, version.key, error):
            return _Next.END
        if part is None:
            return _Next.ASK
        if not part.is_start:
            if isinstance(error, ExecutorGone):
                return _Next.END  # its states are lost
            if error_code(error) == "version_not_loaded":
                return _Next.LOAD  # on the instance that has its states
        self._sequences.forget(record, part)
        return _Next.ASK

    def _choose(
        self, record: ModuleRecord, version: Version, part: SequencePart | None
    ) -> Instance | None:
        """Return the instance to ask; None if only the module's own executor can answer."""
        if record.serving.instances == 1 or version.key is None:
            return None
        if part is not None:
            return self._sequences.choose(record, version.name, version.key, part)
        return self._instances.choose(record, version.name, version.key)

    async def close(self) -> None:
        """Cancel predictions that wait for their module to be restored or version to be loaded."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def submit(self, prediction: _Prediction) -> Asked:
        """Send a prediction to an instance's executor."""
        record, target = prediction.record, prediction.target
        instance = self._choose(record, prediction.version, prediction.part)
        prediction.instance = instance
        if instance is None:
            client = self._executors.get(record.executor)
        else:
            client, target = instance.client, instance.target(target)
        asked = client.submit(
            *(target, prediction.pieces, prediction.on_answer),
            deadline=prediction.deadline,
            priority=prediction.priority,
        )
        self._instances.begin(client.name, target.rows)
        prediction.asked_of = client.name
        return asked

    def leave(self, prediction: _Prediction) -> None:
        """Note that a prediction is no longer pending at its executor."""
        if prediction.asked_of is not None:
            self._instances.end(prediction.asked_of, prediction.target.rows)
            prediction.asked_of = None

    def moves(self, prediction: _Prediction, error: Exception) -> bool:
        """Retry on this or another instance after one did not answer; return False if the error
        stands."""
        record, version, before = prediction.record, prediction.version, prediction.instance
        if before is None:
            return False
        what = self._after(error, record, version, prediction.part, before)
        if what is _Next.LOAD and not before.is_home and prediction.loads < _MOST_RESTORES:
            prediction.loads += 1
            self._spawn(self._load_at(prediction, before))
            return True
        if what is not _Next.ASK or self._is_last(prediction, before):
            return False
        try:
            prediction.submit()
        except (HostError, ExecutorGone) as fault:
            prediction.end(fault)
        return True

    def _is_last(self, prediction: _Prediction, before: Instance) -> bool:
        """Return whether the home instance did not answer, and no other can."""
        after = self._choose(prediction.record, prediction.version, prediction.part)
        return after is None or (after is before and before.is_home)

    async def _load_at(self, prediction: _Prediction, instance: Instance) -> None:
        """Load a version on the instance that has a sequence's states, and retry there."""
        version, key = prediction.version
        assert key is not None
        try:
            await self._instances.give(instance, prediction.record, version, key)
            if prediction.is_wanted:
                prediction.submit()
        except Exception as error:
            prediction.end(error)

    def bring_back(self, prediction: _Prediction) -> None:
        """Restore its module and retry."""
        self._spawn(self._bring_back(prediction))

    def load_version(self, prediction: _Prediction) -> None:
        """Load its version and retry."""
        self._spawn(self._load_version(prediction))

    def explain(self, prediction: _Prediction) -> None:
        """Fail a prediction whose module's parameters are lost, and say how to recover them."""
        self._spawn(self._explain(prediction))

    async def _bring_back(self, prediction: _Prediction) -> None:
        record = self._access.known_now(prediction.record.name)
        try:
            if record is not None and not record.serving.is_loaded:
                raise unloaded(record.name)
            await self._access.bring_back(prediction.record.name)
            if prediction.is_wanted:
                prediction.submit()
        except Exception as error:
            prediction.end(error)

    async def _load_version(self, prediction: _Prediction) -> None:
        record = self._access.known_now(prediction.record.name)
        try:
            if record is not None and not record.serving.is_loaded:
                raise unloaded(record.name)
            version = await self._versions.load(prediction.record, prediction.version)
            if version != prediction.version:  # its checkpoint was replaced
                target = prediction.target
                params = {**target.params, "version": version.key}
                prediction.version = version
                prediction.target = dataclasses.replace(target, params=params)
            if prediction.is_wanted:
                prediction.submit()
        except Exception as error:
            prediction.end(error)

    async def _explain(self, prediction: _Prediction) -> None:
        try:
            prediction.end(await self._access.explained(prediction.record.name))
        except Exception as error:
            prediction.end(error)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def note_answered(self, record: ModuleRecord, target: Target) -> None:
        """Count the lengths of a prediction that was answered."""
        if record.kind is ModuleKind.BUCKETING:
            if not target.is_shared:  # else each part of a sequence would be a key of its own
                rows = tuple((name, dtype, shape) for name, dtype, shape, _ in target.inputs.rows)
                target = self.target(record, LIVE_VERSION, rows, target.params["bucket"])
            self._lengths.note(target)

    def note_part(self, prediction: _Prediction) -> None:
        """Record which version answered a part of a sequence."""
        part = from_plain(SequencePart, prediction.target.params["part"])
        self._versions.note_part(prediction.record, part, prediction.version)

    def count_outcome(self, prediction: _Prediction, outcome: Outcome | Exception) -> None:
        """Count a prediction's outcome in the statistics."""
        ended_ns = time.perf_counter_ns()
        taken_ns = ended_ns - prediction.began_ns
        statistics = self._statistics.of(prediction.record, prediction.version.name)
        if isinstance(outcome, Outcome):
            rows, queue_ns, facts = prediction.target.rows, outcome.queue_ns, outcome.facts
            statistics.add_success(rows, taken_ns, ended_ns, queue_ns, facts)
            instance = prediction.instance
            if instance is not None and prediction.part is not None:
                self._sequences.note(prediction.record, prediction.part, instance)
            executor = prediction.record.executor if instance is None else instance.executor
            self._statistics.add_answer(prediction.record, executor)
        else:
            statistics.add_failure(taken_ns)

    def count_end(self, module: str) -> None:
        """Note that a prediction is no longer in flight."""
        self._under_way[module] -= 1
        if not self._under_way[module]:
            del self._under_way[module]


def _signature(rows: tuple[TensorRow, ...]) -> Signature:
    return Signature.of({name: (shape, dtype) for name, dtype, shape in rows})


class _Prediction(Asked):
    """A prediction in flight."""

    __slots__ = (
        *("_asked", "_on_outcome", "_restores", "_service", "asked_of", "began_ns"),
        *(
            "deadline",
            "instance",
            "loads",
            "part",
            "pieces",
            "priority",
            "record",
            "target",
            "version",
        ),
    )

    def __init__(
        self,
        service: Predictions,
        record: ModuleRecord,
        version: Version,
        target: Target,
        pieces: Sequence[Piece],
        on_outcome: OnOutcome,
        deadline: float,
        priority: int,
    ) -> None:
        self._service = service
        self.record = record
        self.version = version
        self.target = target
        self.part: SequencePart | None = None
        if not target.is_shared:
            self.part = from_plain(SequencePart, target.params["part"])
        self.pieces = pieces
        self._on_outcome: OnOutcome | None = on_outcome
        self.deadline = deadline
        self.priority = priority
        self._asked: Asked | None = None
        self.instance: Instance | None = None
        self.asked_of: str | None = None
        self._restores = 0
        self.began_ns = time.perf_counter_ns()
        self.loads = 0

    @property
    def is_wanted(self) -> bool:
        """False once it has ended or was withdrawn."""
        return self._on_outcome is not None

    def submit(self) -> None:
        """Send it to an executor, for the first time or as a retry."""
        self._asked = self._service.submit(self)

    def on_answer(self, outcome: Outcome | Exception) -> None:
        """Handle the executor's answer: retry, restore what is missing, or end."""
        self._service.leave(self)
        if not isinstance(outcome, Outcome):
            if self.is_wanted and self._service.moves(self, outcome):
                return
            if self.instance is not None:
                outcome = self.instance.told(outcome)
        if isinstance(outcome, HostError):
            if outcome.code == "not_resident" and self._restores < _MOST_RESTORES:
                self._restores += 1
                self._service.bring_back(self)
                return
            if outcome.code == "version_not_loaded" and self.loads < _MOST_RESTORES:
                self.loads += 1
                self._service.load_version(self)
                return
            if outcome.code == "params_lost":
                self._service.explain(self)
                return
        self.end(outcome)

    def end(self, outcome: Outcome | Exception) -> None:
        """Pass the outcome to the caller, or release it if the prediction was withdrawn."""
        if isinstance(outcome, Outcome):
            self._service.note_answered(self.record, self.target)
            if not self.target.is_shared:
                self._service.note_part(self)
        on_outcome, self._on_outcome = self._on_outcome, None
        if on_outcome is not None:
            self._service.count_end(self.record.name)
            self._service.count_outcome(self, outcome)
            on_outcome(outcome)
        elif isinstance(outcome, Outcome):
            outcome.release()

    def withdraw(self) -> None:
        """Cancel it."""
        if self._on_outcome is not None:
            self._on_outcome = None
            self._service.leave(self)
            self._service.count_end(self.record.name)
            if self._asked is not None:
                self._asked.withdraw()
