"""The services over a real store and a real data directory."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from app.domain.dataset import DatasetKind, DatasetRecord
from app.domain.job import Job, JobKind
from app.domain.moment import Moment
from app.link.job_messages import ExecutorEvent
from app.services.jobs.job_attempts import JobAttempts
from app.services.jobs.job_queue import JobQueue
from app.services.jobs.jobs import JobService
from app.services.jobs.resume_points import ResumePoints
from app.services.jobs.submissions import JobDefaults
from app.services.modules.checkpoints import CheckpointService
from app.services.modules.datasets import DatasetService
from app.services.modules.modules import ModuleService
from app.services.operations.liveness import Liveness
from app.services.operations.notifier import Notifiers
from app.services.operations.recovery import Recovery
from app.store.store import Store
from served.migrated import migrated_database

FIT = {
    "dataset": "digits",
    "epochs": 2,
    "batch_size": 2,
    "optimizer": {"name": "sgd", "options": {"learning_rate": 0.1}},
}


class Clock:
    """A clock that moves only when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.set_forward = 0.0

    def __call__(self) -> float:
        return self.now

    def moment(self) -> Moment:
        """Return the time by the clocks of jobs; the machine's may have been set."""
        return Moment(self.now + self.set_forward, self.now)


@dataclass
class Bench:
    """One server's services, without executors."""

    store: Store
    data_dir: Path
    clock: Clock
    notifiers: Notifiers
    liveness: Liveness
    modules: ModuleService
    datasets: DatasetService
    checkpoints: CheckpointService
    resume_points: ResumePoints
    jobs: JobService
    queue: JobQueue
    runs: JobAttempts
    recovery: Recovery

    def fit(self, module: str = "a", **changes: object) -> Job:
        """Queue a fit of a module."""
        return self.jobs.submit(module, JobKind.FIT, FIT | changes)

    def claim(self) -> Job | None:
        """Start an attempt of the next job of ``cpu(0)``."""
        return next(iter(self.queue.claim("cpu(0)")), None)

    def record(self, message: ExecutorEvent) -> Job:
        """Record an attempt's report; raise if the attempt is void."""
        (outcome,) = self.queue.record([message])
        if isinstance(outcome, Job):
            return outcome
        raise outcome

    def enter(self, message: ExecutorEvent) -> Job | None:
        """Record a message with all its consequences, as the dispatcher does."""
        job = self.jobs.get(message.job_id)
        message = self.runs.prepare(message, job if job.attempt == message.attempt else None)
        (entered,) = self.runs.enter([message])
        if entered is not None:
            self.runs.follow_up(entered, message)
        return entered

    def upload(self, name: str, data: bytes, kind: DatasetKind) -> DatasetRecord:
        """Create a dataset from bytes."""
        with self.datasets.begin(name) as upload:
            upload.write(data)
            return self.datasets.commit(upload, name, kind)


def make_services(store: Store, data_dir: Path) -> Bench:
    """Return the services of one server, which is present until ``leave``."""
    clock, notifiers = Clock(), Notifiers()
    liveness = Liveness(data_dir / "servers")
    liveness.enter()
    modules = ModuleService(store, data_dir, clock, notifiers.events)
    datasets = DatasetService(store, data_dir, 1 << 20, clock)
    checkpoints = CheckpointService(store, modules, data_dir, max_bytes=1 << 20)
    resume_points = ResumePoints(modules, checkpoints)
    defaults = JobDefaults(lease_seconds=10.0, max_attempts=3)
    queue = JobQueue(
        *(store, notifiers, liveness),
        keep_progress_events=5,
        before_loss=resume_points.lose_attempt,
        clock=clock.moment,
    )
    recovery = Recovery(
        *(store, modules, checkpoints, data_dir, liveness),
        executor="cpu(0)",
        max_dataset_bytes=1 << 20,
    )
    return Bench(
        store=store,
        data_dir=data_dir,
        clock=clock,
        notifiers=notifiers,
        liveness=liveness,
        modules=modules,
        datasets=datasets,
        checkpoints=checkpoints,
        resume_points=resume_points,
        jobs=JobService(store, notifiers, defaults, clock.moment),
        queue=queue,
        runs=JobAttempts(queue, modules, datasets, checkpoints, resume_points),
        recovery=recovery,
    )


@pytest.fixture
def make_bench(two_modules: Store, tmp_path: Path) -> Iterator[Callable[[], Bench]]:
    """Return a function that makes the services of another server on the same store."""
    made: list[Bench] = []

    def make() -> Bench:
        bench = make_services(two_modules, tmp_path / "data")
        for record in bench.modules.list_modules().items:
            bench.modules.directories.write(record)
        made.append(bench)
        return bench

    yield make
    for bench in made:
        bench.liveness.leave()


@pytest.fixture
def make_fresh(tmp_path: Path) -> Iterator[Callable[..., Bench]]:
    """Return a function that makes a server with its own store, optionally on a given directory."""
    made: list[Bench] = []

    def make(data_dir: Path | None = None, *, again: Bench | None = None) -> Bench:
        """Return the services; ``again`` is a dead server whose store this one opens."""
        number = len(made)
        if again is None:
            store = Store(migrated_database(tmp_path / f"fresh-{number}.db"))
        else:
            again.liveness.leave()
            store, data_dir = Store(str(again.store._engine.url)), again.data_dir
        store.open()
        bench = make_services(store, data_dir or tmp_path / f"data-{number}")
        made.append(bench)
        return bench

    yield make
    for bench in made:
        bench.liveness.leave()
        bench.store.close()


@pytest.fixture
def bench(make_bench: Callable[[], Bench]) -> Bench:
    """The services with modules ``a``, ``b`` and dataset ``digits``."""
    bench = make_bench()
    bench.upload("digits", DIGITS, DatasetKind.NPZ)
    return bench


def npz(**arrays: np.ndarray) -> bytes:
    """Return arrays as the bytes of an npz file."""
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


DIGITS = npz(data=np.zeros((4, 3), "f"), softmax_label=np.arange(4))
