"""``Operator.stacked``: one computation on stacked inputs instead of several equal ones."""

from __future__ import annotations

import numpy as np
import pytest

from core.device import Context
from core.ops import Operator, Run, canonical_names, get_operator
from core.random import DeviceRandom
from core.types import DType, Shape
from oracle.case import Case, all_cases
from oracle.run_operator import parse

_CASES = [(case, parse(case)) for _, case in all_cases() if case.inputs]
_COUNT = 3


def _environment() -> Run:
    def scratch(shape: Shape, dtype: DType) -> np.ndarray:
        return np.full(shape, 7, dtype)

    return Run(np, False, DeviceRandom(Context("cpu", 0), 1), scratch)


def _output(operator: Operator, inputs: list[np.ndarray]) -> np.ndarray:
    count = len(operator.output_names())
    _, shapes = operator.infer_shape([x.shape for x in inputs], [None] * count)
    _, dtypes = operator.infer_type([x.dtype for x in inputs], [None] * count)
    outputs = [np.empty(shape, kind) for shape, kind in zip(shapes, dtypes, strict=True)]
    with np.errstate(all="ignore"):
        operator.forward(_environment(), inputs, outputs)
    return outputs[0]


def _sharings(case: Case, operator: Operator) -> list[tuple[bool, ...]]:
    """Return which inputs may be the same for all entries: none, or all but the first."""
    shapes = [x.shape for x in case.make_inputs().values()]
    if len(operator.auxiliary_names()) or operator.nested_graphs():
        return []
    found = {(False,) * len(shapes), (False, *(True,) * (len(shapes) - 1))}
    return [one for one in sorted(found) if operator.stacked(shapes, one) is not None]


_STACKED = [
    pytest.param(case, operator, sharing, id=f"{case.op}-{case.id}-{sum(sharing)}")
    for case, operator in _CASES
    for sharing in _sharings(case, operator)
]


@pytest.mark.parametrize(("case", "operator", "is_shared"), _STACKED)
def test_each_entry_is_what_the_operator_computes_alone(
    case: Case, operator: Operator, is_shared: tuple[bool, ...]
) -> None:
    inputs = list(case.make_inputs().values())
    varied = [
        [x if same else np.roll(x, number) for x, same in zip(inputs, is_shared, strict=True)]
        for number in range(_COUNT)
    ]
    stacked = operator.stacked([x.shape for x in inputs], is_shared)
    assert stacked is not None
    whole = _output(
        stacked,
        [
            x if same else np.stack([one[index] for one in varied])
            for index, (x, same) in enumerate(zip(inputs, is_shared, strict=True))
        ],
    )
    for entry, alone in zip(whole, varied, strict=True):
        np.testing.assert_allclose(entry, _output(operator, alone), rtol=1e-5, atol=1e-6)


def test_every_operator_that_declares_it_is_among_them() -> None:
    declaring = {
        name for name in canonical_names() if get_operator(name).stacked is not Operator.stacked
    }
    tested = {operator.names[0] for _, operator, _ in (one.values for one in _STACKED)}
    assert {"FullyConnected", "Concat", "Dropout"} <= declaring <= tested | {"_rnn_param_concat"}
