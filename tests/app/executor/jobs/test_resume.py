"""Fits in real executor processes that are killed and resume with the same bits."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from pathlib import Path

import numpy as np

from app.domain.module import SINGLE, ModuleRecord
from app.files.attempt_fence import FENCE
from app.files.checkpoint_files import list_tags, recover
from app.link import calls
from app.link.process import ProcessClient, ProcessOptions

OPTIONS = ProcessOptions(program=("app.executor",), threads=1)
CHECKPOINT = {"epochs": 1, "batches": 2}


def fit_params(epochs: int, **changes) -> dict:
    return {
        "dataset": "toy",
        "validation": {"dataset": "toy"},
        "epochs": epochs,
        "batch_size": 8,
        "seed": 3,
        "optimizer": {"name": "adam", "options": {"learning_rate": 0.01}},
        "initializer": {"initializer": "xavier"},
        "checkpoint": CHECKPOINT,
        **changes,
    }


async def ask(client: ProcessClient, call) -> dict[str, np.ndarray]:
    method, params = calls.to_call(call)
    reply = await client.call(method, params)
    tensors = {name: np.array(value) for name, value in reply.tensors.items()}
    reply.release()
    return tensors


async def started(record: ModuleRecord, job) -> ProcessClient:
    """Return a new executor that has started a job."""
    client = ProcessClient("cpu(0)", OPTIONS)
    await client.start()
    await ask(client, calls.CreateModule(record=record))
    await ask(client, job)
    return client


async def next_event(client: ProcessClient, *kinds: str) -> dict:
    """Return the next event of one of these types."""
    async for event in client.events():
        if event["type"] in kinds:
            return event
    raise AssertionError("the events ended")


async def finished(record: ModuleRecord, job) -> tuple[dict, dict[str, np.ndarray]]:
    """Run a job in its own executor; return its result and the parameters."""
    client = await started(record, job)
    try:
        event = await asyncio.wait_for(
            next_event(client, "done", "failed", "paused", "cancelled"), 60
        )
        assert event["type"] == "done", event
        result = {name: value for name, value in event["result"].items() if name != "seconds"}
        return result, await ask(client, calls.GetParams(module="net"))
    finally:
        await client.stop()


def newest(root: Path) -> str | None:
    """Return the checkpoint tag a server would resume from, after clean-up."""
    recover(root)
    tags = list_tags(root)
    return str(tags[-1]) if tags else None


async def test_a_fit_killed_repeatedly_ends_with_the_same_bits(
    jobs, tmp_path, make_network, toy_data
):
    jobs.dataset("toy", toy_data)
    symbol = make_network(dropout=0.4, batch_norm=True)
    record = ModuleRecord(name="net", symbols={SINGLE: symbol.tojson()})
    epochs = 6
    jobs.root = tmp_path / "undisturbed"
    expected, params = await finished(record, jobs.start(record, fit_params(epochs)))

    jobs.root = tmp_path / "disturbed"
    moments = random.Random(0)
    for attempt in range(1, 5):
        job = jobs.start(record, fit_params(epochs), resume=newest(jobs.root), attempt=attempt)
        client = await started(record, job)
        if attempt > 1:  # later attempts make some progress, however slow the machine is
            await next_event(client, "checkpoint", "done")
        await asyncio.sleep(moments.uniform(0.0, 0.1))
        os.kill(client.pid, signal.SIGKILL)
        assert await client.exited == -signal.SIGKILL
    tag = newest(jobs.root)
    assert tag is not None
    job = jobs.start(record, fit_params(epochs), resume=tag, attempt=5)
    result, resumed = await finished(record, job)
    assert result == expected
    assert resumed.keys() == params.keys()
    for name, value in resumed.items():
        assert value.tobytes() == params[name].tobytes(), name
    hidden = [path.name for path in jobs.root.iterdir() if path.name.startswith(".")]
    assert hidden == [FENCE]


async def test_predictions_are_served_during_a_fit(jobs, make_network, toy_data):
    jobs.dataset("toy", toy_data)
    record = ModuleRecord(name="net", symbols={SINGLE: make_network().tojson()})
    client = await started(record, jobs.start(record, fit_params(40, checkpoint={"epochs": 0})))
    events: list[dict] = []

    async def listen() -> None:
        async for event in client.events():
            events.append(event)
            if event["type"] == "done":
                return

    listening = asyncio.create_task(listen())
    while not any(event["type"] == "prepared" for event in events):
        await asyncio.sleep(0.01)
    answers = []
    while not listening.done():
        reply = await client.call("predict", {"module": "net"}, {"data": toy_data["data"]})
        answers.append(np.array(reply.tensors["softmax_output"]))
        reply.release()
    await listening
    assert len(answers) > 20
    assert not np.array_equal(answers[0], answers[-1])
    accuracy = (answers[-1].argmax(axis=1) == toy_data["softmax_label"]).mean()
    assert accuracy > 0.8
    await client.stop()
