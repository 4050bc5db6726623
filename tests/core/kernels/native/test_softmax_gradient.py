"""The gradient of the softmax loss layer by the kernel in C, beside its definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core as mx
from core.executor import bind
from core.kernels.native import is_available
from core.types import Array

pytestmark = pytest.mark.skipif(
    not is_available(), reason="the kernels are not compiled, or there is no AVX-512"
)

KERNEL = "native:softmax_output_backward"
ODD = [-1, -0.5, 2.5, 4, 1e30, -1e30, np.nan, np.inf, 3, 0, 1, 2]
"""Labels, of which some are no classes; fractions are cut off."""


def gradient(
    attributes: dict[str, Any], data: Array, label: Array
) -> tuple[Array, Array, set[str]]:
    """Return the gradient of the data, the probabilities, and the kernels of the backward pass."""
    symbol = mx.sym.SoftmaxOutput(mx.sym.var("data"), mx.sym.var("label"), **attributes)
    grad = mx.nd.zeros(data.shape)
    arrays = {"data": mx.nd.array(data), "label": mx.nd.array(label)}
    executor = bind(symbol, mx.cpu(), arrays, args_grad={"data": grad})
    (out,) = executor.forward(is_train=True)
    executor.backward()
    steps = executor._last.compiled.program.backward_steps  # type: ignore[union-attr]
    kernels = {step.kernel.name for step in steps if step.kernel is not None}
    return grad.asnumpy(), out.asnumpy(), kernels


def expected(attributes: dict[str, Any], probabilities: Array, label: Array) -> Array:
    """Return the gradient; axis 1 of the probabilities has the classes."""
    classes = probabilities.shape[1]
    flat = np.moveaxis(probabilities.astype(np.float64), 1, -1).reshape(-1, classes)
    out, all_labels = flat.copy(), label.reshape(-1)
    labels = all_labels[: len(flat)]
    for row, one in zip(out, labels, strict=True):
        if -1 < one < classes:
            row[int(one)] -= 1
    ignored = attributes.get("ignore_label", -1)
    if attributes.get("use_ignore"):
        out[labels == ignored] = 0
    divisor = {
        "null": len(flat) / len(probabilities) if attributes.get("multi_output") else 1,
        "batch": len(flat) if attributes.get("multi_output") else all_labels.size,
        "valid": max((all_labels != ignored).sum(), 1),
    }[attributes.get("normalization", "null")]
    out *= attributes.get("grad_scale", 1) / divisor
    last = np.moveaxis(probabilities, 1, -1).shape
    return np.moveaxis(out.reshape(last), -1, 1)


@pytest.mark.parametrize("normalization", ["null", "batch", "valid"])
@pytest.mark.parametrize("ignored", [None, -1, 2], ids=["all count", "-1", "2"])
@pytest.mark.parametrize(
    ("shape", "multi_output"),
    [((12, 4), False), ((2, 4, 2, 3), True), ((4500, 4), False), ((3, 4, 40, 40), True)],
    ids=["rows", "places", "many rows", "many places"],
)
def test_equals_its_definition(
    shape: tuple[int, ...], multi_output: bool, ignored: int | None, normalization: str
) -> None:
    attributes: dict[str, Any] = {"normalization": normalization, "grad_scale": 0.5}
    if multi_output:
        attributes["multi_output"] = True
    if ignored is not None:
        attributes.update(use_ignore=True, ignore_label=ignored)
    data = np.random.RandomState(3).randn(*shape).astype(np.float32)
    label = np.resize(np.float32(ODD), (shape[0], *shape[2:]))
    found, probabilities, kernels = gradient(attributes, data, label)
    assert KERNEL in kernels
    np.testing.assert_allclose(
        found, expected(attributes, probabilities, label), rtol=1e-5, atol=1e-9
    )


def test_more_labels_than_rows() -> None:
    data = np.random.RandomState(4).randn(2, 5, 3).astype(np.float32)
    label = np.float32([[1, -1, 3, 14, 0], [2, 2, -1, -1, 5]])
    attributes = {"normalization": "valid", "use_ignore": True, "ignore_label": -1}
    found, probabilities, kernels = gradient(attributes, data, label)
    assert KERNEL in kernels
    wanted = expected(attributes, probabilities.reshape(2, 15), label)
    np.testing.assert_allclose(found.reshape(2, 15), wanted, rtol=1e-5)


@pytest.mark.parametrize(
    ("attributes", "label"),
    [({"out_grad": True}, (3,)), ({"smooth_alpha": 0.1}, (3,)), ({}, (3, 4))],
    ids=["out_grad", "smooth_alpha", "probabilities as labels"],
)
def test_others_are_left_to_the_reference(
    attributes: dict[str, Any], label: tuple[int, ...]
) -> None:
    data = np.ones((3, 4), np.float32)
    _, _, kernels = gradient(attributes, data, np.zeros(label, np.float32))
    assert KERNEL not in kernels
