"""The stand-in for a device notices what would go wrong on one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from core.kernels.cuda import launch

from .host_modules import HostModule, is_available

pytestmark = pytest.mark.skipif(not is_available(), reason="needs g++ on x86-64")

_REVERSE = """
extern "C" __global__ void reverse(const int *data, int *out) {
  __shared__ int all[64];
  all[threadIdx.x] = data[threadIdx.x];
  BARRIER
  out[threadIdx.x] = all[63 - threadIdx.x];
}
"""
_EARLY = """
extern "C" __global__ void early(float *out) {
  if (threadIdx.x == 5) return;
  out[threadIdx.x] = __shfl_xor_sync(0xffffffffu, (float)threadIdx.x, 4);
}
"""


def reversed_numbers(barrier: str) -> tuple[np.ndarray, np.ndarray]:
    data, out = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
    code = launch.code_of("common.cuh") + _REVERSE.replace("BARRIER", barrier)
    HostModule(code, ()).get_function("reverse").kernel((1,), (64,), (data, out))
    return out, data[::-1]


def test_a_barrier_orders_threads() -> None:
    np.testing.assert_array_equal(*reversed_numbers("__syncthreads();"))


def test_a_missing_barrier_gives_wrong_numbers() -> None:
    out, right = reversed_numbers("")
    assert (out != right).any()


def test_a_thread_that_is_missing_in_an_exchange_ends_the_process() -> None:
    command = (
        "from core.kernels.cuda.host_modules import HostModule\n"
        "import numpy as np\n"
        f"module = HostModule('''{_EARLY}''', ())\n"
        "module.get_function('early').kernel((1,), (32,), (np.zeros(32, np.float32),))\n"
    ).replace("core.kernels.cuda.host_modules", "host_modules")
    here = str(Path(__file__).parent)
    path = f"import sys; sys.path[:0] = [{here!r}]\n"
    done = subprocess.run([sys.executable, "-c", path + command], capture_output=True, text=True)
    assert done.returncode != 0
    assert "a lane to read has ended" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [(np.zeros(64, np.int32),), (np.zeros(64, np.int32), np.int32(1))],
    ids=["too few", "too narrow"],
)
def test_arguments_have_the_sizes_of_the_parameters(arguments: tuple[object, ...]) -> None:
    code = launch.code_of("common.cuh") + _REVERSE.replace("BARRIER", "")
    kernel = HostModule(code, ()).get_function("reverse").kernel
    with pytest.raises(AssertionError, match="reverse"):
        kernel((1,), (64,), arguments)


@pytest.mark.parametrize("number", [1, 2, 3, 7, 49, 1000, 65537, (1 << 31) - 1])
def test_division_by_multiplication_is_exact(number: int) -> None:
    by, magic, shift = launch.divisor(number)[()]
    random = np.random.RandomState(1)
    for given in (0, 1, number - 1, number, (1 << 31) - 1, *random.randint(0, (1 << 31) - 1, 200)):
        high = int(magic) * int(given) >> 32
        assert (high + int(given)) >> int(shift) == int(given) // int(by)
