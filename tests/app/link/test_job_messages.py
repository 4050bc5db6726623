"""Messages between dispatcher and executor survive the wire; malformed ones are refused."""

from __future__ import annotations

import json
from typing import get_args

import pytest

from app.domain.checkpoint import CheckpointTag
from app.domain.dataset import ArrayInfo, DatasetKind, DatasetRecord
from app.domain.job import JobAction, JobKind
from app.domain.module import (
    BindSpec,
    BucketShapes,
    InitSpec,
    InputDesc,
    OptimizerSpec,
)
from app.errors.tree import Invalid
from app.link import job_messages as messages
from app.link.job_messages import (
    DatasetFile,
    ExecutorEvent,
    JobControl,
    JobStart,
    control_from_wire,
    event_from_wire,
    start_from_wire,
    to_wire,
)

WHO = {"job_id": 3, "attempt": 2}
DATA = (InputDesc(name="data", shape=(2, 3)),)
EVENTS: list[ExecutorEvent] = [
    messages.JobPrepared(
        **WHO,
        bind=BindSpec(data_shapes=DATA, buckets={"10": BucketShapes(data_shapes=DATA)}),
        init=InitSpec(seed=1),
        optimizer=OptimizerSpec(options={"learning_rate": 0.1}),
    ),
    messages.JobProgress(**WHO, epoch=1, epochs=2, batch=3, metrics={"accuracy": 0.5}),
    messages.JobMetric(**WHO, epoch=1, part="validation", metrics={"accuracy": None}),
    messages.JobStatistics(
        **WHO, epoch=1, batch=3, arrays=({"name": "fc_weight", "shape": [2, 3], "mean": None},)
    ),
    messages.JobLog(**WHO, level="warning", message="hm"),
    messages.JobCheckpoint(**WHO, epoch=1, batch=5),
    messages.JobDone(**WHO, result={"accuracy": 0.5}),
    messages.JobFailed(**WHO, code="invalid", message="m", field="f"),
    messages.JobPaused(**WHO),
    messages.JobCancelled(**WHO),
]


def over_the_wire(plain: dict) -> dict:
    return json.loads(json.dumps(plain))


def test_there_is_an_example_of_every_event() -> None:
    assert {type(event) for event in EVENTS} == set(get_args(ExecutorEvent))


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.type)
def test_events_survive_the_wire(event: ExecutorEvent) -> None:
    assert event_from_wire(over_the_wire(to_wire(event))) == event


def test_start_and_control_survive_the_wire() -> None:
    record = DatasetRecord(
        name="d",
        kind=DatasetKind.NPZ,
        arrays=(ArrayInfo(name="x", shape=(2,), dtype="float32"),),
        size=1,
        sha256="0" * 64,
    )
    start = JobStart(
        **WHO,
        kind=JobKind.FIT,
        params={"epochs": 1},
        module="m",
        init=InitSpec(initializer="xavier", seed=3),
        optimizer=OptimizerSpec(name="sgd"),
        datasets={"d": DatasetFile(record=record, path="/x")},
        checkpoint_root="/c",
        resume="/c/1.2",
    )
    assert start_from_wire(over_the_wire(to_wire(start))) == start
    control = JobControl(**WHO, action=JobAction.PAUSE)
    assert control_from_wire(over_the_wire(to_wire(control))) == control


def test_a_checkpoint_message_names_its_position() -> None:
    assert messages.JobCheckpoint(**WHO, epoch=1, batch=5).tag == CheckpointTag(1, 5)


def test_unknown_events_are_ignored_and_malformed_ones_refused() -> None:
    assert event_from_wire({"type": "heartbeat"}) is None
    assert event_from_wire({}) is None
    with pytest.raises(Invalid, match="attempt"):
        event_from_wire({"type": "done", "job_id": 1})
    with pytest.raises(Invalid, match="action"):
        control_from_wire({"job_id": 1, "attempt": 1, "action": "stop"})
