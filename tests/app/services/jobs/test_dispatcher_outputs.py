"""Jobs whose output the dispatcher stores as a dataset."""

from __future__ import annotations

import errno
from typing import Any

import numpy as np

from app.domain.dataset import DatasetKind
from app.domain.job import JobKind, JobStatus
from app.domain.module import BindSpec, InitSpec, InputDesc, ParamsSource
from app.link.job_messages import JobDone
from served.scripted_executor import ScriptedExecutor, dispatching, of, until, until_status

PREDICT = {"dataset": "digits", "batch_size": 2, "output": "answers"}


def make_ready(bench: Any) -> None:
    """Record module ``a`` as bound and initialized."""
    bind = BindSpec(data_shapes=(InputDesc(name="data", shape=(2, 3)),))
    bench.modules.change(
        "a", lambda a: a.evolve(bind=bind, init=InitSpec(), params=ParamsSource.INIT)
    )


async def test_a_predict_job_makes_a_dataset(bench) -> None:
    make_ready(bench)
    executor = ScriptedExecutor()
    async with dispatching(bench, executor):
        job = bench.jobs.submit("a", JobKind.PREDICT, PREDICT)
        await until(lambda: executor.starts)
        path = executor.starts[0].output_path
        assert path is not None
        with open(path, "wb") as file:
            np.savez(file, output0=np.zeros((4, 2), "f"))
        executor.send(JobDone(**of(executor.starts[0])))
        await until_status(bench, job, JobStatus.SUCCEEDED)
    answers = bench.datasets.get("answers")
    assert answers.kind is DatasetKind.NPZ
    assert answers.arrays[0].shape == (4, 2)
    assert len(list((bench.data_dir / "datasets").iterdir())) == 4


async def test_a_predict_job_whose_output_cannot_be_stored_fails(bench) -> None:
    make_ready(bench)
    executor = ScriptedExecutor()
    async with dispatching(bench, executor) as dispatcher:
        job = bench.jobs.submit("a", JobKind.PREDICT, PREDICT | {"output": "digits"})
        await until(lambda: executor.starts)
        with open(executor.starts[0].output_path, "wb") as file:
            np.savez(file, output0=np.zeros(2))
        executor.send(JobDone(**of(executor.starts[0])))
        failed = await until_status(bench, job, JobStatus.FAILED)
        await until(lambda: dispatcher.jobs_by_executor == {"cpu(0)": []})
    assert not list((bench.data_dir / "datasets").glob(".*"))
    assert failed.error["code"] == "in_use"
    assert "'digits'" in failed.error["message"]
    assert bench.datasets.get("digits").examples == 4


async def test_a_predict_job_fails_on_a_full_disk(bench, monkeypatch) -> None:
    def no_room(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    make_ready(bench)
    monkeypatch.setattr(bench.datasets, "adopt", no_room)
    executor = ScriptedExecutor()
    async with dispatching(bench, executor) as dispatcher:
        job = bench.jobs.submit("a", JobKind.PREDICT, PREDICT)
        await until(lambda: executor.starts)
        executor.send(JobDone(**of(executor.starts[0])))
        failed = await until_status(bench, job, JobStatus.FAILED)
        await until(lambda: dispatcher.jobs_by_executor == {"cpu(0)": []})
    assert failed.error["code"] == "storage_full"
