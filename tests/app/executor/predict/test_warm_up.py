"""Plans made before the first prediction needs them."""

from __future__ import annotations

import numpy as np
import pytest

from app.domain.module import InitSpec
from app.link import calls

FEATURES = 6


def plans(driver) -> int:
    """Return for how many batch sizes the module's predictions are bound."""
    plans: int = driver.host._loaded_modules.use("net").inference.plans()
    return plans


def test_after_warm_up_no_batch_size_needs_binding(driver):
    driver.ready()
    driver.ask(calls.WarmUp(module="net"))
    warm = plans(driver)
    assert warm >= 4  # 1, 2, 4, 8 and the fastest size
    for rows in (1, 2, 3, 5, 8):
        driver.ask(calls.Predict(module="net"), data=np.ones((rows, FEATURES), "f"))
    assert plans(driver) == warm


def test_no_more_sizes_are_bound_than_can_be_batched(driver):
    driver.ready()
    driver.ask(calls.WarmUp(module="net", max_batch_size=3))
    assert plans(driver) == 3  # 1, 2 and 4


def test_every_bucket_is_warm(driver):
    driver.create_buckets((4, 6, 9), default=9)
    driver.bind_buckets(9, (4, 6))
    driver.ask(calls.InitParams(module="net", spec=InitSpec(seed=1)))
    driver.ask(calls.WarmUp(module="net", max_batch_size=4))
    assert plans(driver) == 3 * 3


def test_other_calls_are_answered_between_two_plans(driver):
    driver.ready()
    method, params = calls.to_call(calls.WarmUp(module="net"))
    computation = driver.host.handle(method, params, {})
    assert not computation.is_exclusive
    steps = computation.run({})
    assert next(steps) is None
    driver.ask(calls.Predict(module="net"), data=np.ones((1, FEATURES), "f"))
    assert next(steps) is None


def test_without_parameters_there_is_nothing_to_warm_up(driver, make_network):
    driver.create(make_network())
    driver.bind()
    assert driver.refusal(calls.WarmUp(module="net")).code == "wrong_stage"


def buckets(driver, *lengths: int) -> calls.ChangeBuckets:
    shapes = {str(n): driver.sequence_shapes(n, 4) for n in lengths}
    return calls.ChangeBuckets(module="net", buckets=shapes, max_batch_size=4)


@pytest.fixture
def sequences(driver):
    """A module with two of three buckets."""
    driver.create_buckets((4, 6, 9), default=9)
    driver.bind_buckets(9, (4,))
    driver.ask(calls.InitParams(module="net", spec=InitSpec(seed=1)))
    driver.ask(calls.WarmUp(module="net", max_batch_size=4))
    return driver


def test_unchanged_buckets_keep_their_plans_and_new_ones_are_warm(sequences):
    sequences.ask(buckets(sequences, 6))
    assert set(sequences.describe()["buckets"]) == {"9", "6"}
    assert plans(sequences) == 2 * 3
    data = {"data": np.ones((1, 5, FEATURES), "f"), "lengths": [5]}
    result, _ = sequences.ask(calls.Predict(module="net"), **data)
    assert result["bucket"] == "6"
    assert plans(sequences) == 2 * 3
    sequences.ask(buckets(sequences, 4, 6))
    sequences.ask(calls.Forward(module="net", bucket="4", is_train=True), **batch(4))
    sequences.ask(calls.Backward(module="net"))


def batch(steps: int) -> dict[str, np.ndarray]:
    return {
        "data": np.ones((4, steps, FEATURES), "f"),
        "lengths": np.full(4, steps),
        "softmax_label": np.zeros(4),
    }


def test_old_buckets_answer_until_new_ones_are_warm(sequences):
    method, params = calls.to_call(buckets(sequences, 6))
    steps = sequences.host.handle(method, params, {}).run({})
    next(steps)
    data = {"data": np.ones((1, 4, FEATURES), "f"), "lengths": [4]}
    result, _ = sequences.ask(calls.Predict(module="net"), **data)
    assert result["bucket"] == "4"
    for _ in steps:
        pass
    result, _ = sequences.ask(calls.Predict(module="net"), **data)
    assert result["bucket"] == "6"


def test_a_module_rebound_in_the_meantime_keeps_its_buckets(sequences):
    method, params = calls.to_call(buckets(sequences, 6))
    steps = sequences.host.handle(method, params, {}).run({})
    next(steps)
    sequences.bind_buckets(9, (4,))
    with pytest.raises(Exception, match="rebound meanwhile"):
        for _ in steps:
            pass
    assert set(sequences.describe()["buckets"]) == {"9", "4"}


def test_buckets_without_a_symbol_are_refused_and_change_nothing(sequences):
    assert sequences.refusal(buckets(sequences, 5)).code == "invalid"
    assert set(sequences.describe()["buckets"]) == {"9", "4"}
