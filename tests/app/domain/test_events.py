"""Which events a change of a module's record causes."""

from __future__ import annotations

from typing import Any

import pytest

from app.domain.checkpoint import CheckpointTag
from app.domain.events import Happening, ServerEvent, happenings
from app.domain.job import JobEvent
from app.domain.module import SINGLE, BindSpec, InitSpec, InputDesc, ModuleRecord, OptimizerSpec
from app.domain.versions import VersionSpec

BEFORE = ModuleRecord(name="m", symbols={SINGLE: "{}"}).with_init(InitSpec(seed=1))
BIND = BindSpec(data_shapes=(InputDesc(name="data", shape=(4, 8)),))
PROMOTED = VersionSpec(promoted=2, earlier=(None,))
E = ServerEvent


@pytest.mark.parametrize(
    ("before", "after", "has_new_params", "expected"),
    [
        (
            BEFORE,
            BEFORE.evolve(bind=BIND),
            False,
            [(E.MODULE_BOUND, {"for_training": True, "buckets": []})],
        ),
        (
            BEFORE,
            BEFORE.with_init(InitSpec(seed=1)),  # the record is unchanged after training
            True,
            [(E.MODULE_PARAMS_CHANGED, {"source": "init", "durable": True})],
        ),
        (
            BEFORE,
            BEFORE.with_set_params(),
            True,
            [(E.MODULE_PARAMS_CHANGED, {"source": "set", "durable": False})],
        ),
        (
            BEFORE,
            BEFORE.evolve(durable=False),
            False,
            [(E.MODULE_PARAMS_CHANGED, {"source": "training", "durable": False})],
        ),
        (
            BEFORE,
            BEFORE.with_checkpoint(CheckpointTag(3), saved_states=True),
            True,
            [(E.MODULE_LOADED, {"checkpoint": "3", "optimizer_states": True})],
        ),
        (
            BEFORE,
            BEFORE.evolve(versions=PROMOTED),
            False,
            [(E.MODULE_PROMOTED, {"version": "2", "before": "live"})],
        ),
        (
            BEFORE.evolve(versions=PROMOTED),
            BEFORE,
            False,
            [(E.MODULE_ROLLED_BACK, {"version": "live", "before": "2"})],
        ),
        (
            BEFORE.evolve(versions=PROMOTED),
            BEFORE.evolve(versions=PROMOTED.promote(None)),
            False,
            [(E.MODULE_PROMOTED, {"version": "live", "before": "2"})],
        ),
        (
            BEFORE,
            BEFORE.evolve(optimizer=OptimizerSpec(), labels={"out": ("a",)}),
            False,
            [(E.MODULE_CHANGED, {"fields": ["labels", "optimizer"]})],
        ),
        (
            BEFORE,
            BEFORE.evolve(bind=BIND, optimizer=OptimizerSpec()),
            False,
            [
                (E.MODULE_BOUND, {"for_training": True, "buckets": []}),
                (E.MODULE_CHANGED, {"fields": ["optimizer"]}),
            ],
        ),
        (BEFORE, BEFORE.evolve(version=2, updated_at=1.0, generation=2), False, []),
    ],
)
def test_a_change_causes_the_event_of_its_meaning(
    before: ModuleRecord,
    after: ModuleRecord,
    has_new_params: bool,
    expected: list[tuple[ServerEvent, dict[str, Any]]],
) -> None:
    found = happenings(before, after, has_new_params=has_new_params)
    assert found == [Happening(*one) for one in expected]


def test_event_types_are_unique() -> None:
    values = [one.value for one in (*JobEvent, *ServerEvent)]
    assert len(values) == len(set(values))
    assert all(one.startswith(("module_", "executor_")) for one in ServerEvent)
    assert not any(one.startswith(("module_", "executor_")) for one in JobEvent)
