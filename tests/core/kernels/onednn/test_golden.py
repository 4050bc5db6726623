"""Every kernel against MXNet and against the operator's reference, on the golden cases."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pytest

import core as mx
from core.capabilities import arrays, fused, quantized
from core.capabilities.kinds import Kind
from core.compiler.compile import CompileOptions
from core.compiler.primitives import Reorder
from core.executor import bind
from core.kernels.kernel import KernelTable
from core.kernels.onednn import is_available, register_kernels
from core.ops import get_operator
from oracle import golden_file
from oracle.case import Case, all_cases
from oracle.compare import assert_close
from oracle.run_symbol import make_symbol, run_symbol

pytestmark = pytest.mark.skipif(not is_available(), reason="oneDNN is not installed")

_TABLE = KernelTable()
register_kernels(_TABLE)

Entry: TypeAlias = tuple[Kind[Any] | None, bool]

_KINDS = _TABLE.kinds("numpy")
_KERNELS = _TABLE.entries("numpy")

_REFERENCE = {
    # No broadcasting.
    "broadcast-axis_none",
    "broadcast-to_same",
    # Per-sample slopes too.
    "activation-prelu_each",
    "activation-prelu_each_4d",
    "activation-selu_2d",
    "activation-selu_large",
    # Functions that treat NaN otherwise in MXNet, which have kernels in C.
    "elemwise_special-clip",
    "elemwise_special-clip_nan",
    "elemwise_special-clip_nan_gradient",
    "elemwise_special-clip_ties",
    "elemwise_unary-_npx_relu",
    "elemwise_unary-relu",
    "elemwise_unary-relu_nan_gradient",
    "elemwise_unary-relu_special",
    # Special functions, which have kernels in C.
    "elemwise_unary-erfinv",
    "elemwise_unary-erfinv_edge",
    "elemwise_unary-gamma",
    "elemwise_unary-gamma_negative",
    "elemwise_unary-gammaln",
    "elemwise_unary-gammaln_negative",
    # Few classes, along an axis other than the last.
    "activation-softmax_channel",
    "loss-multi_out_grad",
    "softmax-log_softmax_axis",
    "softmax-log_softmax_first_axis",
    "softmax-softmax_axis",
    "softmax-softmax_first_axis",
    "softmax-softmin_axis",
    "softmax-softmin_first_axis",
    "softmax-log_softmax_hot",
    "softmax-softmax_hot",
    "softmax-softmin_hot",
    # Other dtypes.
    "softmax-log_softmax_to_float64",
    "softmax-softmax_to_float64",
    "softmax-softmin_to_float64",
    # LSTMs with projected outputs.
    "rnn-lstm_projected_bidirectional",
    "rnn-lstm_projected_layers",
    "rnn-lstm_projected_plain",
    # Axes other than the last.
    "norm-layer_axis",
    "norm-layer_first_axis",
    "norm-layer_mean_var",
    # Channels along the first axis, or along the last one pooled.
    "norm-first_axis",
    "pool-avg_channels_last",
    "pool-avg_global_channels_last",
    "pool-max_channels_last",
    "pool-max_channels_last_one_axis",
    # Extremes, products and norms over other axes than the last, and sums of absolute values.
    "reduce-max_exclude",
    "reduce-max_exclude_kept",
    "reduce-max_kept",
    "reduce-max_one",
    "reduce-max_two",
    "reduce-min_exclude",
    "reduce-min_exclude_kept",
    "reduce-min_kept",
    "reduce-min_one",
    "reduce-min_two",
    "reduce-norm_axis",
    "reduce-norm_kept",
    "reduce-prod_exclude",
    "reduce-prod_exclude_kept",
    "reduce-prod_kept",
    "reduce-prod_one",
    "reduce-prod_two",
    # Windows that extend beyond the padding, or lie entirely in it.
    "pool-avg_empty_windows",
    "pool-avg_full_padded",
    "pool-max_empty_windows",
    # Several inputs, or bilinear, which is a deconvolution.
    "pad-up_bilinear",
    "pad-up_bilinear_three",
    "pad-up_concat",
    "pad-up_sum",
    # Sums and norms.
    "pool-lp_1",
    "pool-lp_2",
    "pool-lp_3",
    "pool-lp_global",
    "pool-lp_global_padded",
    "pool-lp_signed",
    "pool-lp_zero",
    "pool-sum",
    "pool-sum_p_value",
    "pool-sum_full",
    "pool-sum_global",
}
"""Cases of the same operators that no kernel serves, apart from arithmetic."""


def is_float32(case: Case) -> bool:
    return all(x.dtype == np.float32 for x in case.make_inputs().values())


_IN_LAYOUTS = {arrays.SPLIT, arrays.SLICING}
"""What has kernels for tensors in oneDNN's layouts only; test_between_convolutions runs them."""

