"""The kernel of ``topk`` in C against stable sorting by NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import core as mx
from core.kernels.native import is_available

pytestmark = pytest.mark.skipif(
    not is_available(), reason="the kernels are not compiled, or there is no AVX-512"
)


def topk(data: np.ndarray, kernel: str | None = "native:topk", **attrs: object) -> list:
    """Return the outputs of an executor, having checked which kernel runs."""
    symbol = mx.sym.topk(mx.sym.Variable("data"), **attrs)
    executor = symbol.simple_bind(mx.cpu(), "null", data=data.shape)
    executor.arg_dict["data"][:] = mx.nd.array(data)
    outputs = executor.forward(is_train=False)
    (plan,) = executor._plans.values()
    kernels = [step.kernel and step.kernel.name for step in plan.compiled.program.steps]
    assert kernels == [kernel]
    return [output.asnumpy() for output in outputs]


def expected(data: np.ndarray, count: int, is_ascend: bool) -> list[np.ndarray]:
    """Return values and indices; equal elements stay in order, and NaN sorts above the others."""
    big = np.nan_to_num(data.astype("float64"), nan=1e300, posinf=1e200, neginf=-1e200)
    order = np.argsort(big if is_ascend else -big, axis=-1, kind="stable")[..., :count]
    return [np.take_along_axis(data, order, -1), order.astype("float32")]


@pytest.mark.parametrize("is_ascend", [False, True])
@pytest.mark.parametrize(
    ("shape", "count"),
    [((3, 16), 2), ((5, 17), 1), ((2, 3, 1001), 100), ((64, 700), 10), ((4096,), 256)],
)
def test_results_match_a_stable_sort(shape: tuple[int, ...], count: int, is_ascend: bool) -> None:
    random = np.random.RandomState(5)
    for data in (random.randn(*shape), random.randint(-3, 3, shape), np.zeros(shape)):
        given = data.astype("float32")
        wanted = expected(given, count, is_ascend)
        got = topk(given, k=count, ret_typ="both", is_ascend=is_ascend)
        for one, other in zip(got, wanted, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("is_ascend", [False, True])
def test_nan_infinity_and_both_zeros_match_a_stable_sort(is_ascend: bool) -> None:
    row = np.array([0.0, -0.0, np.inf, np.nan, -np.inf, 1e-40, -1e-40, 0.0] * 8, "float32")
    data = np.stack([row, row[::-1]])
    for count in (1, 5, 8):
        wanted = expected(data, count, is_ascend)
        got = topk(data, k=count, ret_typ="both", is_ascend=is_ascend)
        for one, other in zip(got, wanted, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("direction", [1, -1])
def test_rows_in_ascending_and_descending_order(direction: int) -> None:
    row = np.arange(2000, dtype="float32")[::direction]
    (got,) = topk(row[None], k=200, ret_typ="value")
    np.testing.assert_array_equal(got[0], np.arange(1999, 1799, -1))


def test_all_elements_are_searched_without_an_axis() -> None:
    data = np.random.RandomState(1).randn(6, 7, 8).astype("float32")
    (got,) = topk(data, axis=None, k=3)
    np.testing.assert_array_equal(got, np.argsort(-data.ravel())[:3])


@pytest.mark.parametrize(
    "attrs", [{"k": 30}, {"k": 0}, {"k": 1, "ret_typ": "mask"}, {"k": 1, "axis": 0}], ids=str
)
def test_others_run_on_the_reference(attrs: dict[str, object]) -> None:
    data = np.random.RandomState(1).randn(40, 40).astype("float32")
    topk(data, None, **attrs)
