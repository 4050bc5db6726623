"""Random arrays, statistical checks, and the environment of a test."""

import os
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import core as mx
from core import test_utils
from core.testing.statistics import _chi_square_tail


@pytest.fixture(autouse=True)
def seeded() -> Iterator[None]:
    """Give each test the same random numbers, and restore the state that others continue from."""
    state = np.random.get_state()
    np.random.seed(7)
    yield
    np.random.set_state(state)


def test_random_arrays_have_the_shapes_asked_for() -> None:
    assert test_utils.random_arrays((2, 3)).dtype == np.float32
    assert [a.shape for a in test_utils.random_arrays((2,), ())] == [(2,), ()]
    (one,) = test_utils.random_uniform_arrays((50,), low=2, high=3)
    assert 2 <= one.min() < one.max() < 3
    assert sorted(test_utils.random_sample([3, 1, 2], 3)) == [1, 2, 3]
    assert all(1 <= n <= 4 for _ in range(20) for n in test_utils.rand_shape_nd(3, dim=4))
    assert {test_utils.rand_shape_2d(1, 2) for _ in range(50)} == {(1, 1), (1, 2)}
    assert (0, 0, 0) in {test_utils.rand_shape_3d(1, 1, 1, allow_zero_size=True) for _ in range(99)}
    assert test_utils.rand_coord_2d(1, 2, 5, 6) == (1, 5)


def test_row_sparse_arrays_have_the_rows_asked_for() -> None:
    made, (values, rows) = test_utils.rand_sparse_ndarray((6, 2), "row_sparse", density=0.5)
    np.testing.assert_array_equal(made.indices.asnumpy(), rows)
    np.testing.assert_array_equal(made.data.asnumpy(), values)
    fixed = test_utils.create_sparse_array_zd(
        (6, 2), "row_sparse", 1, rsp_indices=(4, 1), data_init=2, modifier_func=lambda x: x + 1
    )
    assert fixed.indices.asnumpy().tolist() == [1, 4]
    np.testing.assert_array_equal(fixed.data.asnumpy(), 3)
    none = test_utils.create_sparse_array_zd((6, 2), "row_sparse", 1)
    assert none.indices.shape == (0,)


def test_csr_arrays_have_the_density_asked_for() -> None:
    made = test_utils.rand_ndarray((8, 5), "csr", density=0.25)
    assert made.stype == "csr"
    assert np.count_nonzero(made.asnumpy()) == 10
    before = made.asnumpy()
    test_utils.shuffle_csr_column_indices(made)
    assert sorted(made.indices.asnumpy()) == sorted(np.nonzero(before)[1])
    _, (indptr, _, _) = test_utils.rand_sparse_ndarray(
        (5, 16), "csr", density=0.5, distribution="powerlaw"
    )
    # As in the example of mxnet.test_utils: each row has twice the previous one, the last the rest.
    assert np.diff(indptr.asnumpy()).tolist() == [2, 4, 8, 16, 10]


def test_impossible_sparse_densities_are_refused() -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        test_utils.rand_ndarray((2, 2), "csr", density=2)
    with pytest.raises(ValueError, match="too low"):
        test_utils.rand_ndarray((5, 16), "csr", density=0.01, distribution="powerlaw")
    with pytest.raises(AssertionError, match="not supported"):
        test_utils.rand_ndarray((2, 2), "block", density=1)


def test_environment_is_set_only_within_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORE_TEST_A", "outer")
    with test_utils.environment({"CORE_TEST_A": None, "CORE_TEST_B": "1"}):
        assert "CORE_TEST_A" not in os.environ
        assert os.environ["CORE_TEST_B"] == "1"
        with test_utils.EnvManager("CORE_TEST_B", "2"):
            assert os.environ["CORE_TEST_B"] == "2"
        assert os.environ["CORE_TEST_B"] == "1"
    assert os.environ["CORE_TEST_A"] == "outer"
    assert "CORE_TEST_B" not in os.environ
    with pytest.raises(KeyError), test_utils.environment("CORE_TEST_A", "x"):
        raise KeyError
    assert os.environ["CORE_TEST_A"] == "outer"


def test_stderr_is_discarded(capfd: pytest.CaptureFixture[str]) -> None:
    with test_utils.discard_stderr():
        os.write(2, b"hidden")
    print("shown", file=sys.stderr)
    assert capfd.readouterr().err == "shown\n"


def test_a_failing_test_is_retried() -> None:
    tries: list[int] = []

    @test_utils.retry(3)
    def passes_at(attempt: int) -> None:
        tries.append(1)
        assert len(tries) >= attempt

    passes_at(3)
    assert len(tries) == 3
    tries.clear()
    with pytest.raises(AssertionError):
        passes_at(4)


def test_dummy_iterator_repeats_the_first_batch() -> None:
    real = mx.io.NDArrayIter(np.arange(6.0).reshape(6, 1), np.zeros(6), batch_size=2)
    dummy = test_utils.DummyIter(real)
    batches = [next(dummy) for _ in range(5)]
    assert all(batch is batches[0] for batch in batches)
    assert dummy.provide_data == real.provide_data
    assert batches[0].data[0].asnumpy().ravel().tolist() == [0, 1]


def test_default_context_is_the_threads_own() -> None:
    seen: list[Any] = []
    test_utils.set_default_context(mx.cpu(3))
    try:
        assert test_utils.default_context() == mx.nd.zeros((1,)).context == mx.cpu(3)
        with mx.cpu(1):
            assert mx.current_context() == mx.cpu(1)
        thread = threading.Thread(target=lambda: seen.append(mx.current_context()))
        thread.start()
        thread.join()
    finally:
        test_utils.set_default_context(mx.cpu(0))
    assert seen == [mx.cpu(0)]
    assert mx.current_context() == mx.cpu(0)


@pytest.mark.parametrize(
    # chi-square, degrees of freedom, p: the 5 % and 1 % columns of tables of critical values
    ("statistic", "freedom", "p"),
    [(3.841, 1, 0.05), (5.991, 2, 0.05), (9.488, 4, 0.05), (20.090, 8, 0.01), (24.996, 15, 0.05)],
)
def test_chi_square_has_the_tabulated_tail(statistic: float, freedom: int, p: float) -> None:
    assert _chi_square_tail(statistic, freedom) == pytest.approx(p, abs=1e-4)


def test_wrong_generators_are_detected() -> None:
    buckets, shares = test_utils.gen_buckets_probs_with_ppf(lambda x: x, 5)
    draw = np.random.uniform
    test_utils.verify_generator(lambda n: draw(size=n), buckets, shares, nsamples=10000)
    with pytest.raises(AssertionError, match="Generator test fails"):
        test_utils.verify_generator(lambda n: draw(size=n) ** 2, buckets, shares, nsamples=10000)
    coin = lambda n: np.random.randint(0, 2, size=n)  # noqa: E731
    assert test_utils.chi_square_check(coin, [0, 1], [0.5, 0.5], 10000)[0] > 1e-6
    assert test_utils.chi_square_check(coin, [0, 1], [0.6, 0.4], 10000)[0] < 1e-6
    assert test_utils.mean_check(np.random.standard_normal, 0, 1, 10000)
    assert not test_utils.mean_check(np.random.standard_normal, 0.1, 1, 10000)
    assert test_utils.var_check(np.random.standard_normal, 1, 10000)
    assert not test_utils.var_check(np.random.standard_normal, 1.1, 10000)
