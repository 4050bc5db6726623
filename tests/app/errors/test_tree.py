"""The error table: every class has a row, and every answer names what is wrong."""

from __future__ import annotations

import json
from importlib import import_module

import pytest

from app.errors.http import ENGINE_KINDS, ERROR_TABLE, error_code, error_kind, to_problem
from app.errors.tree import (
    Damaged,
    ExecutorGone,
    FieldError,
    HostError,
    Invalid,
    NotFound,
    PreconditionFailed,
    ServiceError,
    TooLarge,
    Unavailable,
    UnsupportedMedia,
    WrongStage,
)
from app.executor.faults import ENGINE_CODES, client_fault, to_host_error
from core import errors as engine


def subclasses(cls: type) -> set[type]:
    found = set(cls.__subclasses__())
    return found.union(*(subclasses(sub) for sub in found))


def test_every_error_class_has_its_own_row() -> None:
    own = {cls for cls in subclasses(ServiceError) if cls.__module__.startswith("app.")}
    assert own <= set(ERROR_TABLE)
    for cls in own:
        assert cls.__name__ in import_module(cls.__module__).__all__


def test_every_error_of_the_engine_has_a_code_with_a_row() -> None:
    answered = {kind.code for kind in (*ERROR_TABLE.values(), *ENGINE_KINDS)}
    assert set(ENGINE_CODES.values()) <= answered
    assert {kind.code for kind in ENGINE_KINDS} <= set(ENGINE_CODES.values())
    for cls in (vars(engine)[name] for name in engine.__all__ if name[0].isupper()):
        assert any(base in ENGINE_CODES for base in cls.__mro__), cls


def test_rows_are_consistent() -> None:
    rows = (*ERROR_TABLE.values(), *ENGINE_KINDS)
    for kind in rows:
        assert 400 <= kind.status < 600
        assert kind.status != 500
        assert kind.code.replace("_", "").isalnum()
        same = {other.status for other in rows if other.code == kind.code}
        assert len(same) == 1, f"{kind.code} has one status wherever it comes from"


EXAMPLES: list[tuple[BaseException, int, str]] = [
    (NotFound("job", 7), 404, "not_found"),
    (WrongStage("update", needs="ready", is_="bound", call="POST /x"), 409, "wrong_stage"),
    (Invalid("epochs", 0, "at least 1"), 422, "invalid"),
    (TooLarge("body", got=10, limit=5, setting="MODSERVE_X"), 413, "too_large"),
    (UnsupportedMedia("text/html", ["application/json"]), 415, "unsupported_media_type"),
    (Unavailable("no place", retry_after_seconds=2.6), 503, "unavailable"),
    (PreconditionFailed("generation", got=1, present=2, hint="reload"), 412, "precondition_failed"),
    (HostError("invalid_shape", "data has 3 columns", "data"), 422, "invalid_shape"),
    (ExecutorGone("it died"), 503, "executor_gone"),
    (to_host_error(engine.UnknownOperator("operator 'Foo' is new")), 422, "unknown_operator"),
    (to_host_error(engine.FormatError("truncated")), 422, "damaged"),
]


@pytest.mark.parametrize(("error", "status", "code"), EXAMPLES)
def test_errors_become_problems(error: BaseException, status: int, code: str) -> None:
    problem = to_problem(error, "req-1", "/v1/x")
    body = problem.body
    assert (problem.status, body["status"], body["code"]) == (status, status, code)
    assert error_code(error) == code
    assert body["type"] == f"/v1/errors/{code}"
    assert body["title"] == error_kind(error).title
    assert (body["request_id"], body["instance"]) == ("req-1", "/v1/x")
    assert str(error) in body["detail"]
    assert ("Retry-After" in problem.headers) == (status == 503)


def test_a_subclass_without_a_row_uses_its_bases() -> None:
    class Special(NotFound):
        pass

    assert error_kind(Special("x", 1)).status == 404


@pytest.mark.parametrize(
    "error", [KeyError("password"), HostError("internal", "password"), HostError("?", "password")]
)
def test_internal_errors_reveal_only_the_request_id(error: BaseException) -> None:
    problem = to_problem(error, "req-1", "/v1/x")
    assert problem.status == 500
    assert problem.body["code"] == "internal"
    assert "password" not in str(problem.body)


def test_fields_are_named_with_got_and_expected() -> None:
    rows = [FieldError("a", "1", "2"), FieldError("b", "x", "y", "do z")]
    error = Invalid.from_errors(rows)
    assert str(error.message) == "a: got 1, expected 2; b: got x, expected y; do z"
    assert to_problem(error, "r", "/").body["errors"] == [
        {"field": "a", "got": "1", "expected": "2", "hint": ""},
        {"field": "b", "got": "x", "expected": "y", "hint": "do z"},
    ]
    (row,) = to_problem(HostError("invalid", "bad", "data"), "r", "/").body["errors"]
    assert row["field"] == "data"


def test_errors_of_an_executor_are_answered_like_our_own() -> None:
    stage = WrongStage("predict", needs="initialized", is_="bound", call="POST .../params/init")
    invalid = Invalid.from_errors([FieldError("a", "1", "2", "do z"), FieldError("b", "x", "y")])
    for error in (stage, invalid, TooLarge("body", got=2, limit=1, setting="S")):
        sent = HostError(*json.loads(json.dumps(to_host_error(error).to_row())))
        assert to_problem(sent, "r", "/").body == to_problem(error, "r", "/").body


def test_several_errors_keep_their_class_and_text() -> None:
    error = Damaged.from_errors([FieldError("f", "x", "y")])
    assert type(error) is Damaged
    assert str(error) == error.message == "f: got x, expected y"


def test_long_values_are_shortened() -> None:
    error = Invalid("data", "x" * 10_000, "less")
    assert len(str(error)) < 250
    assert "10000 chars" in str(error)


def test_wrong_stage_tells_programs_what_to_call() -> None:
    error = WrongStage("update", needs="ready", is_="bound", call="POST /v1/modules/m/params/init")
    body = to_problem(error, "r", "/").body
    assert (body["needs"], body["is"]) == ("ready", "bound")
    assert body["call"] == "POST /v1/modules/m/params/init"


def test_retry_after_is_whole_seconds_and_at_least_one() -> None:
    assert Unavailable("x", retry_after_seconds=0.2).headers() == {"Retry-After": "1"}
    assert Unavailable("x", retry_after_seconds=2.6).headers() == {"Retry-After": "3"}


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (engine.MXNetError("the graph has no outputs"), "engine"),
        (engine.DeviceError("gpu(0) does not exist"), "invalid_device"),
        (engine.KernelError("the device's library refuses to compute it"), "kernel_failed"),
    ],
)
def test_what_the_engine_refuses_names_the_field_and_the_remedy(
    error: engine.MXNetError, code: str
) -> None:
    with pytest.raises(HostError) as refused, client_fault("data_shapes"):
        raise error
    problem = to_problem(refused.value, "1", "/v1/modules/net/bind")
    assert (problem.status, problem.body["code"]) == (422, code)
    (row,) = problem.body["errors"]
    assert (row["field"], row["got"]) == ("data_shapes", str(error))
    assert row["expected"]
    assert row["hint"]
