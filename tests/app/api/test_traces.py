"""W3C Trace Context's ``traceparent``."""

from __future__ import annotations

import pytest

from app.api.traces import Trace

TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT_ID = "00f067aa0ba902b7"


def test_a_trace_is_continued_with_a_new_span() -> None:
    trace = Trace.take_over(f"00-{TRACE_ID}-{PARENT_ID}-01")
    assert trace is not None
    assert (trace.trace_id, trace.parent_id, trace.flags) == (TRACE_ID, PARENT_ID, "01")
    assert trace.field == f"00-{TRACE_ID}-{trace.span_id}-01"
    assert trace.span_id != PARENT_ID
    assert Trace.take_over(trace.field) is not None


def test_later_versions_may_have_more_fields() -> None:
    assert Trace.take_over(f"01-{TRACE_ID}-{PARENT_ID}-01-more") is not None


@pytest.mark.parametrize(
    "field",
    [
        "",
        "00",
        f"00-{TRACE_ID}-{PARENT_ID}",
        f"00-{TRACE_ID.upper()}-{PARENT_ID}-01",
        f"00-{'0' * 32}-{PARENT_ID}-01",
        f"00-{TRACE_ID}-{'0' * 16}-01",
        f"00-{TRACE_ID}-{PARENT_ID}-01-more",
        f"ff-{TRACE_ID}-{PARENT_ID}-01",
        f"00-{TRACE_ID}-{PARENT_ID}-01\r\nx: y",
    ],
)
def test_an_invalid_header_is_ignored(field: str) -> None:
    assert Trace.take_over(field) is None
