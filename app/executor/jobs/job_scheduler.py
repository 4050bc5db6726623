"""The jobs of an executor, which take turns of one batch each.

A job that waits for files, which are read and written off the device thread, is skipped until they
are ready.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from app.domain.job_params import FitParams, PredictParams, ScoreParams, parse_job_params
from app.domain.job_transitions import TRANSIENT
from app.errors.tree import HostError, NotFound, OutOfMemory, ServiceError, Superseded
from app.executor.background import Waits
from app.executor.faults import refusal_of, to_host_error
from app.executor.jobs.job_context import JobContext
from app.executor.jobs.scoring import PredictJob, ScoreJob
from app.executor.jobs.training import FitJob
from app.executor.modules.hosted_module import HostedModule
from app.executor.modules.randomness import RandomStreams
from app.link.job_messages import ExecutorEvent, JobControl, JobFailed, JobStart
from app.link.protocols import Emit
from core.errors import MXNetError

__all__ = ["JobScheduler"]

_log = logging.getLogger(__name__)

_FOLLOWED = TRANSIENT | {"superseded"}
"""Codes of failures that are followed by another attempt."""


@dataclass(slots=True)
class _Running:
    context: JobContext
    steps: Waits[ExecutorEvent]
    awaited: Future[Any] | None = None
    is_second: bool = False

    @property
    def can_go_on(self) -> bool:
        return self.awaited is None or self.awaited.done()


class JobScheduler:
    """Starts, advances and stops jobs. A module has one job at a time."""

    def __init__(
        self,
        module_of: Callable[[str], HostedModule],
        put_away: Callable[[str], None],
        random: RandomStreams,
        emit: Emit,
        wake: Callable[[], None],
        make_room: Callable[[str], None],
        turn_of_job: Callable[[int, str], None],
    ) -> None:
        """Create a board without jobs.

        Args:
            module_of: finds a module by its name.
            put_away: evicts a module, which is later restored from its record.
            random: gives each job a stream of its own.
            emit: where events go.
            wake: called, in any thread, when a job that waited can continue.
            make_room: frees memory when it is short, except that of the named module.
            turn_of_job: called with each job whose turn it is, and its module.
        """
        self._module_of = module_of
        self._put_away = put_away
        self._random = random
        self._emit = emit
        self._wake = wake
        self._make_room = make_room
        self._turn_of_job = turn_of_job
        self._running: deque[_Running] = deque()

    def has_work(self) -> bool:
        """Return whether any job can run a step now."""
        return any(running.can_go_on for running in self._running)

    def summarize(self) -> list[dict[str, Any]]:
        """Return id, attempt, kind and module of each job."""
        starts = [running.context.start for running in self._running]
        return [
            {
                "job_id": start.job_id,
                "attempt": start.attempt,
                "kind": start.kind.value,
                "module": start.module,
            }
            for start in starts
        ]

    def start(self, start: JobStart) -> None:
        """Start an attempt of a job; an earlier attempt of the same job ends without a report.

        Raises:
            Superseded: a later attempt is already running.
            InUse: another job works on the module.
            HostError: ``not_resident``, also for a module that the earlier attempt left partly
                trained.
            Invalid: a parameter has a value it cannot take.
        """
        earlier = self._find(start.job_id)
        if earlier is not None:
            if earlier.context.attempt >= start.attempt:
                raise Superseded(
                    f"attempt {earlier.context.attempt} of job {start.job_id} runs already"
                )
            self._remove(earlier)
            self._revert(earlier.context)
        module = self._module_of(start.module)
        module.require_idle(f"job {start.job_id}")
        context = JobContext(start, module, self._emit)
        steps = self._make_steps(context)
        module.job_id = start.job_id
        self._running.append(_Running(context, steps))

    def control(self, control: JobControl) -> None:
        """Ask a job to stop; raise NotFound if this attempt is not running."""
        running = self._find(control.job_id)
        if running is None or running.context.attempt != control.attempt:
            raise NotFound("job", control.job_id, "this executor does not run this attempt of it")
        if control.is_void:
            self._remove(running)
            self._revert(running.context)
        else:
            running.context.requested = control.action

    def advance(self) -> str:
        """Run the next step of the job whose turn it is. A failure ends only that job.

        Returns:
            The name of its module.
        """
        running = self._next_turn()
        context = running.context
        self._turn_of_job(context.job_id, context.module.name)
        self._random.enter(_stream_of(context))
        is_short = False
        try:
            running.awaited = None
            with context.captured_logs():
                running.awaited = next(running.steps)
            if running.awaited is not None:
                running.awaited.add_done_callback(lambda _: self._wake())
        except StopIteration as end:
            self._finish(running, end.value)
        except (ServiceError, MXNetError) as error:
            self._fail(running, to_host_error(error))
        except HostError as error:
            self._fail(running, error)
        except OSError as error:
            _log.exception("job %d failed", context.job_id)
            unknown = HostError("unavailable", f"a file cannot be used: {error}")
            self._fail(running, refusal_of(error) or unknown)
        except MemoryError:
            is_short = True
        except Exception as error:
            _log.exception("job %d failed", context.job_id)
            self._fail(running, HostError("internal", f"{type(error).__name__}: {error}"))
        # Outside of the except block, so that the frames and arrays of the failed step are gone.
        if is_short:
            self._try_again(running)
        return context.module.name

    def close(self) -> None:
        """Drop all jobs without a report; their next attempts resume from checkpoints."""
        for running in list(self._running):
            self._remove(running)

    def _next_turn(self) -> _Running:
        """Return the first job that can continue, and move it to the end of the queue."""
        running = next(one for one in self._running if one.can_go_on)
        self._running.remove(running)
        self._running.append(running)
        return running

    def _make_steps(self, context: JobContext) -> Waits[ExecutorEvent]:
        params = parse_job_params(context.start.kind, dict(context.start.params))
        match params:
            case FitParams():
                numbered = params.beginning_at(context.start.begin_epoch)
                return FitJob(context, numbered, self._random).run()
            case ScoreParams():
                return ScoreJob(context, params).run()
            case PredictParams():
                return PredictJob(context, params).run()

    def _try_again(self, running: _Running) -> None:
        """Restart a job that ran out of memory, after evicting idle modules, if it has reported
        nothing yet.
        """
        context = running.context
        self._make_room(context.module.name)
        if context.has_begun or running.is_second:
            what = f"job {context.job_id} on module {context.module.name!r}"
            reason = "use a smaller batch_size or dataset"
            self._fail(running, to_host_error(OutOfMemory(what, reason)))
            return
        running.is_second = True
        context.log("the device ran out of memory; idle modules were evicted, starting again")
        running.steps, running.awaited = self._make_steps(context), None

    def _fail(self, running: _Running, error: HostError) -> None:
        context = running.context
        self._remove(running)
        # The next attempt must start from the same state as this one.
        is_reverted = error.code in _FOLLOWED and self._revert(context)
        event = JobFailed(
            job_id=context.job_id,
            attempt=context.attempt,
            code=error.code,
            message=error.message,
            field=error.field_name,
            is_unsaved=context.module.has_unsaved and not is_reverted,
        )
        context.send(event)

    def _revert(self, context: JobContext) -> bool:
        """Restore the module to its state before the attempt, if possible; return whether that
        worked."""
        if not context.is_revertible or not context.module.has_unsaved:
            return False
        self._put_away(context.module.name)
        return True

    def _finish(self, running: _Running, event: ExecutorEvent) -> None:
        self._remove(running)
        running.context.send(event)

    def _remove(self, running: _Running) -> None:
        self._running.remove(running)
        running.steps.close()
        running.context.module.job_id = None
        running.context.module.job_data_bytes = 0
        self._random.forget(_stream_of(running.context))

    def _find(self, job_id: int) -> _Running | None:
        return next((one for one in self._running if one.context.job_id == job_id), None)


def _stream_of(context: JobContext) -> tuple[str, int]:
    return ("job", context.job_id)
