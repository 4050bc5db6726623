"""Every operator called alone, against MXNet 1.9.1."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from core.backends import gpu_count
from core.device import Context
from core.ops import Operator, canonical_names, get_operator
from core.ops.namespace import PREFIXES
from core.types import is_known
from oracle import golden_file
from oracle.apply import make
from oracle.case import Case, all_cases, cases_of, families
from oracle.compare import assert_close
from oracle.run_operator import (
    OperatorRun,
    check_gradient,
    infer_from_others,
    run_operator,
    strided_copy,
)
from oracle.topics import updates

_CASES = [pytest.param(family, case, id=f"{family}-{case.id}") for family, case in all_cases()]

every_case = pytest.mark.parametrize(("family", "case"), _CASES)
every_case_of_several_gradients = pytest.mark.parametrize(
    ("family", "case"), [row for row in _CASES if len(row.values[1].gradient_names()) > 1]
)


def _golden(family: str, case: Case, prefixes: tuple[str, ...]) -> dict[str, np.ndarray]:
    start = f"{case.id}/"
    found = {
        key.removeprefix(start): value
        for key, value in golden_file.ops(family).items()
        if key.startswith(start) and key.removeprefix(start).startswith(prefixes)
    }
    assert found, f"no golden for {family}/{case.id}: run tests/oracle/run_ops.py {family}"
    return found


def _compare(family: str, case: Case, results: dict[str, np.ndarray]) -> None:
    expected = _golden(family, case, ("out", "grad_", "aux_"))
    assert results.keys() == expected.keys()
    for key, value in expected.items():
        assert_close(f"{family}/{case.id} {key}", results[key], value, case.tolerance)


@every_case
def test_results_match_mxnets_and_inputs_are_not_changed(family: str, case: Case) -> None:
    run = OperatorRun.prepare(case)
    before = [x.copy() for x in (*run.inputs, *run.heads)]
    run.forward()
    outputs = [y.copy() for y in run.outputs]
    in_grads = run.backward(run.gradient_indices()) if case.has_backward else run.no_gradients()
    _compare(family, case, run.results(in_grads))
    after = [*run.inputs, *run.heads]
    for i, (old, new) in enumerate(zip(before, after, strict=True)):
        if i >= len(run.names) or run.names[i] not in case.aux:
            np.testing.assert_array_equal(new, old)
    for old, new in zip(outputs, run.outputs, strict=True):
        np.testing.assert_array_equal(new, old)


@every_case
def test_strided_inputs(family: str, case: Case) -> None:
    def spread(run: OperatorRun) -> None:
        xp = run.backend.xp
        run.inputs = [strided_copy(xp, x) for x in run.inputs]
        run.heads = [strided_copy(xp, h) for h in run.heads]

    _compare(family, case, run_operator(case, change=spread))


@every_case_of_several_gradients
def test_each_gradient_computed_alone_is_the_same(family: str, case: Case) -> None:
    for index in OperatorRun.prepare(case).gradient_indices():
        run = OperatorRun.prepare(case)
        run.forward()
        name = run.names[index]
        got = run.backward([index])[index]
        expected = _golden(family, case, (f"grad_{name}",))[f"grad_{name}"]
        assert_close(f"{family}/{case.id} {name}", got, expected, case.tolerance)


def may_work_in_place(case: Case) -> bool:
    """Return whether a case's operator has its own declaration of what may be overwritten."""
    own = get_operator(case.op)
    return (own.inplace_forward, own.inplace_backward) != (
        Operator.inplace_forward,
        Operator.inplace_backward,
    )


@pytest.mark.parametrize(
    ("family", "case"), [row for row in _CASES if may_work_in_place(row.values[1])]
)
def test_results_are_right_where_operators_declare_to_work_in_place(
    family: str, case: Case
) -> None:
    operator = OperatorRun.prepare(case).operator
    expected = _golden(family, case, ("out", "grad_"))
    for source, target in operator.inplace_forward():
        run = OperatorRun.prepare(case)
        if (run.inputs[source].shape, run.inputs[source].dtype) != (
            run.outputs[target].shape,
            run.outputs[target].dtype,
        ):
            continue
        run.inputs[source] = run.outputs[target] = run.inputs[source].copy()
        run.forward()
        for i in range(operator.visible_outputs()):
            assert_close(f"output {i}", run.outputs[i], expected[f"out{i}"], case.tolerance)
    for head, target in operator.inplace_backward():
        run = OperatorRun.prepare(case)
        x, dy = run.inputs[target], run.heads[head]
        if target not in run.gradient_indices() or (x.shape, x.dtype) != (dy.shape, dy.dtype):
            continue
        run.forward()
        shared = dy.copy()
        in_grads = run.backward(run.gradient_indices(), {head: shared}, {target: shared})
        for i in run.gradient_indices():
            key = f"grad_{run.names[i]}"
            assert_close(key, in_grads[i], expected[key], case.tolerance)


