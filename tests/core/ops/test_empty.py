"""Operators on empty batches and on axes of length 0, as np-shape mode allows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import core as mx
from core import nd

Function = Callable[[Any], Any]

BATCHES: list[tuple[tuple[int, ...], Function]] = [
    ((0, 5), lambda x: nd.SoftmaxOutput(x, nd.zeros(0))),
    ((0, 5), lambda x: nd.SoftmaxOutput(x, nd.zeros(0), normalization="batch")),
    ((0, 5), lambda x: nd.SoftmaxOutput(x, nd.zeros(0), normalization="valid", use_ignore=True)),
    ((0, 5, 3), lambda x: nd.SoftmaxOutput(x, nd.zeros((0, 3)), multi_output=True)),
    ((0, 3, 5), lambda x: nd.SoftmaxOutput(x, nd.zeros((0, 3)), preserve_shape=True)),
    ((0, 3), lambda x: nd.LinearRegressionOutput(x, nd.zeros((0, 3)))),
    ((0,), lambda x: nd.MAERegressionOutput(x, nd.zeros(0))),
    ((0, 3), lambda x: nd.LogisticRegressionOutput(x, nd.zeros((0, 3)))),
    ((0, 3), lambda x: nd.LayerNorm(x, nd.ones(3), nd.ones(3))),
    ((2, 0), nd.SoftmaxActivation),
    ((2, 0), nd.softmax),
    ((2, 0), nd.log_softmax),
]


@pytest.mark.parametrize(("shape", "function"), BATCHES)
def test_layers_accept_empty_batches(shape: tuple[int, ...], function: Function) -> None:
    with mx.np_shape(True):
        x = nd.zeros(shape)
        x.attach_grad()
        with mx.autograd.record():
            y = function(x)
        y.backward()
        assert y.shape == x.grad.shape == shape


def test_means_of_nothing_are_nan() -> None:
    with mx.np_shape(True):
        for shape, mean in (((0, 3), []), ((2, 0), [np.nan, np.nan])):
            x = nd.zeros(shape)
            x.attach_grad()
            with mx.autograd.record():
                y = nd.mean(x, axis=1)
            y.backward()
            np.testing.assert_array_equal(y.asnumpy(), np.float32(mean))
            assert x.grad.shape == shape


@pytest.mark.parametrize("shape", [(0, 6), (2, 0, 6), (0, 3, 6)])
@pytest.mark.parametrize("topk", [-1, 0])
def test_suppression_of_no_boxes(shape: tuple[int, ...], topk: int) -> None:
    with mx.np_shape(True):
        assert nd.contrib.box_nms(nd.zeros(shape), topk=topk).shape == shape


LENGTHS = nd.ones(3)

EMPTY: list[tuple[tuple[int, ...], Function, list[tuple[int, ...]]]] = [
    ((2, 0, 6), nd.contrib.box_nms, [(2, 0, 6)]),
    ((0, 6), nd.contrib.box_nms, [(0, 6)]),
    ((4, 3, 0), nd.SequenceLast, [(3, 0)]),
    ((0, 3, 2), nd.SequenceLast, [(3, 2)]),
    ((4, 3, 0), lambda x: nd.SequenceLast(x, LENGTHS, use_sequence_length=True), [(3, 0)]),
    ((0, 3, 2), lambda x: nd.SequenceReverse(x, LENGTHS, use_sequence_length=True), [(0, 3, 2)]),
    ((2, 0, 4), lambda x: nd.contrib.bipartite_matching(x, threshold=0.5), [(2, 0), (2, 4)]),
    ((3, 0), lambda x: nd.contrib.bipartite_matching(x, threshold=0.5), [(3,), (0,)]),
    (
        (0, 3, 5),
        lambda x: nd.contrib.MultiBoxDetection(x, nd.zeros((0, 20)), nd.zeros((1, 5, 4))),
        [(0, 5, 6)],
    ),
]


@pytest.mark.parametrize(("shape", "function", "expected"), EMPTY)
def test_operators_on_nothing_have_gradients(
    shape: tuple[int, ...], function: Function, expected: list[tuple[int, ...]]
) -> None:
    with mx.np_shape(True):
        x = nd.zeros(shape)
        x.attach_grad()
        with mx.autograd.record():
            found = function(x)
        outputs = found if isinstance(found, list) else [found]
        outputs[0].backward()
        assert [output.asnumpy().shape for output in outputs] == expected
        assert x.grad.asnumpy().shape == shape
