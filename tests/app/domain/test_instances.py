"""Placing a module's instances on executors, and naming replicas."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from app.domain.instances import (
    as_replica,
    check_instances,
    module_of,
    replica_name,
    serving_executors,
)
from app.domain.module import SINGLE, BindSpec, InputDesc, ModuleRecord, OptimizerSpec, Stage
from app.domain.serving import ServingSpec
from app.errors.tree import Invalid

NAMES = ("cpu(0)", "cpu(1)", "gpu(0)", "cpu(2)", "cpu(3)")
BIND = BindSpec(data_shapes=(InputDesc(name="data", shape=(4, 5)),))


def record(instances: int = 2, **changes: Any) -> ModuleRecord:
    serving = ServingSpec(instances=instances)
    fields: dict[str, Any] = {"id": 3, "name": "net", "symbols": {SINGLE: "{}"}, "bind": BIND}
    return ModuleRecord(**fields | {"serving": serving} | changes)


def test_the_home_comes_first_and_the_others_are_of_its_kind() -> None:
    assert serving_executors(record(1), NAMES) == ("cpu(0)",)
    assert serving_executors(record(2), NAMES)[0] == "cpu(0)"
    assert sorted(serving_executors(record(4), NAMES)) == ["cpu(0)", "cpu(1)", "cpu(2)", "cpu(3)"]
    assert len(serving_executors(record(9), NAMES)) == 4
    assert serving_executors(record(2, executor="gpu(0)"), NAMES) == ("gpu(0)",)
    assert serving_executors(record(2, executor="cpu(7)"), NAMES) == ()
    fewer, more = serving_executors(record(2), NAMES), serving_executors(record(3), NAMES)
    assert more[:2] == fewer


def test_modules_with_the_same_home_are_spread_over_the_others() -> None:
    found = Counter(
        serving_executors(record(2, name=f"net{number}"), NAMES)[1] for number in range(90)
    )
    assert set(found) == {"cpu(1)", "cpu(2)", "cpu(3)"}
    assert min(found.values()) >= 15


def test_more_instances_than_executors_of_the_kind_are_refused() -> None:
    check_instances("cpu(0)", 4, NAMES)
    check_instances("gpu(7)", 1, NAMES)
    with pytest.raises(Invalid, match=r"instances: got 5, expected at most 4.*MODSERVE_DEVICES"):
        check_instances("cpu(0)", 5, NAMES)
    with pytest.raises(Invalid, match=r"instances: got 2, expected at most 1.*gpu\(0\)"):
        check_instances("gpu(0)", 2, NAMES)


@pytest.mark.parametrize(
    "change",
    [
        {"id": 4},
        {"symbols": {SINGLE: '{"nodes":[]}'}},
        {"bind": BindSpec(data_shapes=(InputDesc(name="data", shape=(8, 5)),))},
        {"data_names": ("x",)},
    ],
    ids=str,
)
def test_a_replica_that_would_compute_something_else_has_another_name(
    change: dict[str, Any],
) -> None:
    first = record()
    assert module_of(replica_name(first)) == module_of("net") == "net"
    same = first.evolve(serving=ServingSpec(max_batch_size=3), version=9, durable=False)
    assert replica_name(same) == replica_name(first)
    assert replica_name(first.evolve(**change)) != replica_name(first)


def test_a_replica_has_no_parameters_and_does_not_train() -> None:
    first = record(optimizer=OptimizerSpec(), contexts=("cpu(0)", "cpu(1)"), lost=True)
    replica = as_replica(first, "net@1", "cpu(2)")
    assert (replica.name, replica.executor, replica.contexts) == ("net@1", "cpu(2)", ("cpu(2)",))
    assert replica.stage is Stage.BOUND
    assert replica.bind is not None
    assert not replica.bind.for_training
    assert replica.bind.data_shapes == BIND.data_shapes
