"""Dropout masks."""

from __future__ import annotations

import numpy as np
import pytest

from core.errors import AttributeValueError, ShapeError
from oracle.apply import apply, make

DATA = np.random.RandomState(0).uniform(0.5, 1.5, size=(200, 500)).astype("float32")


@pytest.mark.parametrize("p", [0.1, 0.5, 0.8])
def test_drops_the_given_share_and_scales_the_rest(p: float) -> None:
    got = apply("Dropout", {"p": p}, [DATA])
    output, mask = got.outputs
    # Four standard deviations of a binomial share of 100,000.
    assert np.mean(output == 0) == pytest.approx(p, abs=4 * np.sqrt(p * (1 - p) / DATA.size))
    np.testing.assert_allclose(np.unique(mask), [0, 1 / (1 - p)], rtol=1e-6)
    np.testing.assert_array_equal(output, DATA * mask)


def test_dropping_everything_gives_nan_as_in_mxnet() -> None:
    got = apply("Dropout", {"p": 1}, [DATA[:2, :3]], [np.ones((2, 3), np.float32)])
    for array in (*got.outputs, *got.grads):
        assert np.isnan(array).all()


def test_gradient_is_masked_like_the_data() -> None:
    head = np.full_like(DATA, 3.0)
    got = apply("Dropout", {"p": 0.4}, [DATA], [head])
    np.testing.assert_array_equal(got.grads[0], head * got.outputs[1])


def test_neighbouring_elements_are_dropped_independently() -> None:
    dropped = apply("Dropout", {}, [DATA]).outputs[1] == 0
    assert abs(np.corrcoef(dropped[:, :-1].ravel(), dropped[:, 1:].ravel())[0, 1]) < 0.02


def test_the_same_seed_gives_the_same_mask() -> None:
    first, again = (apply("Dropout", {}, [DATA], seed=3).outputs[1] for _ in range(2))
    other = apply("Dropout", {}, [DATA], seed=4).outputs[1]
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_axes_share_a_mask() -> None:
    data = np.ones((50, 6, 40), dtype="float32")
    output, mask = apply("Dropout", {"axes": (1,)}, [data]).outputs
    assert mask.shape == (50, 1, 40)
    np.testing.assert_array_equal(output, np.broadcast_to(mask, data.shape))
    assert 0.4 < np.mean(mask == 0) < 0.6


def test_inference_drops_only_in_mode_always() -> None:
    np.testing.assert_array_equal(apply("Dropout", {}, [DATA], train=False).outputs[0], DATA)
    always = apply("Dropout", {"mode": "always"}, [DATA], train=False).outputs[0]
    assert 0.45 < np.mean(always == 0) < 0.55


def test_is_an_identity_where_it_drops_nothing() -> None:
    assert make("Dropout", {}).is_identity(is_train=False)
    assert make("Dropout", {"p": 0.0}).is_identity(is_train=True)
    assert not make("Dropout", {}).is_identity(is_train=True)
    assert not make("Dropout", {"mode": "always"}).is_identity(is_train=False)


def test_half_precision() -> None:
    output, mask = apply("Dropout", {"p": 0.5}, [DATA.astype("float16")]).outputs
    assert output.dtype == mask.dtype == np.float16
    assert 0.48 < np.mean(output == 0) < 0.52


def test_invalid_arguments_are_refused() -> None:
    with pytest.raises(AttributeValueError, match=r"'p' is 1\.1; its maximum is 1"):
        make("Dropout", {"p": 1.1})
    with pytest.raises(ShapeError, match=r"axes is \(2,\); data has 2 dimensions"):
        make("Dropout", {"axes": (2,)}).infer_shape([(3, 4)], [None, None])
