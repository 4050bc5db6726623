"""Modules raise the error types of MXNet 1.9.1, since scripts catch those."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import core as mx

DATA, LABELS = [("data", (8, 5))], [("softmax_label", (8,))]
TWO = [mx.cpu(0), mx.cpu(1)]


def _symbol() -> mx.sym.Symbol:
    fc = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=4, name="fc")
    return mx.sym.SoftmaxOutput(fc, name="softmax")


def _created(**options: object) -> mx.mod.Module:
    return mx.mod.Module(_symbol(), **options)


def _bound(**options: object) -> mx.mod.Module:
    module = _created()
    module.bind(DATA, LABELS, **options)
    return module


def _initialized(**options: object) -> mx.mod.Module:
    module = _bound(**options)
    module.init_params()
    return module


def _batch(rows: int = 8) -> mx.io.DataBatch:
    return mx.io.DataBatch([mx.nd.ones((rows, 5))], [mx.nd.zeros((rows,))])


def _set(name: str, shape: tuple[int, ...]) -> None:
    module = _initialized()
    arguments, auxiliary = module.get_params()
    module.set_params({**arguments, name: mx.nd.ones(shape)}, auxiliary)


def _with_states() -> mx.mod.Module:
    state = mx.sym.Variable("state")
    total = mx.sym.Variable("data") + state
    module = mx.mod.Module(total, label_names=None, state_names=["state"], context=TWO)
    module.bind([("data", (4, 5))])
    module.init_params()
    return module


# What MXNet 1.9.1 raises for each, observed by running it.
CASES: list[tuple[str, type[Exception], Callable[[], object]]] = [
    ("get_params", AssertionError, lambda: _created().get_params()),
    ("get_outputs", AssertionError, lambda: _created().get_outputs()),
    ("update", AssertionError, lambda: _created().update()),
    ("backward", AssertionError, lambda: _created().backward()),
    ("get_states", AssertionError, lambda: _created().get_states()),
    ("init_params", AssertionError, lambda: _created().init_params()),
    ("data_shapes", AssertionError, lambda: _created().data_shapes),
    ("reshape", AssertionError, lambda: _created().reshape(DATA)),
    ("install_monitor", AssertionError, lambda: _created().install_monitor(mx.mon.Monitor(1))),
    ("score", AssertionError, lambda: _created().score(None, "acc")),
    ("predict", AssertionError, lambda: _created().predict(None)),
    ("forward", AssertionError, lambda: _bound().forward(_batch())),
    ("init_optimizer", AssertionError, lambda: _bound().init_optimizer()),
    ("update without", AssertionError, lambda: _initialized().update()),
    ("save states", AssertionError, lambda: _initialized().save_optimizer_states("never")),
    ("input grads", AssertionError, lambda: _initialized().get_input_grads()),
    ("not training", AssertionError, lambda: _initialized(for_training=False).backward()),
    ("borrow", AssertionError, lambda: _created().borrow_optimizer(_created())),
    ("share", AssertionError, lambda: _created().bind(DATA, LABELS, shared_module=_created())),
    (
        "grads of inference",
        AssertionError,
        lambda: _created().bind(DATA, for_training=False, inputs_need_grad=True),
    ),
    ("work loads", AssertionError, lambda: _created(context=TWO, work_load_list=[1])),
    ("group2ctxs", AssertionError, lambda: _created(context=TWO, group2ctxs=[{}]).bind(DATA)),
    ("grad_req list", AssertionError, lambda: _bound(grad_req=["write"])),
    ("grad_req type", ValueError, lambda: _bound(grad_req=3)),
    ("grad_req value", RuntimeError, lambda: _bound(grad_req="bad")),
    ("states and value", AssertionError, lambda: _with_states().set_states([1], 2)),
    ("no states", AssertionError, lambda: _with_states().set_states()),
    ("states merged", AssertionError, lambda: _with_states().get_states()),
    ("list of batches", AssertionError, lambda: _initialized().forward([_batch(4), _batch(6)])),
    ("epochs", AssertionError, lambda: _initialized().fit(mx.io.NDArrayIter(np.ones((8, 5))))),
    ("predict what", ValueError, lambda: _initialized().predict("images")),
    ("metric", AssertionError, lambda: mx.metric.create("nope")),
    ("initializer", AssertionError, lambda: mx.init.create("nope")),
    ("optimizer", ValueError, lambda: mx.optimizer.create("nope")),
    ("parameter's shape", mx.MXNetError, lambda: _set("fc_bias", (9,))),
    ("no files", mx.MXNetError, lambda: mx.mod.Module.load("there/is/none", 1)),
    ("data_names", ValueError, lambda: _created(data_names=["nope"])),
    ("too small a batch", ValueError, lambda: _created(context=TWO).bind([("data", (1, 5))])),
    ("default key", AssertionError, lambda: mx.mod.BucketingModule(lambda key: None)),
]


@pytest.mark.parametrize(
    ("kind", "call"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_error_types_match_mxnets(kind: type[Exception], call: Callable[[], object]) -> None:
    with pytest.raises(kind):
        call()
