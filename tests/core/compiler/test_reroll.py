"""Unrolled recurrent layers run as one step and match MXNet."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core as mx
from core.compiler.compile import CompileOptions
from core.executor import bind
from core.kernels.onednn import is_available
from core.kernels.onednn.primitive import Primitive
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
def test_results_match_mxnets(case_id: str, way: str) -> None:
    golden = golden_file.topic("unrolled")
    got = run_case(mx, case_id, Binder(WAYS[way]))
    assert len(got) == sum(key.startswith(f"{case_id}/") for key in golden)
    for key, array in got.items():
        # Terms of a gradient cancel over the steps, which leaves more rounding error.
        assert_close(f"{case_id} {key}", array, golden[f"{case_id}/{key}"], 3e-5)


@pytest.mark.parametrize("case_id", CASES)
def test_the_expected_number_of_layers_is_found(case_id: str) -> None:
    binder = Binder(CompileOptions())
    run_case(mx, case_id, binder)
    programs = binder.plans()
    assert programs
    for program in programs:
        found = [step for step in program.forward_steps if step.op.names[0] == LAYER]
        assert len(found) == CASES[case_id].layers


def unrolled(
    length: int = 3, cell: Any = mx.rnn.LSTMCell, dtype: str = "float32", **attributes: str
) -> mx.sym.Symbol:
    with mx.name.NameManager(), mx.AttrScope(**attributes):
        one = cell(5)
        outputs, _ = one.unroll(
            length, mx.sym.Variable("data"), one.begin_state(dtype=dtype), merge_outputs=True
        )
    return outputs


def bound(symbol: mx.sym.Symbol, grad_req: str = "null", length: int = 3, **options: Any) -> Any:
    random = np.random.RandomState(4)
    executor = symbol.simple_bind(mx.cpu(), grad_req, data=(2, length, 4), **options)
    for array in executor.arg_arrays:
        array[:] = random.normal(scale=0.7, size=array.shape)
    return executor


def names_of(executor: Any) -> list[str]:
    (plan,) = executor._plans.values()
    return [step.op.names[0] for step in plan.compiled.program.steps]


def many_layers(hidden: int) -> Any:
    """Bidirectional layers, dropout at each step, and a residual layer."""
    stack = mx.rnn.SequentialRNNCell()
    for name in "ab":
        cells = (mx.rnn.LSTMCell(hidden, prefix=f"{name}{way}_") for way in "lr")
        stack.add(mx.rnn.BidirectionalCell(*cells))
        stack.add(mx.rnn.DropoutCell(0.5))
    stack.add(mx.rnn.ResidualCell(mx.rnn.GRUCell(2 * hidden, prefix="c_")))
    return stack


@pytest.mark.parametrize(
    "cell",
    [mx.rnn.LSTMCell, mx.rnn.GRUCell, mx.rnn.RNNCell, many_layers],
    ids=lambda it: it.__name__,
)
def test_the_number_of_steps_does_not_depend_on_the_length(cell: Any) -> None:
    short, long = (
        names_of(bound(unrolled(length, cell), "write", length=length)) for length in (3, 40)
    )
    assert short == long


def test_float16_is_not_rolled_up() -> None:
    # Unrolled, it rounds after each operator.
    executor = bound(unrolled(dtype="float16"), type_dict={"data": "float16"})
    assert LAYER not in names_of(executor)


def test_a_single_step_is_not_a_layer() -> None:
    assert LAYER not in names_of(bound(unrolled(1), length=1))


def test_recomputed_cells_are_not_rolled_up() -> None:
    assert LAYER not in names_of(bound(unrolled(force_mirroring="True"), "write"))


@pytest.mark.parametrize("case_id", ["gru", "plain_fed_back"])
def test_gradients_are_added_with_grad_req_add(case_id: str) -> None:
    golden = golden_file.topic("unrolled")
    for key, array in run_case(mx, case_id, grad_req="add").items():
        expected = golden[f"{case_id}/{key}"] + key.startswith("gradient")
        assert_close(key, array, expected)


@pytest.mark.skipif(not is_available(), reason="oneDNN is not installed")
def test_inference_sees_new_weights() -> None:
    # The plan caches them in oneDNN's layout.
    executor = bound(unrolled())
    before = executor.forward()[0].asnumpy()
    assert executor.arena.cached_nbytes > 0
    executor.arg_dict["lstm_h2h_weight"][:] *= -1
    got = executor.forward()[0].asnumpy()
    reference = bind(
        unrolled(), mx.cpu(), executor.arg_dict, options=CompileOptions(table=None)
    ).forward()
    assert_close("outputs", got, reference[0].asnumpy())
    assert np.abs(got - before).max() > 0.01


@pytest.mark.skipif(not is_available(), reason="oneDNN is not installed")
def test_unrolled_steps_share_their_kernels_whatever_the_length() -> None:
    def fed_back(length: int) -> mx.sym.Symbol:
        cell = mx.rnn.LSTMCell(5)
        states, output = cell.begin_state(), mx.sym.Variable("data")
        for _ in range(length):
            output, states = cell(output, states)
        return output

    def kernels(length: int) -> list[Any]:
        executor = fed_back(length).simple_bind(mx.cpu(), "null", data=(2, 5))
        (plan,) = executor._plans.values()
        return [step.kernel for step in plan.compiled.program.steps if step.kernel is not None]

    short = kernels(3)
    made = Primitive.of.cache_info().misses
    long = kernels(30)
    assert Primitive.of.cache_info().misses == made
    assert len(long) > 5 * len(short)
    assert len(set(long)) == len(set(short))
