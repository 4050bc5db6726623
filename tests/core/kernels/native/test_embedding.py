"""The embedding kernel in C against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import core as mx
from core.kernels.native import is_available

pytestmark = pytest.mark.skipif(
    not is_available(), reason="the kernels are not compiled, or there is no AVX-512"
)


def looked_up(numbers: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the output of an executor, having checked that only the kernel runs."""
    rows, columns = weight.shape
    symbol = mx.sym.Embedding(mx.sym.Variable("data"), input_dim=rows, output_dim=columns)
    name = symbol.list_arguments()[1]
    executor = symbol.simple_bind(
        mx.cpu(), "null", data=numbers.shape, type_dict={"data": numbers.dtype, name: weight.dtype}
    )
    executor.arg_dict["data"][:] = mx.nd.array(numbers, dtype=numbers.dtype)
    executor.arg_dict[name][:] = mx.nd.array(weight, dtype=weight.dtype)
    (out,) = executor.forward(is_train=False)
    (plan,) = executor._plans.values()
    kernels = [step.kernel and step.kernel.name for step in plan.compiled.program.steps]
    assert kernels == ["native:embedding"]
    return np.asarray(out.asnumpy())


@pytest.mark.parametrize("weight_dtype", ["float32", "float64", "int8"])
@pytest.mark.parametrize("dtype", ["float32", "int32", "int64"])
@pytest.mark.parametrize(("shape", "columns"), [((7,), 5), ((40, 3), 1), ((300, 20), 33)])
def test_selects_the_rows_numpy_selects(
    shape: tuple[int, ...], columns: int, dtype: str, weight_dtype: str
) -> None:
    random = np.random.RandomState(3)
    weight = (100 * random.randn(50, columns)).astype(weight_dtype)
    numbers = random.randint(-9, 59, shape).astype(dtype)
    wanted = weight[numbers.astype("int64").clip(0, 49)]
    np.testing.assert_array_equal(looked_up(numbers, weight), wanted)


def test_out_of_range_indices_are_clipped() -> None:
    odd = np.array([2.9, -0.5, -3, 1e30, -1e30, np.nan, np.inf, -np.inf], "float32")
    weight = np.arange(20, dtype="float32").reshape(4, 5)
    with np.errstate(invalid="ignore"):
        wanted = weight[odd.astype("int64").clip(0, 3)]
    np.testing.assert_array_equal(looked_up(odd, weight), wanted)
