"""Every exportable operator against ONNX Runtime, on the golden cases made for MXNet."""

from __future__ import annotations

from functools import cache

import numpy as np
import onnx
import pytest

from core.device import cpu
from core.graph.nodes import Entry, Node
from core.ndarray.execute import execute
from core.onnx_export import ConversionError, export_onnx
from core.onnx_export.conversion import converter_of
from core.ops import Operator
from core.symbol import Symbol
from oracle import golden_file
from oracle.case import Case, cases_of, families
from oracle.run_operator import parse
from served.onnx_models import run_onnx

_PARAMETERS = ("weight", "bias", "gamma", "beta", "moving_mean", "moving_var", "parameters")

_REFUSED = {
    *("_mod", "_mod_scalar", "_rmod_scalar", "broadcast_mod", "erfinv", "gamma", "gammaln"),
    *("nanprod", "nansum", "rcbrt"),
    *("_scatter_elemwise_div", "_scatter_minus_scalar", "_scatter_plus_scalar"),
}
"""Operators whose class has a converter, but which ONNX cannot express."""

_NAN_DIFFERS = {
    "max_nan",  # reductions ignore NaN, and MXNet gives 0 for the sign of NaN
    "sign_special",  # the sign of NaN is 0
}


def _arrays(case: Case) -> dict[str, np.ndarray]:
    """Return inputs and states; float32 in place of float64, for which ONNX Runtime has few
    kernels."""
    made = {**case.make_inputs(), **case.make_aux()}
    return {
        name: one.astype("float32") if one.dtype == "float64" else one for name, one in made.items()
    }


def _symbol(op: Operator, names: list[str]) -> Symbol:
    node = Node(op, "node", {}, [Entry(Node(None, name), 0) for name in names])
    return Symbol([Entry(node, one) for one in range(node.visible_outputs())])


def _is_comparable(case: Case) -> bool:
    return case.id not in _NAN_DIFFERS and not any(
        "float64" in str(value) for value in case.attrs.values()
    )


@cache
def _compared(family: str) -> list[tuple[Case, str | None, list[np.ndarray]]]:
    """Return each exportable case with the difference in its results, and these."""
    compared = []
    for case in filter(_is_comparable, cases_of(family)):
        op, arrays = parse(case), _arrays(case)
        names = list(arrays) if case.positional else list(op.input_names())
        parameters = {name: arrays[name] for name in names if name in _PARAMETERS}
        inputs = {name: arrays[name] for name in names if name not in parameters}
        try:
            made = export_onnx(
                _symbol(op, names),
                parameters,
                {name: one.shape for name, one in inputs.items()},
                dtypes={name: one.dtype for name, one in inputs.items()},
                batch_axes=dict.fromkeys(inputs, -1),
            )
        except ConversionError:
            continue
        onnx.checker.check_model(made.model, full_check=True)
        with np.errstate(all="ignore"):
            expected = execute(op, cpu(), [arrays[name] for name in names])
        visible = expected[: op.visible_outputs()]
        results = run_onnx(made.model, arrays)
        compared.append((case, _difference(results, visible), results))
    return compared


def _difference(got: list[np.ndarray], expected: list[np.ndarray]) -> str | None:
    for one, other in zip(got, expected, strict=True):
        if (one.shape, one.dtype) != (other.shape, other.dtype):
            return f"{one.dtype} {one.shape}, expected {other.dtype} {other.shape}"
        finite = np.isfinite(other)
        if not (np.isfinite(one) == finite).all():
            return f"{one}, expected {other}"
        tolerance = 2e-3 if other.dtype == "float16" else 1e-5
        wide = other[finite].astype("float64")
        most = float(np.abs(one[finite] - wide).max(initial=0))
        if most > tolerance * max(1e-6, np.abs(wide).max(initial=0)):
            return f"differs by {most}"
    return None


@pytest.mark.parametrize("family", families())
def test_results_match_our_engine(family: str) -> None:
    wrong = {case.id: fault for case, fault, _ in _compared(family) if fault is not None}
    assert wrong == {}


@pytest.mark.parametrize("family", ["attention", "boxes", "linalg", "regions", "rnn"])
def test_results_match_mxnet(family: str) -> None:
    """Where the exported graph is another algorithm than MXNet's."""
    golden = golden_file.ops(family)
    compared = 0
    for case, _, results in _compared(family):
        for number, result in enumerate(results):
            expected = golden.get(f"{case.id}/out{number}")
            if expected is None or expected.dtype != np.float32:
                continue
            compared += 1
            np.testing.assert_allclose(
                result, expected, rtol=1e-4, atol=1e-5, err_msg=f"{case.id}: output {number}"
            )
    assert compared > 3


def test_every_operator_with_a_converter_is_compared() -> None:
    """``ConversionError`` does not hide an operator that could be exported before."""
    operators = [parse(case) for family in families() for case in cases_of(family)]
    convertible = {op.names[0] for op in operators if converter_of(op) is not None}
    exported = {parse(case).names[0] for family in families() for case, *_ in _compared(family)}
    assert convertible - exported == _REFUSED
