"""Quantized kernels against their references and MXNet."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import core as mx
from core.config import config
from core.kernels.kernel import kernels
from core.kernels.onednn import is_available
from core.ops import get_operator
from oracle import golden_file
from oracle.case import Case, cases_of
from oracle.run_symbol import make_symbol
from oracle.topics import fused_layers
from oracle.topics.fused_layers import CASES

pytestmark = pytest.mark.skipif(not is_available(), reason="oneDNN is not installed")

_ENDS = (("min", -2.0), ("max", 2.5))

_SUMS = "_dense_sums"
"""Int32 sums of fully connected layers are left to the reference."""

_FUSED = sorted(
    name for name, case in CASES.items() if case.is_quantized and not name.endswith(_SUMS)
)


def _close(got: np.ndarray, expected: np.ndarray) -> bool:
    """Return whether bytes differ by at most one (ties round either way), floats by little."""
    allowed = 1 if expected.dtype.itemsize == 1 else 1e-5 * np.abs(expected).max()
    difference = np.abs(got.astype("float64") - expected.astype("float64"))
    return got.dtype == expected.dtype and bool((difference <= allowed).all())


def _bound(symbol: Any, arrays: dict[str, np.ndarray]) -> Any:
    executor = symbol.simple_bind(
        mx.cpu(),
        "null",
        type_dict={name: array.dtype for name, array in arrays.items()},
        **{name: array.shape for name, array in arrays.items()},
    )
    for name, array in arrays.items():
        {**executor.arg_dict, **executor.aux_dict}[name][:] = mx.nd.array(array, dtype=array.dtype)
    return executor


_CASES = [
    case
    for case in cases_of("quantized")
    if get_operator(case.op).kind in kernels.kinds("numpy")
    and not case.id.startswith(("quantize_v2_of_", "batch_norm_"))
]
"""Bytes that only pass through ``quantize_v2``, and batch norms of few channels, are left to the
reference."""


@pytest.fixture
def _checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run every kernel beside its reference and compare."""
    monkeypatch.setattr(
        "core.executor.executor.config", dataclasses.replace(config, check_kernels=True)
    )


@pytest.mark.usefixtures("_checked")
@pytest.mark.parametrize("case", _CASES, ids=lambda case: case.id)
def test_operators_match_mxnets(case: Case) -> None:
    executor = _bound(make_symbol(mx, case), case.make_inputs())
    assert "by onednn:" in executor.debug_str()
    for index, output in enumerate(executor.forward()):
        expected = golden_file.ops("quantized")[f"{case.id}/out{index}"]
        assert _close(output.asnumpy(), expected)


def _fused(name: str) -> tuple[Any, dict[str, np.ndarray]]:
    symbol = mx.sym.load_json(fused_layers.graph(CASES[name]))
    return symbol, fused_layers.arrays_of(CASES[name], name, symbol)


@pytest.mark.usefixtures("_checked")
@pytest.mark.parametrize("name", _FUSED)
def test_fused_layers_match_mxnets(name: str) -> None:
    """The first run quantizes the weights, the second reuses them."""
    executor = _bound(*_fused(name))
    assert "by onednn:" in executor.debug_str()
    for _ in range(2):
        for index, output in enumerate(executor.forward()):
            expected = golden_file.topic("fused_layers")[f"{name}/{index}"]
            assert _close(output.asnumpy(), expected)


@pytest.mark.parametrize("name", ["int8_norm_relu", "uint8_sum_relu", "int8_dense_rows"])
def test_arrays_bound_from_outside_may_change_at_any_time(name: str) -> None:
    """Nothing signals a change to arrays bound directly."""
    symbol, arrays = _fused(name)
    given = {key: mx.nd.array(array, dtype=array.dtype) for key, array in arrays.items()}
    auxiliary = {key: given.pop(key) for key in symbol.list_auxiliary_states()}
    executor = symbol.bind(mx.cpu(), given, aux_states=auxiliary, grad_req="null")
    expected = golden_file.topic("fused_layers")[f"{name}/0"]
    assert _close(executor.forward()[0].asnumpy(), expected)
    given["weight"][:] = 0
    given["max_data"][:] = 5
    assert not _close(executor.forward()[0].asnumpy(), expected)
    given["weight"][:] = arrays["weight"]
    given["max_data"][:] = arrays["max_data"]
    assert _close(executor.forward()[0].asnumpy(), expected)


@pytest.mark.usefixtures("_checked")
def test_batch_norm_matches_the_reference() -> None:
    random = np.random.RandomState(0)
    symbol = mx.sym.contrib.quantized_batch_norm(
        name="norm", eps=0.1, min_calib_range=-3, max_calib_range=4
    )
    arrays = {
        "norm_data": random.randint(-127, 128, (2, 16, 5, 6)).astype("int8"),
        **{f"norm_{name}_data": np.array([end], "float32") for name, end in _ENDS},
        **{
            f"norm_{name}": random.uniform(0.5, 2, 16).astype("float32")
            for name in ("gamma", "beta", "moving_mean", "moving_var")
        },
    }
    executor = _bound(symbol, arrays)
    assert "by onednn:batch_norm_bytes" in executor.debug_str()
    first = executor.forward()[0].asnumpy()
    executor.aux_dict["norm_moving_mean"][:] = 5
    assert (executor.forward()[0].asnumpy() != first).any()


def test_no_reorders_between_quantized_layers() -> None:
    case = dataclasses.replace(CASES["uint8_relu"], layer={"num_filter": "4", "pad": "(1, 1)"})
    one = mx.sym.load_json(fused_layers.graph(case))
    two = mx.sym.load_json(fused_layers.graph(case))
    both = two(data=one[0], min_data=one[1], max_data=one[2], name="second")
    text = both.simple_bind(
        mx.cpu(), "null", type_dict={"data": "uint8"}, data=(1, 4, 6, 6)
    ).debug_str()
    assert text.count("by onednn:convolution_bytes") == 2
    assert text.count("by onednn:reorder") == 2


@pytest.mark.parametrize("name", ["int8_norm_relu", "int8_dense_rows"])
def test_memory_lent_to_numpy_may_change_at_any_time(name: str) -> None:
    """Nothing signals a change once an array's memory has been lent out."""
    symbol, arrays = _fused(name)
    executor = _bound(symbol, arrays)
    before = executor.forward()[0].asnumpy()
    weight = executor.arg_dict["weight"]
    capsule, shared = weight.to_dlpack_for_write(), weight.dense()
    executor.forward()
    shared *= 0
    assert (executor.forward()[0].asnumpy() != before).any()
    shared += arrays["weight"]
    np.testing.assert_array_equal(executor.forward()[0].asnumpy(), before)
    del capsule
