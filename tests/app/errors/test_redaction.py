"""Keys appear nowhere, neither in answers nor in the log."""

from __future__ import annotations

import logging

import pytest
import structlog

from app.domain.api_key import key_id_of, new_key_text
from app.errors.http import to_problem
from app.errors.redaction import redacted
from app.errors.tree import Invalid
from app.main import configure_logging
from app.settings import Settings


def test_only_the_id_of_a_key_is_shown() -> None:
    first, second = new_key_text(), new_key_text()
    text = redacted(f"got {first!r}, then Bearer {second}; msk_ is no key")
    assert first not in text
    assert second not in text
    assert text == (
        f"got 'msk_{key_id_of(first)}_…', then Bearer msk_{key_id_of(second)}_…; msk_ is no key"
    )


def test_problems_do_not_show_a_key_sent_in_the_wrong_place() -> None:
    key = new_key_text()
    problem = to_problem(Invalid(key, key, "a name"), "id", f"/v1/{key}")
    assert key not in str(problem)


@pytest.mark.parametrize("form", ["text", "json"])
def test_log_lines_do_not_either(form: str, caplog: pytest.LogCaptureFixture) -> None:
    before = structlog.get_config()
    try:
        configure_logging(Settings(log_format=form))
        key = new_key_text()
        with caplog.at_level(logging.WARNING):
            structlog.get_logger("test.redaction").warning("asked", path=f"/v1/{key}", count=3)
    finally:
        structlog.configure(**before)
    (record,) = caplog.records
    assert key not in str(record.__dict__)
    assert key_id_of(key) in str(record.__dict__)
