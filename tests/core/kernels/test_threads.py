"""One setting decides the number of threads, and idle threads sleep."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import core as mx
from core.config import Config
from core.kernels.onednn import is_available, library
from core.kernels.onednn.constants import Algorithm, Propagation
from core.kernels.onednn.memory import plain
from core.kernels.onednn.primitive import Primitive
from core.kernels.threads import openmp_environment, thread_count

COUNTS = """
import core as mx, numpy as np
from threadpoolctl import threadpool_info
from core.kernels.onednn import library
blas = [one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"]
print(library().threads(), *blas)
"""


@pytest.fixture
def clean_environment(monkeypatch):
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.skipif(not is_available(), reason="oneDNN is not installed")
@pytest.mark.parametrize("count", [1, 2])
def test_one_variable_sets_the_threads_of_kernels_and_blas(count):
    others = {name: value for name, value in os.environ.items() if not name.endswith("_THREADS")}
    run = subprocess.run(
        [sys.executable, "-c", COUNTS],
        env={**others, "MODSERVE_THREADS": str(count), "OPENBLAS_NUM_THREADS": "4"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.split() == [str(count), str(count)], run.stderr


def test_thread_counts_set_for_the_libraries_are_respected(clean_environment, monkeypatch):
    assert thread_count(Config()) > 0
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # after the engine has been imported
    assert thread_count(Config()) == 0


@pytest.mark.parametrize(
    ("config", "cpus", "expected"),
    [
        (Config(), 9, 9),
        (Config(sharers=1), 9, 8),
        (Config(sharers=3), 9, 2),
        (Config(sharers=3), 2, 1),
        (Config(sharers=1), 1, 1),
        (Config(threads=5, sharers=3), 9, 5),
    ],
)
def test_executors_share_the_processors(clean_environment, monkeypatch, config, cpus, expected):
    monkeypatch.setattr("core.kernels.threads.available_cpus", lambda: cpus)
    assert thread_count(config) == expected


def test_environment_is_changed_only_while_the_library_loads(clean_environment):
    with openmp_environment(3):
        assert os.environ["OMP_NUM_THREADS"] == "3"
        assert int(os.environ["GOMP_SPINCOUNT"]) > 1000
    assert "OMP_NUM_THREADS" not in os.environ
    assert "GOMP_SPINCOUNT" not in os.environ


@pytest.mark.parametrize(
    ("name", "value"), [("OMP_WAIT_POLICY", "active"), ("GOMP_SPINCOUNT", "7")]
)
def test_the_users_wait_policy_is_kept(clean_environment, monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    with openmp_environment(0):
        assert os.environ[name] == value
        assert os.environ.get("GOMP_SPINCOUNT") in (None, "7")
        assert "OMP_NUM_THREADS" not in os.environ


@pytest.mark.skipif(not is_available(), reason="oneDNN is not installed")
def test_light_primitives_run_on_one_thread_and_restore_the_count():
    api = library()
    before = api.threads()
    api.set_threads(3)
    try:
        seen = []
        assert api.on_one_thread(lambda: seen.append(api.threads()) or 5)() == 5
        assert seen == [1]
        assert api.threads() == 3
        exe = mx.sym.tanh(mx.sym.Variable("x")).bind(mx.cpu(), {"x": mx.nd.ones((3, 5))})
        assert exe.forward()[0].asnumpy() == pytest.approx(np.tanh(np.ones((3, 5))))
        assert api.threads() == 3
    finally:
        api.set_threads(before)


@pytest.mark.skipif(not is_available(), reason="oneDNN is not installed")
@pytest.mark.parametrize(
    ("kind", "dims", "is_light"),
    [
        ("eltwise_forward", [(128, 128)] * 2, True),
        ("eltwise_forward", [(128, 129)] * 2, False),
        # rows, weight, result: 1 x 512 x 512 and 1 x 512 x 513 multiplications
        ("inner_product_forward", [(1, 512), (512, 512), (1, 512)], True),
        ("inner_product_forward", [(1, 512), (513, 512), (1, 513)], False),
    ],
)
def test_small_primitives_are_light(kind, dims, is_light):
    descs = [plain(one) for one in dims]
    if kind == "eltwise_forward":
        parameters = (Propagation.FORWARD_INFERENCE, Algorithm.ELTWISE_TANH, *descs, 0.0, 0.0)
    else:
        rows, weight, result = descs
        parameters = (Propagation.FORWARD_INFERENCE, rows, weight, None, result)
    before = library().threads()
    assert Primitive.of(kind, *parameters).is_light is is_light
    assert library().threads() == before
