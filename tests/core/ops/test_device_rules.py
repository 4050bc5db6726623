"""Operators use only what a GPU's array library supports.

CuPy is stricter than NumPy: outputs have exactly the shape of the broadcast inputs, masks that of
the target, and ``take`` has no mode. NumPy stands in for it here, under these rules.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

from core.ops import Run
from oracle.case import Case, all_cases
from oracle.run_operator import OperatorRun

_CASES = [pytest.param(case, id=f"{family}-{case.id}") for family, case in all_cases()]


class StrictUfunc:
    """An elementwise function that writes only outputs of exactly the right shape."""

    def __init__(self, ufunc: np.ufunc) -> None:
        self._ufunc = ufunc
        self.at = ufunc.at

    def __call__(self, *inputs: Any, out: Any = None, **options: Any) -> Any:
        if out is not None:
            shape = np.broadcast_shapes(*map(np.shape, inputs))
            assert shape == out.shape, f"{self._ufunc.__name__} of {shape} into {out.shape}"
        assert options.keys() <= {"casting", "dtype"}
        return self._ufunc(*inputs, out=out, **options)


def strict_copyto(target: Any, source: Any, casting: str = "same_kind", where: Any = None) -> None:
    """Copy; mask and source together must have the target's shape."""
    if where is None:
        np.copyto(target, source, casting=casting)
        return
    assert np.broadcast_shapes(np.shape(source), where.shape) == target.shape
    np.copyto(target, source, casting=casting, where=where)


def strict_take(array: Any, indices: Any, axis: int | None = None, out: Any = None) -> Any:
    """Take without a mode."""
    return np.take(array, indices, axis=axis, out=out)


class StrictNumpy(ModuleType):
    """NumPy under CuPy's rules."""

    copyto = staticmethod(strict_copyto)
    take = staticmethod(strict_take)

    def __getattr__(self, name: str) -> Any:
        found = getattr(np, name)
        is_elementwise = isinstance(found, np.ufunc) and found.signature is None
        return StrictUfunc(found) if is_elementwise else found


@pytest.mark.parametrize("case", _CASES)
def test_operators_follow_cupys_rules(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = OperatorRun.prepare(case)
    make_environment = prepared.environment

    def environment() -> Run:
        run = make_environment()
        run.xp = StrictNumpy("strict")
        return run

    monkeypatch.setattr(prepared, "environment", environment)
    prepared.forward()
    if case.has_backward:
        prepared.backward(prepared.gradient_indices())
