"""Tasks, frames, counters and markers entered by scripts, in MXNet 1.9.1's categories."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import core as mx
from core.errors import UsageError


def test_durations_are_shown_under_their_domain(trace: Path) -> None:
    domain = mx.profiler.Domain("dom")
    mx.profiler.set_state("run")
    for one in (domain.new_task("tsk"), domain.new_frame("frm"), mx.profiler.Event("evt")):
        one.start()
        one.stop()
    times = json.loads(mx.profiler.dumps(format="json"))["Time"]
    assert {category: set(names) for category, names in times.items()} == {
        "dom": {"tsk"},
        "dom,frame": {"frm"},
        "event": {"evt"},
    }


def test_counters_keep_their_values(trace: Path) -> None:
    mx.profiler.set_state("run")
    counter = mx.profiler.Domain("dom").new_counter("cnt", 3)
    counter += 2
    counter -= 1
    counter.decrement(4)
    figures = json.loads(mx.profiler.dumps(format="json"))["Counter"]["dom"]["cnt"]
    assert figures == {"Count": 4, "Min": 0.0, "Max": 5.0, "Avg": 3.0}
    mx.profiler.dump()
    events = json.loads(trace.read_text())["traceEvents"]
    assert [event["args"]["cnt"] for event in events if event["ph"] == "C"] == [3, 5, 4, 0]


def test_markers_are_instants_in_the_trace(trace: Path) -> None:
    mx.profiler.set_state("run")
    mx.profiler.Domain("dom").new_marker("mk").mark("thread")
    mx.profiler.dump()
    (mark,) = (e for e in json.loads(trace.read_text())["traceEvents"] if e["ph"] == "i")
    assert (mark["name"], mark["cat"], mark["s"]) == ("mk", "dom,instant_marker", "t")


def test_nothing_is_recorded_while_the_profiler_is_stopped(trace: Path) -> None:
    domain = mx.profiler.Domain("dom")
    task = domain.new_task("tsk")
    task.start()
    task.stop()
    domain.new_counter("cnt", 3)
    domain.new_marker("mk").mark()
    mx.profiler.set_state("run")
    found = json.loads(mx.profiler.dumps(format="json"))
    assert (found["Time"], found["Counter"]) == ({}, {})


def test_misuse_is_refused() -> None:
    with pytest.raises(UsageError, match="call start"):
        mx.profiler.Event("evt").stop()
    with pytest.raises(UsageError, match="scope is 'here'"):
        mx.profiler.Domain("dom").new_marker("mk").mark("here")


def test_str_of_each_is_its_name() -> None:
    domain = mx.profiler.Domain("dom")
    things = [domain, domain.new_task("a"), domain.new_frame("b"), mx.profiler.Event("c")]
    things += [domain.new_counter("d"), domain.new_marker("e")]
    assert [str(one) for one in things] == ["dom", "a", "b", "c", "d", "e"]
