"""Convolutions with windows of 1xN and Nx1 by the kernel in C."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core as mx
from core.compiler.compile import CompileOptions
from core.executor import bind
from core.kernels.native import is_available
from core.kernels.onednn import library
from core.types import Array

pytestmark = pytest.mark.skipif(
    not is_available(), reason="the kernels are not compiled, or there is no AVX-512"
)

KERNEL = "winograd:convolution"
RANDOM = np.random.RandomState(4)


def layer(
    kernel: tuple[int, int], pad: tuple[int, int], filters: int = 16, **attributes: Any
) -> Any:
    return mx.sym.Convolution(
        mx.sym.var("data"), kernel=kernel, pad=pad, num_filter=filters, name="c", **attributes
    )


def bound(symbol: Any, shape: tuple[int, ...]) -> Any:
    """Return an executor for inference with random arrays."""
    executor = symbol.simple_bind(mx.cpu(), grad_req="null", data=shape)
    for name, array in {**executor.arg_dict, **executor.aux_dict}.items():
        # Small weights, because tanh of large sums would leave nothing to compare.
        drawn = RANDOM.randn(*array.shape) * (0.05 if name.endswith("weight") else 1)
        array[:] = np.abs(drawn) + 0.5 if name.endswith("var") else drawn
    return executor


def convolutions_of(executor: Any) -> set[str]:
    steps = executor._last.compiled.program.steps
    names = {step.kernel.name for step in steps if step.kernel is not None}
    return {name for name in names if "convolution" in name}


def reference(symbol: Any, executor: Any) -> Array:
    """Return what the operators' references compute in float64."""
    arguments = {name: one.astype("float64") for name, one in executor.arg_dict.items()}
    auxiliary = [one.astype("float64") for one in executor.aux_arrays]
    options = CompileOptions(table=None)
    other = bind(symbol, mx.cpu(), arguments, aux_states=auxiliary, options=options)
    (out,) = other.forward()
    return out.asnumpy()


def check(symbol: Any, shape: tuple[int, ...]) -> None:
    executor = bound(symbol, shape)
    (out,) = executor.forward()
    assert convolutions_of(executor) == {KERNEL}
    expected = reference(symbol, executor)
    size = np.sqrt(np.square(expected).mean())
    np.testing.assert_allclose(out.asnumpy(), expected, rtol=1e-5, atol=1e-5 * size)


@pytest.mark.parametrize("taps", [3, 4, 6, 7, 8])
@pytest.mark.parametrize("is_vertical", [False, True])
@pytest.mark.parametrize("shape", [(1, 16, 24, 24), (3, 32, 25, 26)])
def test_windows_along_rows_and_columns_match_the_reference(
    taps: int, is_vertical: bool, shape: tuple[int, ...]
) -> None:
    kernel, pad = (taps, 1), (taps // 2, 0)
    if not is_vertical:
        kernel, pad = kernel[::-1], pad[::-1]
    check(layer(kernel, pad, filters=48), shape)


@pytest.mark.parametrize("pad", [0, 1, 5, 6])
def test_any_padding_matches_the_reference(pad: int) -> None:
    check(layer((1, 7), (0, pad)), (2, 16, 5, 24))


@pytest.mark.parametrize("act_type", ["relu", "tanh"])
def test_batch_norm_and_activation_are_fused(act_type: str) -> None:
    normalized = mx.sym.BatchNorm(layer((7, 1), (3, 0), no_bias=True), fix_gamma=False)
    check(mx.sym.Activation(normalized, act_type=act_type), (2, 32, 18, 7))


def test_a_residual_is_added() -> None:
    summed = mx.sym.relu(layer((1, 7), (0, 3)) + mx.sym.var("residual", shape=(2, 16, 6, 18)))
    check(summed, (2, 16, 6, 18))


def test_a_row_window_followed_by_a_column_window() -> None:
    first = mx.sym.relu(layer((1, 7), (0, 3), filters=32))
    both = mx.sym.Convolution(first, kernel=(7, 1), pad=(3, 0), num_filter=16, name="d")
    check(both, (2, 16, 17, 17))


def test_the_number_of_threads_changes_nothing() -> None:
    api = library()
    assert api is not None
    symbol, before, found = layer((7, 1), (3, 0), filters=32), api.threads(), []
    arrays = {name: one.asnumpy() for name, one in bound(symbol, (2, 16, 30, 9)).arg_dict.items()}
    try:
        for threads in (1, 3):
            api.set_threads(threads)
            executor = bound(symbol, (2, 16, 30, 9))
            executor.copy_params_from({name: mx.nd.array(one) for name, one in arrays.items()})
            found.append(executor.forward()[0].asnumpy())
    finally:
        api.set_threads(before)
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize(
    ("kernel", "pad", "shape", "attributes"),
    [
        ((1, 7), (0, 3), (1, 16, 8, 24), {"stride": (1, 2)}),
        ((1, 7), (0, 6), (1, 16, 8, 24), {"dilate": (1, 2)}),
        ((1, 7), (0, 3), (1, 16, 8, 24), {"num_group": 2}),
        ((1, 7), (1, 3), (1, 16, 8, 24), {}),
        ((1, 9), (0, 4), (1, 16, 8, 24), {}),
        ((1, 5), (0, 2), (1, 16, 8, 24), {}),
        ((1, 7), (0, 3), (1, 8, 8, 24), {}),
        ((1, 7), (0, 3), (1, 16, 8, 4), {}),
    ],
    ids=["strides", "dilation", "groups", "padding across", "9 taps", "5 taps", "channels", "size"],
)
def test_others_are_left_to_onednn(
    kernel: tuple[int, int], pad: tuple[int, int], shape: tuple[int, ...], attributes: Any
) -> None:
    executor = bound(layer(kernel, pad, **attributes), shape)
    executor.forward()
    assert KERNEL not in convolutions_of(executor)
