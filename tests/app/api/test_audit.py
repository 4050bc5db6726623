"""Repeated refusals do not fill the audit log."""

from __future__ import annotations

import logging
import time

import pytest
import structlog
from structlog.testing import LogCapture

from app.api import audit as audit_module
from app.api.audit import Audit

SCOPE = {"method": "GET", "path": "/v1/jobs", "client": ("10.0.0.1", 4), "state": {}}


def test_repeated_refusals_are_logged_as_a_count(monkeypatch: pytest.MonkeyPatch) -> None:
    capture = LogCapture()
    # With a level of its own: other tests start servers, whose level holds for the process.
    level = structlog.make_filtering_bound_logger(logging.INFO)
    log = structlog.wrap_logger(None, processors=[capture], wrapper_class=level)
    monkeypatch.setattr(audit_module, "_log", log)
    audit = Audit()
    monkeypatch.setattr(time, "monotonic", lambda: 7.0)
    for _ in range(1000):
        audit.refused(SCOPE, None, 401, "no key")
    monkeypatch.setattr(time, "monotonic", lambda: 8.0)
    audit.refused(SCOPE, None, 401, "no key")
    lines = capture.entries
    assert [line["event"] for line in lines] == ["refused"] * 20 + ["more refusals", "refused"]
    assert lines[20]["count"] == 980
    assert lines[0]["client"] == "10.0.0.1"
