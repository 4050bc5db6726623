"""The CTC loss kernel in C against the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core as mx
from core.compiler.compile import CompileOptions
from core.errors import OutOfRange
from core.executor import bind
from core.kernels.native import is_available

pytestmark = pytest.mark.skipif(
    not is_available(), reason="the kernels are not compiled, or there is no AVX-512"
)

REFERENCE = CompileOptions(table=None)

Arrays = dict[str, Any]


def trained(values: Arrays, options: CompileOptions | None, **attrs: Any) -> Any:
    """Return an executor after a training step."""
    symbol = mx.sym.CTCLoss(**{name: mx.sym.var(name) for name in values}, **attrs)
    arguments = {name: mx.nd.array(value, dtype=value.dtype) for name, value in values.items()}
    wanted = {name: "write" if name == "data" else "null" for name in values}
    gradients = {"data": mx.nd.full(values["data"].shape, np.nan)}
    executor = bind(symbol, mx.cpu(), arguments, gradients, grad_req=wanted, options=options)
    executor.forward(is_train=True)
    executor.backward([mx.nd.array(np.linspace(-1, 2, values["data"].shape[1]))])
    return executor


def assert_equals_reference(values: Arrays, **attrs: Any) -> Arrays:
    """Return losses and gradient after comparing both with the reference's."""
    found, wanted = (trained(values, options, **attrs) for options in (None, REFERENCE))
    names = {
        step.kernel.name
        for plan in found._plans.values()
        for step in plan.compiled.program.steps
        if step.kernel is not None
    }
    assert {"native:ctc_loss", "native:ctc_loss_backward"} <= names
    got, expected = (
        {"loss": one.outputs[0].asnumpy(), "gradient": one.grad_dict["data"].asnumpy()}
        for one in (found, wanted)
    )
    for key, value in got.items():
        np.testing.assert_allclose(value, expected[key], rtol=1e-5, atol=1e-6, err_msg=key)
    return got


def drawn(
    steps: int, batch: int, channels: int, labels: int, *, first: int = 1, scale: float = 2
) -> Arrays:
    random = np.random.RandomState(steps)
    return {
        "data": (scale * random.randn(steps, batch, channels)).astype("float32"),
        "label": random.randint(first, channels, (batch, labels)).astype("float32"),
    }


@pytest.mark.parametrize("shape", [(1, 1, 2, 1), (9, 3, 5, 4), (60, 7, 33, 20)], ids=str)
@pytest.mark.parametrize("blank_label", ["first", "last"])
def test_labels_of_any_length(shape: tuple[int, int, int, int], blank_label: str) -> None:
    values = drawn(*shape)
    if blank_label == "last":
        values["label"] -= 1
    for row, count in enumerate(np.arange(shape[1]) % (shape[3] + 1)):
        values["label"][row, shape[3] - count :] = 0 if blank_label == "first" else -1
    assert_equals_reference(values, blank_label=blank_label)


def test_lengths_and_labels_that_do_not_fit_the_data() -> None:
    values = drawn(12, 6, 5, 4, first=0)
    values["label"][3] = 2
    values["data_lengths"] = np.float32([12, 7, 0, 6, 7, 1])
    values["label_lengths"] = np.int32([4, 0, 1, 4, 4, 2])
    got = assert_equals_reference(values, use_data_lengths=True, use_label_lengths=True)
    assert (got["loss"] == 0).tolist() == [False, False, True, True, False, True]


def test_probabilities_below_the_smallest_double() -> None:
    got = assert_equals_reference(drawn(900, 2, 4, 300, scale=30))
    assert got["loss"].min() > 5000


def test_masked_channels_match_the_reference() -> None:
    """Scripts mask channels with -inf, or with a number as low as -1e30."""
    values = drawn(10, 2, 6, 3)
    values["data"][:, 0, 5], values["data"][:, 1, 5] = -np.inf, -1e30
    values["label"][:] = [[1, 2, 3], [4, 1, 4]]
    assert_equals_reference(values)
    values["label"][1, 1] = 5
    got, expected = (trained(values, options).outputs[0].asnumpy() for options in (None, REFERENCE))
    np.testing.assert_allclose(got, expected, rtol=1e-5)
    assert got[1] > 1e29


def test_nan_stays_within_its_example_and_sequence_length() -> None:
    values = drawn(10, 3, 6, 3)
    values["data"][4, 0, 2] = values["data"][8, 1, 2] = np.nan
    values["data_lengths"] = np.float32([10, 8, 10])
    got = assert_equals_reference(values, use_data_lengths=True)
    assert np.isnan(got["loss"]).tolist() == [True, False, False]
    assert np.isnan(got["gradient"]).any(axis=(0, 2)).tolist() == [True, False, False]
    assert not got["gradient"][8:, 1].any()


def test_an_out_of_range_label_is_refused() -> None:
    values = drawn(4, 1, 5, 2)
    values["label"][0, 0] = 5
    with pytest.raises(OutOfRange, match="index 5 is outside an axis of size 5"):
        trained(values, None)