_BY_FUNCTION = {arrays.ARITHMETIC, arrays.POINTWISE, arrays.REDUCTION}
"""What has kernels for known functions only."""


def has_kernels(case: Case) -> bool:
    """Return whether an operator has kernels."""
    kind = get_operator(case.op).kind
    if kind not in _KINDS - _IN_LAYOUTS:
        return False
    op = make_symbol(mx, case).heads[0].node.op
    known = op.arithmetic(), op.pointwise(), op.reduction()
    return kind not in _BY_FUNCTION or any(function is not None for function in known)


def is_beyond_binary(case: Case) -> bool:
    """Return whether both operands are broadcast, or only the left one of an operator that does not
    commute: oneDNN broadcasts the right one."""
    known = make_symbol(mx, case).heads[0].node.op.arithmetic()
    if known is None:
        return False
    left, right = (one.shape for one in case.make_inputs().values())
    whole = np.broadcast_shapes(left, right)
    return left != whole and not (known.is_commutative and right == whole)


_CASES = [
    pytest.param(family, case, id=f"{family}-{case.id}")
    for family, case in all_cases()
    if has_kernels(case) and is_float32(case)
]


def run(case: Case, check_kernels: bool) -> tuple[dict[str, np.ndarray], set[Entry]]:
    """Return results by key and the kernels that ran."""
    symbol = make_symbol(mx, case)
    options = CompileOptions(table=_TABLE, check_kernels=check_kernels)
    used: set[Entry] = set()

    def bind_and_look(*args: Any, **kw: Any) -> Any:
        executor = bind(symbol, *args, options=options, **kw)
        for plan in executor._plans.values():
            used.update(kernels_of(plan))
        return executor

    return run_symbol(mx, case, symbol, bind=bind_and_look), used


def kernels_of(plan: Any) -> set[Entry]:
    """Return (kind, whether backward) of the steps that ran on a kernel."""
    steps = plan.compiled.program.steps
    return {
        (step.op.kind, step.is_backward)
        for step in steps
        if step.kernel is not None and not isinstance(step.op, Reorder)
    }


@pytest.mark.parametrize(("family", "case"), _CASES)
@pytest.mark.parametrize("check_kernels", [False, True])
def test_results_match_mxnets(family: str, case: Case, check_kernels: bool) -> None:
    results, _ = run(case, check_kernels)
    golden = golden_file.ops(family)
    for key, got in results.items():
        assert_close(f"{family}/{case.id} {key}", got, golden[f"{case.id}/{key}"], case.tolerance)


def test_every_kernel_has_a_case_and_the_fallbacks_are_listed() -> None:
    unserved, served = set(), set()
    for row in _CASES:
        used = run(row.values[1], False)[1]
        served |= used
        if not used:
            unserved.add(f"{row.values[0]}-{row.values[1].id}")
    arithmetic = {
        f"{row.values[0]}-{row.values[1].id}" for row in _CASES if is_beyond_binary(row.values[1])
    }
    assert unserved == _REFERENCE | arithmetic
    # Operators that exist only in plans are tested in test_fused and test_layout, quantized ones in
    # test_quantized.
    elsewhere = {*fused.__all__, *quantized.__all__}
    names = {**vars(fused), **vars(quantized)}
    tested = {names[name] for name in elsewhere} | _IN_LAYOUTS
    of_plans = {key for key in _KERNELS if key[0] in tested} | {(arrays.CONCATENATION, True)}
    assert served >= _KERNELS - of_plans, "add a golden case for these kernels"
