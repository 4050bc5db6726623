"""Domain values from plain ones: strict, naming every invalid field."""

from __future__ import annotations

import math
from typing import Any

import pytest

from app.api.v1.requests import LoadBody
from app.domain.codec import canonical_json, from_plain, to_plain
from app.domain.job_params import FitParams
from app.domain.module import BindSpec, BucketShapes, InputDesc, OptimizerSpec
from app.errors.tree import FieldError, Invalid

BIND = BindSpec(
    data_shapes=(InputDesc(name="data", shape=(64, 10), layout="NC"),),
    grad_req={"fc_weight": "add"},
    buckets={"20": BucketShapes(data_shapes=(InputDesc(name="data", shape=(64, 20)),))},
)

AT_LEAST_ONE = "at least 1 character"


def test_values_are_read_back_as_written() -> None:
    plain = to_plain(BIND)
    assert plain["data_shapes"][0]["shape"] == [64, 10]
    assert from_plain(BindSpec, plain) == BIND


def faults(cls: type, data: Any, field: str = "") -> list[FieldError]:
    with pytest.raises(Invalid) as refused:
        from_plain(cls, data, field)
    return list(refused.value.field_errors())


@pytest.mark.parametrize(
    ("cls", "data", "field", "got", "expected"),
    [
        (BucketShapes, {}, "data_shapes", "nothing", "a value; the field is required"),
        (BindSpec, [], "body", "[]", "an object"),
        (
            BindSpec,
            {"data_shapes": [{"name": "data", "shape": [64, "10"]}]},
            "data_shapes[0].shape[1]",
            "'10'",
            "a valid integer",
        ),
        (
            OptimizerSpec,
            {"nme": "sgd"},
            "nme",
            "'sgd'",
            "one of the fields name, options, kvstore; did you mean 'name'?",
        ),
        (
            BindSpec,
            {"data_shapes": [{"name": "data", "shape": [1], "kind": 2}]},
            "data_shapes[0].kind",
            "2",
            "no field of this name",
        ),
        (FitParams, {"dataset": "", "epochs": 1, "batch_size": 1}, "dataset", "''", AT_LEAST_ONE),
        (OptimizerSpec, {"name": 5}, "name", "5", "a valid string"),
        (
            FitParams,
            {"dataset": "d", "epochs": 0, "batch_size": 1},
            "epochs",
            "0",
            "greater than 0",
        ),
        (
            FitParams,
            {"dataset": "d", "epochs": True, "batch_size": 1},
            "epochs",
            "True",
            "a valid integer",
        ),
        (
            FitParams,
            {"dataset": "d", "epochs": 1, "batch_size": 1, "last_batch": "keep"},
            "last_batch",
            "'keep'",
            "'pad', 'discard' or 'roll_over'",
        ),
    ],
)
def test_an_invalid_field_is_named(
    cls: type, data: Any, field: str, got: str, expected: str
) -> None:
    (fault,) = faults(cls, data)
    assert (fault.field, fault.got, fault.expected) == (field, got, expected)


def test_a_field_of_a_union_type_is_named_once() -> None:
    (fault,) = faults(LoadBody, {"epoch": 3.5})
    assert (fault.field, fault.got) == ("epoch", "3.5")
    assert fault.expected == "a valid integer or a valid string"


def test_every_invalid_field_is_named() -> None:
    found = faults(FitParams, {"epochs": -1, "batch_size": 1.5, "epoch": 2}, "job")
    assert {fault.field for fault in found} == {
        "job.dataset",
        "job.epochs",
        "job.batch_size",
        "job.epoch",
    }


@pytest.mark.parametrize(
    "shapes", [None, {"data": [64, 10]}, [["data", [64, 10]]], "data", [{"name": "data"}]]
)
def test_a_wrong_structure_is_answered_with_an_example(shapes: Any) -> None:
    (fault,) = faults(BindSpec, {"data_shapes": shapes})
    assert fault.hint.startswith("for example [")
    assert "[64, 3, 32, 32]" in fault.hint


def test_nan_and_infinity_are_refused() -> None:
    (fault,) = faults(OptimizerSpec, {"options": {"learning_rate": {1, 2}}}, "optimizer")
    assert (fault.field, fault.expected[:17]) == ("optimizer", "plain JSON values")
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical_json(math.nan)


def test_canonical_json_is_equal_for_equal_values() -> None:
    assert canonical_json({"b": [1, 2], "a": "ü"}) == '{"a":"\\u00fc","b":[1,2]}'
    assert canonical_json((10, 20)) == canonical_json([10, 20]) == "[10,20]"
    assert canonical_json(None) == "null"
