"""The losses of output layers. Expected numbers: NumPy, and the gradients of ``backward``."""

from __future__ import annotations

import numpy as np
import pytest

from oracle.apply import apply, make

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("op", "attributes", "label"),
    [
        ("SoftmaxOutput", {}, np.array([0, 2, 1])),
        ("SoftmaxOutput", {"use_ignore": True, "ignore_label": 2}, np.array([0, 2, 1])),
        ("SoftmaxOutput", {}, RNG.dirichlet(np.ones(4), 3)),
        ("LinearRegressionOutput", {}, RNG.normal(size=(3, 4))),
        ("MAERegressionOutput", {}, RNG.normal(size=(3, 4))),
        ("LogisticRegressionOutput", {}, RNG.integers(0, 2, (3, 4))),
    ],
    ids=["classes", "ignored", "probabilities", "squares", "absolute", "logistic"],
)
def test_backward_is_proportional_to_the_loss_gradient(
    op: str, attributes: dict[str, object], label: np.ndarray
) -> None:
    data = RNG.normal(size=(3, 4)).astype(np.float32)
    label = label.astype(np.float32)
    loss = make(op, attributes).implied_loss()
    assert loss is not None

    def loss_of(shifted: np.ndarray) -> float:
        return loss(apply(op, attributes, [shifted, label]).outputs[0], label)

    numeric = np.zeros_like(data)
    step = 1e-2
    for index in np.ndindex(data.shape):
        shift = np.zeros_like(data)
        shift[index] = step
        numeric[index] = (loss_of(data + shift) - loss_of(data - shift)) / (2 * step)
    gradient = apply(op, attributes, [data, label], [np.ones_like(data)]).grads[0]
    factor = (numeric * gradient).sum() / (gradient * gradient).sum()
    assert factor > 0
    np.testing.assert_allclose(numeric, factor * gradient, atol=1e-3)


def test_places_of_images_and_joined_labels() -> None:
    exp = np.exp(RNG.normal(size=(2, 3, 4, 5)))
    p, label = exp / exp.sum(1, keepdims=True), RNG.integers(0, 3, (2, 4, 5))
    loss = make("SoftmaxOutput", {"multi_output": True}).implied_loss()
    assert loss is not None
    chosen = np.take_along_axis(p, label[:, None], axis=1)
    assert loss(p, label) == pytest.approx(-np.log(chosen).mean())
    assert loss(p, label.reshape(2, 20)) == pytest.approx(-np.log(chosen).mean())


def test_a_probability_of_zero_is_a_finite_loss() -> None:
    loss = make("SoftmaxOutput", {}).implied_loss()
    assert loss is not None
    assert np.isfinite(loss(np.array([[0.0, 1.0]]), np.array([0.0])))


def test_batch_of_ignored_labels_has_no_loss() -> None:
    loss = make("SoftmaxOutput", {"use_ignore": True, "ignore_label": -1}).implied_loss()
    assert loss is not None
    assert loss(np.array([[0.5, 0.5]]), np.array([-1.0])) == 0


@pytest.mark.parametrize("op", ["MakeLoss", "make_loss"])
def test_an_output_that_is_a_loss_is_its_own_mean(op: str) -> None:
    loss = make(op, {}).implied_loss()
    assert loss is not None
    assert loss(np.array([1.0, 3.0]), None) == 2


@pytest.mark.parametrize("op", ["softmax", "SVMOutput", "BlockGrad"])
def test_other_operators_imply_no_loss(op: str) -> None:
    assert make(op, {}).implied_loss() is None
