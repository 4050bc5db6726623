"""SQL filters agree with the domain's view of records."""

from __future__ import annotations

import pytest

from app.domain.declaration import FolderModel
from app.domain.module import (
    BindSpec,
    InitSpec,
    InputDesc,
    ModuleKind,
    ModuleRecord,
    OptimizerSpec,
    ParamsSource,
    Stage,
)
from app.store.filters import ModuleFilter
from app.store.modules import insert_module, list_modules
from app.store.store import Store

SPEC = BindSpec(data_shapes=(InputDesc(name="data", shape=(1, 2)),))
INFERENCE = BindSpec(data_shapes=(InputDesc(name="data", shape=(1, 2)),), for_training=False)
RECORDS = [
    ModuleRecord(name=f"m{number}", symbols={"null": "{}"}, **fields)
    for number, fields in enumerate(
        {
            "bind": bind,
            "init": None if params is None else InitSpec(),
            "params": params,
            "optimizer": optimizer,
            "lost": lost,
            "durable": not lost,
        }
        for bind in (None, SPEC, INFERENCE)
        for params in (None, ParamsSource.INIT, ParamsSource.SET)
        for optimizer in (None, OptimizerSpec())
        for lost in (False, True)
    )
]


@pytest.mark.parametrize("stage", Stage)
def test_rows_have_the_stage_of_their_records(store: Store, stage: Stage) -> None:
    with store.write() as connection:
        for record in RECORDS:
            insert_module(connection, record)
    with store.read() as connection:
        wanted = ModuleFilter(stages=[stage], kinds=[ModuleKind.MODULE])
        found = [one.name for one in list_modules(connection, wanted, None, 200).items]
    expected = [record.name for record in RECORDS if record.stage is stage]
    assert expected
    assert found == sorted(expected)


def test_only_modules_made_from_models_are_found(store: Store) -> None:
    model = FolderModel(model="lenet", signature="0" * 64)
    with store.write() as connection:
        insert_module(connection, ModuleRecord(name="made", symbols={"null": "{}"}))
        insert_module(connection, ModuleRecord(name="of", symbols={"null": "{}"}, folder=model))
    with store.read() as connection:
        found = list_modules(connection, ModuleFilter(only_models=True), None, 200).items
    assert [one.name for one in found] == ["of"]
