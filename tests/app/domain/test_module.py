"""The stage of a module, and which stage each call needs."""

from __future__ import annotations

import itertools

import pytest
from pydantic import TypeAdapter

from app.domain.checkpoint import CheckpointTag
from app.domain.codec import from_plain, to_plain
from app.domain.module import (
    CALLS,
    SINGLE,
    BindSpec,
    BucketShapes,
    InitSpec,
    InputDesc,
    ModuleRecord,
    OptimizerSpec,
    ParamsSource,
    Stage,
    require,
)
from app.errors.tree import Conflict, Invalid, ParamsLost, WrongStage

DATA = (InputDesc(name="data", shape=(4, 8)),)
CREATED = ModuleRecord(name="m", symbols={SINGLE: "{}"})
BOUND = CREATED.evolve(bind=BindSpec(data_shapes=DATA))
INITIALIZED = BOUND.evolve(init=InitSpec(), params=ParamsSource.INIT)
READY = INITIALIZED.evolve(optimizer=OptimizerSpec())
STAGES = {
    Stage.CREATED: CREATED,
    Stage.BOUND: BOUND,
    Stage.INITIALIZED: INITIALIZED,
    Stage.READY: READY,
}


def test_the_stage_follows_from_the_record() -> None:
    assert [record.stage for record in STAGES.values()] == list(STAGES)
    loaded = CREATED.evolve(params=ParamsSource.CHECKPOINT, checkpoint=CheckpointTag(3))
    assert loaded.stage is Stage.CREATED
    assert loaded.evolve(bind=BOUND.bind).stage is Stage.INITIALIZED
    assert READY.evolve(bind=BindSpec(data_shapes=DATA, for_training=False)).stage is (
        Stage.INITIALIZED
    )


@pytest.mark.parametrize(("call", "stage"), list(itertools.product(CALLS, STAGES)))
def test_every_call_at_every_stage(call: str, stage: Stage) -> None:
    record = STAGES[stage]
    order = list(Stage)
    if order.index(stage) >= order.index(CALLS[call].needs):
        require(record, call)
        return
    with pytest.raises(WrongStage) as refused:
        require(record, call)
    said = refused.value.extensions()
    assert said["is"] == stage
    assert said["needs"] == CALLS[call].needs
    assert said["call"].startswith("POST /v1/modules/m/")


@pytest.mark.parametrize(
    ("stage", "call"),
    [
        (Stage.CREATED, "POST /v1/modules/m/bind"),
        (Stage.BOUND, "POST /v1/modules/m/params/init"),
        (Stage.INITIALIZED, "POST /v1/modules/m/optimizer"),
    ],
)
def test_the_suggested_call_leads_one_stage_on(stage: Stage, call: str) -> None:
    with pytest.raises(WrongStage, match=call):
        require(STAGES[stage], "update")


@pytest.mark.parametrize("call", [name for name, call in CALLS.items() if call.training])
def test_training_calls_need_a_module_bound_for_training(call: str) -> None:
    record = READY.evolve(bind=BindSpec(data_shapes=DATA, for_training=False))
    with pytest.raises(Conflict, match="for_training"):
        require(record, call)


@pytest.mark.parametrize("call", CALLS)
def test_lost_parameters_cannot_be_read(call: str) -> None:
    lost = READY.evolve(lost=True, durable=False)
    assert lost.stage is Stage.BOUND
    if CALLS[call].needs.rank >= Stage.INITIALIZED.rank:
        with pytest.raises(ParamsLost, match="load a checkpoint"):
            require(lost, call)
    else:
        require(lost, call)


@pytest.mark.parametrize(
    ("record", "is_durable"),
    [
        (READY.with_set_params(), False),
        (READY.with_init(InitSpec(seed=3)), True),
        (READY.with_init(InitSpec()), False),
        (READY.with_checkpoint(CheckpointTag(2), saved_states=True), True),
    ],
)
def test_a_module_with_new_parameters_is_not_lost_and_durable_if_they_can_be_restored(
    record: ModuleRecord, is_durable: bool
) -> None:
    assert record.durable is is_durable
    assert not record.lost
    assert record.stage is Stage.READY
    assert record.saved_states is (record.params is ParamsSource.CHECKPOINT)


def test_a_specification_survives_json() -> None:
    spec = BindSpec(
        data_shapes=DATA,
        label_shapes=(InputDesc(name="label", shape=(4,), dtype="int32", layout="N"),),
        grad_req={"fc1_weight": "add"},
        buckets={"20": BucketShapes(data_shapes=DATA)},
    )
    assert from_plain(BindSpec, to_plain(spec)) == spec
    record = READY.evolve(checkpoint=CheckpointTag(2, 7), bind=spec)
    assert from_plain(ModuleRecord, to_plain(record)) == record


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ({"data_shapes": [{"name": "x", "shape": [1, "2"]}]}, "bind.data_shapes[0].shape[1]"),
        ({"data_shapes": [], "grad_req": "sum"}, "bind.grad_req"),
        ({"data_shapes": [], "for_trainin": True}, "bind.for_trainin"),
        ({"data_shapes": [], "for_training": 1}, "bind.for_training"),
        ([], "bind"),
        ({"data_shapes": [{"name": "x", "shape": [2**70]}]}, "bind"),
    ],
)
def test_an_invalid_specification_names_the_field(data: object, field: str) -> None:
    with pytest.raises(Invalid) as refused:
        from_plain(BindSpec, data, "bind")
    assert refused.value.field_errors()[0].field == field


@pytest.mark.parametrize(
    ("shape", "given", "kept"),
    [
        ((8, 6), None, None),
        ((8, 6), "NCHW", None),  # written for every input by older versions
        ((8,), "NCHW", None),
        ((8, 3, 4, 4), "NCHW", "NCHW"),
        ((5, 8, 6), "TNC", "TNC"),
        ((5, 8, 6), "TN", "TN"),
        ((3,), "", ""),
    ],
)
def test_a_layout_is_kept_only_where_it_matters(
    shape: tuple[int, ...], given: str | None, kept: str | None
) -> None:
    described = InputDesc(name="data", shape=shape, layout=given)
    assert described.layout == kept
    assert from_plain(InputDesc, to_plain(described)) == described
    body = {"name": "data", "shape": shape, "layout": given}
    assert TypeAdapter(InputDesc).validate_python(body) == described
