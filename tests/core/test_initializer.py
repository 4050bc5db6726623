"""Initializers: names, JSON, errors, fused recurrent parameters."""

from __future__ import annotations

import json

import numpy as np
import pytest

import core as mx
from core.ops.rnn_packing import packed_arrays, packed_size


def filled(init: mx.init.Initializer, name: str, shape: tuple[int, ...]) -> np.ndarray:
    values = mx.nd.full(shape, 9.0)
    init(mx.init.InitDesc(name), values)
    return values.asnumpy()


def test_a_variables_own_initializer_wins() -> None:
    desc = mx.init.InitDesc("fc_bias", {"__init__": mx.init.Constant(3.0).dumps()})
    values = mx.nd.zeros((2,))
    mx.init.Xavier()(desc, values)
    assert values.asnumpy().tolist() == [3, 3]


@pytest.mark.parametrize(
    "init",
    [
        mx.init.Uniform(),
        mx.init.Normal(),
        mx.init.Xavier(),
        mx.init.Orthogonal(),
        mx.init.Constant(3),
        mx.init.LSTMBias(),
    ],
    ids=lambda init: type(init).__name__,
)
def test_row_sparse_arrays_get_the_values_of_dense_ones(
    init: mx.init.Initializer,
) -> None:
    sparse, dense = mx.nd.sparse.zeros("row_sparse", (8, 3)), mx.nd.zeros((8, 3))
    for values in (sparse, dense):
        mx.random.seed(1)
        init(mx.init.InitDesc("embed_weight", {"__init__": init.dumps()}), values)
    assert np.abs(dense.asnumpy()).max() > 0
    np.testing.assert_array_equal(sparse.asnumpy(), dense.asnumpy())
    mx.init.Zero()(mx.init.InitDesc("embed_weight"), sparse)
    assert sparse.stype == "row_sparse"
    assert not sparse.asnumpy().any()
    assert sparse.indices.asnumpy().tolist() == list(range(8))  # as in MXNet


@pytest.mark.parametrize(
    "value",
    [mx.nd.ones((2, 1)), np.ones((2, 1)), np.float32(1), 1.0],
    ids=lambda one: str(type(one)),
)
def test_constants_are_plain_numbers_in_json(value: object) -> None:
    """MXNet's test_init compares the text with what json makes of the arguments."""
    init = mx.init.Constant(value)
    assert init.dumps() == json.dumps(["constant", init._kwargs])
    assert mx.init.create(init.dumps()) == init


@pytest.mark.parametrize(
    "init",
    [
        mx.init.Xavier(rnd_type="gaussian", factor_type="in", magnitude=2),
        mx.init.MSRAPrelu(slope=0.1),
        mx.init.Uniform(0.3),
        mx.init.Orthogonal(),
        mx.init.Constant([1.0, 2.0]),
        mx.init.LSTMBias(2.0),
        mx.init.FusedRNN(mx.init.Uniform(0.2), 4, 2, "lstm", True),
    ],
    ids=lambda init: type(init).__name__,
)
def test_json_recreates_an_equal_initializer(init: mx.init.Initializer) -> None:
    assert mx.init.create(init.dumps()) == init


def test_fused_parameters_are_filled_gate_by_gate() -> None:
    size = packed_size("lstm", 2, 3, 5, True)
    init = mx.init.FusedRNN(mx.init.Constant(0.5), 3, 2, "lstm", True, forget_bias=2.0)
    values = filled(init, "lstm_weight", (size,))
    for part in packed_arrays("lstm", 2, 3, 5, True):
        gate = values[part.start : part.stop]
        expected = 0.0 if part.name.endswith("_bias") else 0.5
        expected = 2.0 if part.name.endswith("_f_bias") else expected
        np.testing.assert_array_equal(gate, expected, err_msg=part.name)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: filled(mx.init.Xavier(), "a_weight", (3,)), "'a_weight' of shape"),
        (lambda: filled(mx.init.Xavier(factor_type="x"), "a_weight", (3, 3)), "factor type"),
        (lambda: filled(mx.init.Uniform(), "state", (3,)), "no rule initializes 'state'"),
        (lambda: mx.init.create("xaver"), "did you mean 'xavier'"),
        (lambda: mx.init.Mixed(["a"], []), "1 patterns for 0"),
        (lambda: mx.init.Mixed(["a"], [mx.init.One()])("b", mx.nd.zeros((1,))), "none of"),
        (lambda: mx.init.Load({"a": mx.nd.zeros((2,))})("b", mx.nd.zeros((1,))), "'b' is not in"),
        (lambda: mx.init.Load({"arg:a": mx.nd.zeros((2,))})("a", mx.nd.zeros((1,))), "expected"),
    ],
)
def test_invalid_initializers_are_refused(call: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        call()  # type: ignore[operator]


def test_load_and_mixed_choose_by_name() -> None:
    values = mx.nd.zeros((2,))
    mx.init.Load({"arg:a": mx.nd.ones((2,))})("a", values)
    assert values.asnumpy().tolist() == [1, 1]
    mixed = mx.init.Mixed([".*bias", ".*"], [mx.init.Zero(), mx.init.One()])
    bias, weight = mx.nd.full((1,), 5), mx.nd.full((1,), 5)
    mixed(mx.init.InitDesc("fc_bias"), bias)
    mixed(mx.init.InitDesc("fc_weight"), weight)
    assert (bias.asscalar(), weight.asscalar()) == (0, 1)


def test_verbose_initializers_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        filled(mx.init.One().set_verbosity(True), "fc_weight", (4,))
    assert "Initialized fc_weight" in caplog.text
