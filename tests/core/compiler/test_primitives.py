"""Operators that exist only in plans."""

from __future__ import annotations

from core.compiler.primitives import Copy, Zeros


def test_instances_are_equal_only_to_themselves():
    first, second = Copy(), Copy()
    assert first == first
    assert first != second
    assert len({first, second, Zeros(), Zeros()}) == 4
