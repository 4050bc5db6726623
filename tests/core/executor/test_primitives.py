"""Operators that only plans contain."""

from __future__ import annotations

from core.executor.primitives import Copy, Zeros


def test_each_is_equal_to_itself_alone():
    first, second = Copy(), Copy()
    assert first == first
    assert first != second
    assert len({first, second, Zeros(), Zeros()}) == 4
