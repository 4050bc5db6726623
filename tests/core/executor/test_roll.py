"""Unrolled recurrent layers run as one step, with MXNet's numbers."""

from __future__ import annotations

from typing import Any

import pytest

import core as mx
from core.executor import bind
from core.executor.compile import CompileOptions
from oracle import golden_file
from oracle.compare import assert_close
from oracle.topics.unrolled import CASES, run_case

LAYER = "_plan_recurrent"
WAYS = {
    "rolled": CompileOptions(),
    "rolled, checked": CompileOptions(check_kernels=True),
    "rolled, by references": CompileOptions(table=None),
    "as it is": CompileOptions(rewrite=False, plan=False, table=None),
}


class Binder:
    """Binds as asked and remembers the executor."""

    executor: Any

    def __init__(self, options: CompileOptions) -> None:
        self._options = options

    def __call__(self, symbol: Any, arguments: Any, gradients: Any, grad_req: str) -> Any:
        self.executor = bind(
            symbol, mx.cpu(), arguments, gradients, grad_req, options=self._options
        )
        return self.executor

    def plans(self) -> list[Any]:
        return [plan.compiled.program for plan in self.executor._plans.values()]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case_id", CASES)
def test_equals_mxnet(case_id: str, way: str) -> None:
    golden = golden_file.topic("unrolled")
    got = run_case(mx, case_id, Binder(WAYS[way]))
    assert len(got) == sum(key.startswith(f"{case_id}/") for key in golden)
    for key, array in got.items():
        assert_close(f"{case_id} {key}", array, golden[f"{case_id}/{key}"])


@pytest.mark.parametrize("case_id", CASES)
def test_layers_found(case_id: str) -> None:
    binder = Binder(CompileOptions())
    run_case(mx, case_id, binder)
    for program in binder.plans():
        found = [step for step in program.forward_steps if step.op.names[0] == LAYER]
        assert len(found) == CASES[case_id].layers
