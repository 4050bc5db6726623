"""Trainers on one and several devices, with every kind of store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import core as mx
from core.errors import UsageError
from core.gluon import Parameter, Trainer

TWO = [mx.cpu(0), mx.cpu(1)]


def _parameter(contexts: list[mx.Context] = TWO, **options: Any) -> Parameter:
    options = {"shape": (10,), **options}
    param = Parameter("x", **options)
    param.initialize(ctx=contexts, init="zeros")
    return param


def _backward(param: Parameter) -> None:
    with mx.autograd.record():
        for array in param.list_data():
            (array + 1).backward()


def test_summed_gradients_update_every_devices_copy() -> None:
    param = _parameter()
    trainer = Trainer([param], "sgd", {"learning_rate": 1.0, "momentum": 0.5})
    _backward(param)
    trainer.step(1)
    assert (param.data(mx.cpu(1)).asnumpy() == -2).all()
    param.lr_mult = 0.5
    _backward(param)
    trainer.step(1)
    assert (param.data(mx.cpu(0)).asnumpy() == -4).all()
    assert trainer._update_on_kvstore is True
    for call in (lambda: trainer.update(1), trainer.allreduce_grads):
        with pytest.raises(AssertionError, match="update_on_kvstore"):
            call()


def test_allreduce_and_update_may_be_called_separately() -> None:
    param = _parameter()
    trainer = Trainer(
        [param], "sgd", {"learning_rate": 1.0, "momentum": 0.5}, update_on_kvstore=False
    )
    with mx.autograd.record():
        for number, array in enumerate(param.list_data()):
            (number * array).backward()
    trainer.allreduce_grads()
    assert param.grad(mx.cpu(0)).asnumpy().tolist() == param.grad(mx.cpu(1)).asnumpy().tolist()
    trainer.update(1)
    assert (param.data(mx.cpu(1)).asnumpy() == -1).all()


def test_one_device_needs_no_store() -> None:
    param = _parameter([mx.cpu(0)], grad_stype="row_sparse")
    trainer = Trainer([param], "sgd", {"learning_rate": 1.0, "momentum": 0.5})
    _backward(param)
    trainer.step(1)
    assert trainer._update_on_kvstore is None
    assert trainer._kvstore is None
    assert (param.data(mx.cpu(0)).asnumpy() == -1).all()


@pytest.mark.parametrize(
    ("contexts", "store"),
    [(1, None), (1, "local"), (1, "device"), (2, None)],
)
def test_update_on_kvstore_without_a_store_is_refused(contexts: int, store: str | None) -> None:
    """MXNet fails here, too: there is no store to ask."""
    param = _parameter([mx.cpu(0), mx.cpu(1)][:contexts])
    trainer = Trainer([param], "sgd", kvstore=store, update_on_kvstore=True)
    _backward(param)
    with pytest.raises(ValueError, match="update_on_kvstore=True needs a store"):
        trainer.step(1)


def test_update_on_kvstore_with_a_store_that_cannot_is_refused() -> None:
    param = _parameter()
    store = mx.kv.create("teststore")
    trainer = Trainer([param], "sgd", {"learning_rate": 1.0, "momentum": 0.5}, kvstore=store)
    _backward(param)
    trainer.step(1)
    assert trainer._update_on_kvstore is False
    assert (param.data(mx.cpu(1)).asnumpy() == -2).all()
    refused = Trainer([param], "sgd", kvstore=store, update_on_kvstore=True)
    with pytest.raises(ValueError, match="update_on_kvstore=False when training with"):
        refused._init_kvstore()


@pytest.mark.parametrize("store", ["local", "device"])
@pytest.mark.parametrize(
    ("stype", "grad_stype", "asked", "expected"),
    [
        ("default", "default", True, True),
        ("default", "default", False, False),
        ("default", "default", None, True),
        ("default", "row_sparse", None, False),
        ("default", "row_sparse", True, True),
        ("default", "row_sparse", False, False),
        ("row_sparse", "row_sparse", None, True),
        ("row_sparse", "row_sparse", False, ValueError),
    ],
)
def test_sparse_parameters_decide_where_updates_run(
    store: str, stype: str, grad_stype: str, asked: bool | None, expected: Any
) -> None:
    param = _parameter(shape=(10, 1), stype=stype, grad_stype=grad_stype)
    trainer = Trainer(
        [param], "sgd", {"learning_rate": 0.1}, kvstore=store, update_on_kvstore=asked
    )
    rows = mx.nd.arange(0, 10, ctx=mx.cpu(0))
    if expected is ValueError:
        with pytest.raises(ValueError, match="sparse weights"):
            param.list_row_sparse_data(rows)
        return
    arrays = param.list_data() if stype == "default" else param.list_row_sparse_data(rows)
    with mx.autograd.record():
        for array in arrays:
            (array + 1).backward()
    trainer.step(1)
    assert trainer._kvstore.type == store
    assert trainer._update_on_kvstore is expected
    found = param.data(mx.cpu(0)) if stype == "default" else param.row_sparse_data(rows)
    np.testing.assert_array_equal(found.asnumpy(), np.float32(-0.2))


def test_sparse_parameters_belong_to_one_trainer() -> None:
    param = Parameter("x", shape=(10,), stype="row_sparse")
    param.initialize()
    with pytest.raises(RuntimeError, match="when no Trainer is created"):
        param.row_sparse_data(mx.nd.zeros((1,), dtype="int64"))
    first = Trainer([param], "sgd")
    assert param._trainer is first
    param._set_trainer(None)
    param._set_trainer(first)
    with pytest.raises(RuntimeError, match="More than one trainer"):
        Trainer([param], "sgd")


@pytest.mark.parametrize("on_store", [True, False])
def test_states_are_saved_and_loaded(tmp_path: Path, on_store: bool) -> None:
    param = _parameter(lr_mult=1.0)
    options = {"learning_rate": 0.1, "momentum": 0.5}
    trainer = Trainer([param], "sgd", options, update_on_kvstore=on_store)
    _backward(param)
    trainer.step(1)
    updater = trainer._kvstore._updater if on_store else trainer._updaters[0]
    before = {index: state.asnumpy() for index, state in updater.states.items()}
    trainer.save_states(str(tmp_path / "t.states"))
    _backward(param)
    trainer.step(1)
    trainer.load_states(str(tmp_path / "t.states"))
    updaters = [trainer._kvstore._updater] if on_store else trainer._updaters
    for one in updaters:
        assert one.optimizer is trainer.optimizer
        assert one.states.keys() == before.keys()
        for index, state in before.items():
            np.testing.assert_array_equal(one.states[index].asnumpy(), state)
    # The loaded optimizer uses the multipliers of the trainer's parameters.
    assert trainer.optimizer._get_lr(0) == 0.1
    param.lr_mult = 2.0
    assert trainer.optimizer._get_lr(0) == 0.2


@pytest.mark.parametrize("store", ["local", "device"])
def test_loading_new_values_resets_the_store(store: str) -> None:
    param = _parameter()
    trainer = Trainer({"x": param}, "sgd", {"learning_rate": 0.1}, kvstore=store)
    saved = param._reduce()
    _backward(param)
    trainer.step(1)
    assert trainer._kvstore.type == store
    param._load_init(saved, None)
    assert trainer._kvstore is None
    assert trainer._kv_initialized is False
    _backward(param)
    trainer.step(1)
    np.testing.assert_array_equal(param.data(mx.cpu()).asnumpy(), np.float32(-0.2))


@pytest.mark.parametrize("on_store", [True, False])
def test_schedulers_set_the_learning_rate(on_store: bool) -> None:
    param = _parameter()
    rate = 1.0
    schedule = mx.lr_scheduler.FactorScheduler(2, factor=0.1, base_lr=rate)
    options = {"learning_rate": rate, "lr_scheduler": schedule}
    trainer = Trainer([param], "sgd", options, update_on_kvstore=on_store)
    for step in range(6):
        _backward(param)
        trainer.step(1)
        if step % 2 == 0:
            assert trainer.learning_rate == rate
            rate *= 0.1
    with pytest.raises(UserWarning, match="lr_scheduler"):
        trainer.set_learning_rate(0.5)


def test_stale_gradients_are_refused_or_ignored() -> None:
    used, unused = _parameter([mx.cpu()]), Parameter("y", shape=(1,))
    unused.initialize(mx.init.One())
    trainer = Trainer([used, unused], "sgd", {"learning_rate": 1.0})
    _backward(used)
    with pytest.raises(UserWarning, match="Gradient of Parameter `y`"):
        trainer.step(1)
    used.set_data(mx.nd.zeros((10,)))
    _backward(used)
    trainer.step(2, ignore_stale_grad=True)
    assert (used.data().asnumpy() == -0.5).all()
    assert unused.data().asnumpy().tolist() == [1]
    trainer.step(1, ignore_stale_grad=True)
    assert (used.data().asnumpy() == -0.5).all()


def test_compressed_gradients_accumulate_until_the_threshold() -> None:
    param = _parameter()
    trainer = Trainer(
        [param],
        "sgd",
        {"learning_rate": 1.0},
        compression_params={"type": "2bit", "threshold": 2.0},
    )
    for expected in (0, -4, -4, -8):  # what is not sent accumulates until it reaches the threshold
        _backward(param)
        trainer.step(1)
        assert (param.data(mx.cpu(0)).asnumpy() == expected).all()


def test_invalid_arguments_are_refused() -> None:
    param = _parameter()
    other = Parameter("y", shape=(1,))
    other.initialize(ctx=mx.cpu(0))
    with pytest.raises(ValueError, match="list or dict of Parameters, got <class 'int'>"):
        Trainer(3, "sgd")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="got list of"):
        Trainer([3], "sgd")  # type: ignore[list-item]
    with pytest.raises(UsageError, match="same set of contexts"):
        Trainer([param, other], "sgd")
    with pytest.raises(UsageError, match="must be None if optimizer is an instance"):
        Trainer([param], mx.optimizer.SGD(), {"momentum": 0.5})
    with pytest.raises(TypeError, match="kvstore must be"):
        Trainer([param], "sgd", kvstore=3)._init_kvstore()  # type: ignore[arg-type]


class Fork:
    """What parameters need of a forked copy of MXNet's trainer."""

    def __init__(self, params: list[Parameter]) -> None:
        self._kv_initialized, self._update_on_kvstore = True, True
        self._params_to_init: list[Parameter] = []
        self.resets = 0
        for param in params:
            param._set_trainer(self)

    def _reset_kvstore(self) -> None:
        self.resets += 1


