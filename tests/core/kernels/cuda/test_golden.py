"""Every CUDA kernel against MXNet and against the operator's reference, on the host or a GPU."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pytest

import core as mx
from core.backends import gpu_count
from core.capabilities import arrays, fused, layers
from core.capabilities.kinds import Kind
from core.compiler.compile import CompileOptions
from core.executor import bind
from core.ops import get_operator
from oracle import golden_file
from oracle.case import Case, all_cases
from oracle.compare import assert_close
from oracle.run_symbol import make_symbol, run_symbol

from .host_modules import is_available
from .machines import GPU, HOST, Machine

_on_host = pytest.mark.skipif(not is_available(), reason="needs g++ on x86-64")

_TABLE = HOST.table

Entry: TypeAlias = tuple[Kind[Any] | None, bool]

_KINDS = _TABLE.kinds("numpy")

_REFERENCE = {
    # Special functions.
    "elemwise_unary-erfinv",
    "elemwise_unary-erfinv_edge",
    "elemwise_unary-gamma",
    "elemwise_unary-gamma_negative",
    "elemwise_unary-gammaln",
    "elemwise_unary-gammaln_negative",
    # Slopes for each sample.
    "activation-prelu_each",
    "activation-prelu_each_4d",
    # Lengths of rows.
    "softmax-length",
    "softmax-length_axis",
    # Mixed or other dtypes.
    "elemwise_binary-npi_add_mixed",
    "softmax-log_softmax_float16_to_float32",
    "softmax-softmax_float16_to_float32",
    "softmax-softmin_float16_to_float32",
    "softmax-log_softmax_to_float64",
    "softmax-softmax_to_float64",
    "softmax-softmin_to_float64",
}
"""Cases of operators with kernels that no kernel serves."""


_DTYPES = {np.dtype("float32"), np.dtype("float16")}
_BY_FUNCTION = {arrays.ARITHMETIC, arrays.LEAKY_RELU, arrays.POINTWISE, arrays.REDUCTION}
"""What has kernels for known functions only."""


def _has_kernels(case: Case) -> bool:
    kind = get_operator(case.op).kind
    dtypes = {x.dtype for x in case.make_inputs().values()}
    if kind not in _KINDS or not dtypes & _DTYPES:
        return False
    op = make_symbol(mx, case).heads[0].node.op
    return kind not in _BY_FUNCTION or any(
        (op.arithmetic(), op.pointwise(), op.reduction(), getattr(op, "has_slopes", False))
    )


_CASES = [
    pytest.param(family, case, id=f"{family}-{case.id}")
    for family, case in all_cases()
    if _has_kernels(case)
]


def run(
    case: Case, check_kernels: bool, machine: Machine = HOST
) -> tuple[dict[str, np.ndarray], set[Entry]]:
    """Return results by key and the kernels that ran."""
    symbol = make_symbol(mx, case)
    options = CompileOptions(table=machine.table, check_kernels=check_kernels)
    used: set[Entry] = set()

    def bind_and_look(_: Any, *args: Any, **kw: Any) -> Any:
        executor = bind(symbol, machine.context, *args, options=options, **kw)
        for plan in executor._plans.values():
            used.update(
                (step.op.kind, step.is_backward)
                for step in plan.compiled.program.steps
                if step.kernel is not None
            )
        return executor

    with machine.scope():
        return run_symbol(mx, case, symbol, bind=bind_and_look), used


def compare(family: str, case: Case, machine: Machine) -> None:
    results, used = run(case, check_kernels=False, machine=machine)
    golden = golden_file.ops(family)
    for key, got in results.items():
        assert_close(f"{family}/{case.id} {key}", got, golden[f"{case.id}/{key}"], case.tolerance)
    if machine is HOST:  # on a GPU, where time is scarce, MXNet's results are enough
        run(case, check_kernels=True)  # raises if results are not the reference's
    name = f"{family}-{case.id}"
    assert (not used) == (name in _REFERENCE), "list the cases that no kernel serves, and no others"


@_on_host
@pytest.mark.parametrize(("family", "case"), _CASES)
def test_results_match_mxnets(family: str, case: Case) -> None:
    compare(family, case, HOST)


@pytest.mark.gpu
@pytest.mark.skipif(gpu_count() == 0, reason="no CUDA device")
# Without a GPU one skipped test says as much as hundreds.
@pytest.mark.parametrize(("family", "case"), _CASES if gpu_count() else _CASES[:1])
def test_results_on_a_gpu_match_mxnets(family: str, case: Case) -> None:
    compare(family, case, GPU)


@_on_host
def test_every_kernel_has_a_case() -> None:
    served = set().union(*(run(row.values[1], False)[1] for row in _CASES))
    # Operators that exist only in plans, or that plans replace in every case, are in test_shapes.
    in_plans = {kind for kind in vars(fused).values() if isinstance(kind, Kind)}
    in_plans.add(layers.LOCAL_RESPONSE)
    wanted = {entry for entry in _TABLE.entries("numpy") if entry[0] not in in_plans}
    assert served >= wanted