@pytest.mark.parametrize(
    ("family", "case"), [row for row in _CASES if row.values[1].inputs or row.values[1].aux]
)
def test_shapes_are_inferred_from_any_others(family: str, case: Case) -> None:
    actual = {name: x.shape for name, x in {**case.make_inputs(), **case.make_aux()}.items()}
    for key, value in _golden(family, case, ("shape_",)).items():
        name, mxnet = key.removeprefix("shape_"), tuple(int(n) for n in value)
        ours = infer_from_others(case, name)
        if mxnet and is_known(mxnet):
            assert ours == mxnet, f"{name}: {ours}, MXNet infers {mxnet}"
        elif ours is not None:
            assert len(ours) == len(actual[name])
            assert all(x in (0, y) for x, y in zip(ours, actual[name], strict=True))


@pytest.mark.parametrize(
    ("family", "case"),
    [row for row in _CASES if row.values[1].has_backward and row.values[1].numeric],
)
def test_gradient_is_the_derivative(family: str, case: Case) -> None:
    numeric, analytic = check_gradient(case)
    assert analytic == pytest.approx(numeric, rel=1e-5, abs=1e-6)


def test_operators_declared_nonnegative_are() -> None:
    declared = set()
    for family, case in all_cases():
        if len(case.inputs) != 1 or case.positional:
            continue
        operator = make(case.op, case.attrs)
        if operator.is_nonnegative():
            declared.add(operator.names[0])
            out = _golden(family, case, ("out0",))["out0"]
            assert not (out < 0).any(), f"{family}/{case.id}"
    assert {"Activation", "abs", "clip", "exp", "sqrt", "square"} <= declared


def test_functions_declared_to_keep_the_maximum_never_decrease() -> None:
    declared = set()
    for family, case in all_cases():
        if len(case.inputs) != 1 or case.positional:
            continue
        operator = make(case.op, case.attrs)
        function = operator.pointwise()
        if function is not None and function.keeps_maximum:
            declared.add(operator.names[0])
            data = np.ravel(*case.make_inputs().values())
            out = _golden(family, case, ("out0",))["out0"].ravel()
            finite = np.flatnonzero(np.isfinite(data))
            in_order = finite[np.argsort(data[finite])]
            # MXNet's softrelu is off by 8e-6 for large negative numbers.
            assert (np.diff(out[in_order]) >= -1e-5).all(), f"{family}/{case.id}"
    assert {"Activation", "LeakyReLU", "relu", "sigmoid", "tanh"} <= declared


def test_every_operator_has_a_case() -> None:
    """Exempt are operators that are random or run graphs. For those MXNet runs only on GPUs or
    sparse arrays, some other test of operators must name them."""
    cases = (*(case for _, case in all_cases()), *updates.CASES)
    covered = {get_operator(case.op) for case in cases}
    missing = [get_operator(name) for name in canonical_names()]
    missing = [op for op in missing if op not in covered | draws_or_runs_graphs(missing)]
    named = words_of_tests()
    assert [op.names[0] for op in missing if named.isdisjoint(spellings(op))] == []


def draws_or_runs_graphs(operators: list[type[Operator]]) -> set[type[Operator]]:
    return {op for op in operators if op.uses_random or op.graph_names}


def spellings(operator: type[Operator]) -> set[str]:
    """Return an operator's names in graphs and in Python modules."""
    prefixes = ("", *PREFIXES)
    return {name.removeprefix(prefix) for name in operator.names for prefix in prefixes}


def words_of_tests() -> set[str]:
    """Return all words in the other tests of operators and in their golden files."""
    here, topics = Path(__file__), Path(updates.__file__).parent
    others = [path for path in here.parent.rglob("test_*.py") if path != here]
    texts = (path.read_text() for path in (*others, *topics.glob("*.py")))
    return {word for text in texts for word in re.findall(r"\w+", text)}


@pytest.mark.parametrize("family", families())
def test_golden_file_holds_the_cases_and_no_others(family: str) -> None:
    stored = {key.rsplit("/", 1)[0] for key in golden_file.ops(family)}
    assert stored == {case.id for case in cases_of(family)}


@pytest.mark.gpu
@pytest.mark.skipif(gpu_count() == 0, reason="no CUDA device")
# Without a GPU one skipped test says as much as a thousand, which cost seconds.
@pytest.mark.parametrize(("family", "case"), _CASES if gpu_count() else _CASES[:1])
def test_results_on_a_gpu_match_mxnets(family: str, case: Case) -> None:
    results = run_operator(case, Context("gpu", 0))
    for key, value in _golden(family, case, ("out", "grad_", "aux_")).items():
        assert_close(f"{family}/{case.id} {key}", results[key], value, case.tolerance)