def test_parameters_work_with_a_forked_trainer() -> None:
    param = Parameter("w", shape=(2,))
    trainer = Fork([param])
    with pytest.raises(RuntimeError, match="has not been initialized"):
        param._check_and_get(param._data, list)
    param.initialize(ctx=[mx.cpu(0), mx.cpu(1)])
    assert param._check_and_get(param._data, list) is param._data
    assert param._check_and_get(param._grad, mx.cpu(1)) is param._grad[1]
    param.set_data(mx.nd.ones(2))
    assert trainer.resets == 1
    trainer._params_to_init.append(param)  # the store does not hold a copy yet
    param.set_data(mx.nd.zeros(2))
    assert trainer.resets == 1


class _Counting(mx.operator.CustomOp):
    """A product, which adds up its data in an auxiliary state."""

    def forward(self, is_train: bool, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
        self.assign(out_data[0], req[0], in_data[0] * in_data[1])
        aux[0][:] = aux[0] + in_data[0].sum()

    def backward(
        self, req: Any, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any
    ) -> None:
        self.assign(in_grad[0], req[0], out_grad[0] * in_data[1])
        self.assign(in_grad[1], req[1], out_grad[0] * in_data[0])


@mx.operator.register("test_counting")
class _CountingProp(mx.operator.CustomOpProp):
    def list_arguments(self) -> list[str]:
        return ["data", "weight"]

    def list_auxiliary_states(self) -> list[str]:
        return ["total"]

    def infer_shape(self, in_shape: Any) -> Any:
        return [in_shape[0], in_shape[0]], [in_shape[0]], [[1]]

    def create_operator(self, ctx: Any, in_shapes: Any, in_dtypes: Any) -> _Counting:
        return _Counting()


class _CountingBlock(mx.gluon.HybridBlock):
    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.weight = self.params.get("weight", shape=(3,), init="ones")
            self.total = self.params.get("total", shape=(1,), init="ones")

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        return F.Custom(x, kwargs["weight"], kwargs["total"], op_type="test_counting")


@pytest.mark.parametrize("hybridize", [False, True])
def test_auxiliary_states_are_not_trained_where_their_parameters_allow_it(hybridize: bool) -> None:
    # Numbers from MXNet 1.9.1, whose states get no gradient and no decay either.
    block = _CountingBlock()
    block.initialize()
    block.hybridize(hybridize)
    trainer = Trainer(block.collect_params(), "sgd", {"learning_rate": 0.1, "wd": 0.5})
    for _ in range(2):
        with mx.autograd.record():
            product = block(mx.nd.array([1, 2, 3]))
        product.backward()
        with pytest.raises(UserWarning, match=r"total` .* has not been updated"):
            trainer.step(1)
        trainer.step(1, ignore_stale_grad=True)
    np.testing.assert_allclose(block.weight.data().asnumpy(), [0.7075, 0.5125, 0.3175], rtol=1e-5)
    assert block.total.data().asnumpy() == [13]
    assert block.total.grad_req == "write"
