"""Errors have the types of MXNet 1.9.1, since scripts catch those (for modules: see ``module``)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import core as mx

ROWS = np.ones((4, 3), "float32")


def _bidirectional() -> mx.rnn.BidirectionalCell:
    return mx.rnn.BidirectionalCell(
        mx.rnn.LSTMCell(3, prefix="l_"), mx.rnn.LSTMCell(3, prefix="r_")
    )


def _in_sequence() -> mx.rnn.SequentialRNNCell:
    cells = mx.rnn.SequentialRNNCell()
    cells.add(_bidirectional())
    return cells


# What MXNet 1.9.1 raises for each, observed by running it.
CASES: list[tuple[str, type[Exception], Callable[[], object]]] = [
    ("no variables", AssertionError, lambda: mx.autograd.grad([mx.nd.ones(2)], [])),
    ("heads", AssertionError, lambda: mx.autograd.backward([mx.nd.ones(2)], [None, None])),
    ("get_symbol", AssertionError, lambda: mx.autograd.get_symbol(3)),
    (
        "cross entropy",
        AssertionError,
        lambda: mx.metric.CrossEntropy().update([mx.nd.ones(3)], [mx.nd.ones((2, 4))]),
    ),
    (
        "perplexity",
        AssertionError,
        lambda: mx.metric.Perplexity(None).update([mx.nd.ones(3)], [mx.nd.ones((2, 4))]),
    ),
    ("lengths", ValueError, lambda: mx.metric.Accuracy().update([mx.nd.ones(3)], [])),
    ("top_k", AssertionError, lambda: mx.metric.TopKAccuracy(top_k=1)),
    ("data of a batch", AssertionError, lambda: mx.io.DataBatch(ROWS)),
    ("label of a batch", AssertionError, lambda: mx.io.DataBatch([ROWS], ROWS)),
    ("no data", AssertionError, lambda: mx.io.NDArrayIter(None)),
    ("no arrays", AssertionError, lambda: mx.io.NDArrayIter([])),
    ("data of a type", TypeError, lambda: mx.io.NDArrayIter({"a": "x"})),
    (
        "loaded shape",
        AssertionError,
        lambda: mx.init.Load({"x": mx.nd.ones(3)})("x", mx.nd.ones(2)),
    ),
    (
        "not loaded",
        AssertionError,
        lambda: mx.init.Load({"x": mx.nd.ones(3)})("y", mx.nd.ones(2)),
    ),
    ("mixed", AssertionError, lambda: mx.init.Mixed(["a"], [])("a", mx.nd.ones(2))),
    ("steps", AssertionError, lambda: mx.lr_scheduler.MultiFactorScheduler(3)),
    ("increasing", ValueError, lambda: mx.lr_scheduler.MultiFactorScheduler([3, 2])),
    ("max_update", AssertionError, lambda: mx.lr_scheduler.PolyScheduler("x")),
    ("index names", AssertionError, lambda: mx.optimizer.SGD(param_idx2name=3)),
    ("optimizer class", AssertionError, lambda: mx.optimizer.register(3)),
    ("fused step", NotImplementedError, lambda: mx.rnn.FusedRNNCell(3)(None, None)),
    ("both directions", NotImplementedError, lambda: _bidirectional()(None, None)),
    ("in a sequence", AssertionError, lambda: _in_sequence()(None, [])),
    ("zoneout", AssertionError, lambda: mx.rnn.ZoneoutCell(_bidirectional())),
    ("input of a symbol", AssertionError, lambda: mx.sym.FullyConnected(3, num_hidden=2)),
    ("input of an array", AssertionError, lambda: mx.nd.FullyConnected(3, num_hidden=2)),
    ("distribution", AssertionError, lambda: mx.random.uniform(mx.nd.zeros(2), 1)),
    ("storage", mx.MXNetError, lambda: mx.nd.ones((2, 3)).tostype("x")),
    ("drawing", TypeError, lambda: mx.viz.plot_network(3)),
    ("summary", TypeError, lambda: mx.viz.print_summary(3)),
    ("attribute", ValueError, lambda: mx.AttrScope(a=3)),
    ("truth", ValueError, lambda: bool(mx.nd.ones((2, 3)))),
    ("scalar", ValueError, lambda: mx.nd.ones((2, 3)).asscalar()),
    ("no file", mx.MXNetError, lambda: mx.nd.load("there/is/none")),
    ("custom", mx.MXNetError, lambda: mx.nd.Custom(mx.nd.ones(2), op_type="nope")),
    ("infer", mx.MXNetError, lambda: mx.sym.load_json("{}")),
]


@pytest.mark.parametrize(
    ("kind", "call"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_error_types_match_mxnets(kind: type[Exception], call: Callable[[], object]) -> None:
    with pytest.raises(kind):
        call()


def test_seeding_a_missing_device_is_refused() -> None:
    with pytest.raises(mx.MXNetError, match="expected a context or 'all'"):
        mx.random.seed(1, ctx="gpu")
