"""Job parameters: what is accepted, and that every mistake is named."""

from __future__ import annotations

import pytest

from app.domain.job import JobKind
from app.domain.job_params import (
    ArraySource,
    DatasetSource,
    FitParams,
    PredictParams,
    dataset_names,
    parse_job_params,
    parse_source,
)
from app.errors.tree import Invalid

FIT = {"dataset": "mnist", "epochs": 2, "batch_size": 64}


def test_fit_has_mxnets_defaults_and_takes_nested_values() -> None:
    params = parse_job_params(
        JobKind.FIT,
        FIT
        | {
            "inputs": {"data": {"array": "images", "shape": [1, 28, 28], "scale": 0.5}},
            "validation": {"dataset": "test"},
            "optimizer": {"name": "sgd", "options": {"learning_rate": 0.1}},
            "checkpoint": {"batches": 100},
        },
    )
    assert isinstance(params, FitParams)
    assert params.inputs["data"].shape == (1, 28, 28)
    assert params.checkpoint.epochs == 1
    assert params.metrics == ("accuracy",)
    assert dataset_names(params) == ("mnist", "test")


def test_a_name_is_short_for_an_array() -> None:
    inputs = {"data": "images", "lengths": {"array": "frames"}}
    validation = {"dataset": "test", "inputs": {"data": "others"}}
    params = parse_job_params(JobKind.FIT, FIT | {"inputs": inputs, "validation": validation})
    assert isinstance(params, FitParams)
    assert params.inputs == {
        "data": ArraySource(array="images"),
        "lengths": ArraySource(array="frames"),
    }
    assert params.validation == DatasetSource(
        dataset="test", inputs={"data": ArraySource(array="others")}
    )
    assert inputs["data"] == "images", "the arguments are not modified"


def test_a_list_is_short_for_columns() -> None:
    inputs = {"data": ["a", "b"], "more": {"all_but": "label"}, "label": "label"}
    params = parse_job_params(JobKind.FIT, FIT | {"inputs": inputs})
    assert params.inputs == {
        "data": ArraySource(columns=("a", "b")),
        "more": ArraySource(all_but=("label",)),
        "label": ArraySource(array="label"),
    }
    assert parse_source({"dataset": "d", "inputs": {"data": ["a"]}}) == DatasetSource(
        dataset="d", inputs={"data": ArraySource(columns=("a",))}
    )


def test_predict_names_its_output() -> None:
    params = parse_job_params(JobKind.PREDICT, {"dataset": "d", "batch_size": 1, "output": "o"})
    assert isinstance(params, PredictParams)
    assert dataset_names(params) == ("d",)


@pytest.mark.parametrize(
    ("kind", "change", "field"),
    [
        (JobKind.FIT, {"epochs": 0}, "epochs"),
        (JobKind.FIT, {"epochs": "2"}, "epochs"),
        (JobKind.FIT, {"batch_size": True}, "batch_size"),
        (JobKind.FIT, {"begin_epoch": -1}, "begin_epoch"),
        (JobKind.FIT, {"last_batch": "keep"}, "last_batch"),
        (JobKind.FIT, {"epoch": 3}, "epoch"),
        (JobKind.FIT, {"dataset": "../x"}, "dataset"),
        (JobKind.FIT, {"validation": {"dataset": "a/b"}}, "validation.dataset"),
        (JobKind.FIT, {"inputs": {"data": {"array": ""}}}, "inputs.data.array"),
        (JobKind.FIT, {"inputs": {"data": ""}}, "inputs.data.array"),
        (JobKind.FIT, {"inputs": {"data": 5}}, "inputs.data"),
        (JobKind.FIT, {"inputs": "data"}, "inputs"),
        (JobKind.FIT, {"inputs": {"data": []}}, "inputs.data"),
        (JobKind.FIT, {"inputs": {"data": [""]}}, "inputs.data.columns[0]"),
        (JobKind.FIT, {"inputs": {"data": {}}}, "inputs.data"),
        (JobKind.FIT, {"inputs": {"data": {"array": "a", "all_but": []}}}, "inputs.data"),
        (
            JobKind.FIT,
            {"inputs": {"data": {"columns": ["a"], "lengths": "n"}}},
            "inputs.data.lengths",
        ),
        (
            JobKind.FIT,
            {"validation": {"dataset": "d", "inputs": {"data": {"scale": 2}}}},
            "validation.inputs.data",
        ),
        (JobKind.FIT, {"classes": {"a": "b"}}, "classes.a"),
        (JobKind.FIT, {"validation": "test"}, "validation"),
        (
            JobKind.FIT,
            {"validation": {"dataset": "d", "inputs": {"data": {"aray": "x"}}}},
            "validation.inputs.data.aray",
        ),
        (JobKind.FIT, {"checkpoint": {"seconds": 0}}, "checkpoint.seconds"),
        (JobKind.SCORE, {}, "epochs"),
        (JobKind.PREDICT, {}, "epochs"),
    ],
)
def test_mistakes_are_named(kind: JobKind, change: dict[str, object], field: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_job_params(kind, FIT | change)
    assert field in [row.field for row in refused.value.field_errors()]
