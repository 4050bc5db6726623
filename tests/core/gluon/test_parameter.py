"""Parameters on devices, in dicts and in files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import core as mx
from core.errors import UsageError
from core.gluon import Constant, DeferredInitializationError, Parameter, ParameterDict

TWO = [mx.cpu(1), mx.cpu(0)]


def test_values_and_gradients_on_each_device() -> None:
    param = Parameter("weight", shape=(10, 10))
    param.initialize(init="xavier", ctx=TWO)
    assert len(param.list_data()) == len(param.list_grad()) == 2
    assert param.data(mx.cpu(1)).context == mx.cpu(1)
    assert param.data(mx.cpu(0)).shape == (10, 10)
    assert param.var().name == "weight"
    assert param.grad(mx.cpu(0)).stype == "default"
    with pytest.raises(RuntimeError, match="not initialized on context cpu"):
        param.data(mx.cpu(2))
    param.reset_ctx(ctx=[mx.cpu(1), mx.cpu(2)])
    assert param.list_ctx() == [mx.cpu(1), mx.cpu(2)]


def test_initialization_is_deferred_until_the_shape_is_known() -> None:
    param = Parameter("w", shape=(3, 0), allow_deferred_init=True, init="ones")
    param.initialize(ctx=TWO)
    with pytest.raises(DeferredInitializationError, match="first forward pass"):
        param.data()
    assert param.list_ctx() == TWO
    with pytest.raises(UsageError, match=r"\(4, 2\) is incompatible with given shape \(3, 0\)"):
        param.shape = (4, 2)
    param.shape = (3, 2)
    param._finish_deferred_init()
    assert param.data(mx.cpu(0)).asnumpy().sum() == 6
    with pytest.raises(ValueError, match="invalid shape"):
        Parameter("w", shape=(0,)).initialize()
    with pytest.raises(RuntimeError, match="has not been initialized"):
        Parameter("w", shape=(1,)).data()


def test_the_given_initializer_wins_over_the_name() -> None:
    for name in ("bias", "anything"):
        param = Parameter(name, shape=(2,))
        param.initialize(mx.init.Constant(3))
        assert param.data().asnumpy().tolist() == [3, 3]
    with pytest.warns(UserWarning, match="already initialized"):
        param.initialize(mx.init.Zero())
    param.initialize(mx.init.Zero(), force_reinit=True)
    assert param.data().asnumpy().tolist() == [0, 0]


def test_a_changed_grad_req_takes_effect() -> None:
    param = Parameter("w", shape=(2,))
    param.initialize("zeros")
    for req, expected in (("write", 1), ("add", 3)):
        param.grad_req = req
        param.zero_grad()
        for _ in range(expected):
            with mx.autograd.record():
                loss = param.data() * 1
            loss.backward()
        assert param.grad().asnumpy().tolist() == [expected] * 2
    param.grad_req = "null"
    with pytest.raises(RuntimeError, match="grad_req='null'"):
        param.grad()
    with pytest.raises(AssertionError, match="must be one of"):
        param.grad_req = "wirte"
    assert Parameter("w", shape=(1,), differentiable=False).grad_req == "null"


def test_cast_keeps_the_values() -> None:
    param = Parameter("w", shape=(2,))
    param.initialize("ones")
    param.dtype = "float16"
    assert param.data().dtype == param.grad().dtype == np.float16
    with mx.autograd.record():
        loss = param.data() * 2
    loss.backward()
    assert param.grad().asnumpy().tolist() == [2, 2]


def test_row_sparse_parameters_are_read_by_rows() -> None:
    param = Parameter("w", shape=(10, 2), stype="row_sparse", grad_stype="row_sparse")
    param.initialize(init="ones", ctx=TWO)
    assert param.grad(mx.cpu(0)).stype == "row_sparse"
    with pytest.raises(RuntimeError, match=r"row_sparse_data\(\) instead"):
        param.data()
    trainer = mx.gluon.Trainer([param], "sgd")
    rows = mx.nd.arange(0, 3, ctx=mx.cpu(1))
    found = param.row_sparse_data(rows)
    assert found.context == mx.cpu(1)
    assert found.asnumpy().sum() == 6
    assert param._trainer is trainer
    assert len(param.list_row_sparse_data(rows)) == 2
    with pytest.raises(UsageError, match="stype for Parameter 'w' must be one of"):
        Parameter("w", stype="dense")


def test_constants_are_not_updated() -> None:
    constant = Constant("c", [[1, 2], [3, 4]])
    constant.initialize()
    assert constant.data().asnumpy().tolist() == [[1, 2], [3, 4]]
    with pytest.warns(UserWarning, match="ignored"):
        constant.grad_req = "write"
    assert constant.grad_req == "null"
    trainer = mx.gluon.Trainer([constant], "sgd", {"learning_rate": 1.0})
    with mx.autograd.record():
        x = mx.nd.ones((2, 2))
        x.attach_grad()
        loss = x * constant.data()
    loss.backward()
    trainer.step(1)
    assert x.grad.asnumpy().tolist() == [[1, 2], [3, 4]]


def test_dicts_create_and_find_parameters() -> None:
    params = ParameterDict("net_")
    weight = params.get("weight", shape=(10, 0), allow_deferred_init=True)
    assert list(params) == ["net_weight"]
    assert params.get("weight", shape=(0, 4)) is weight
    assert weight.shape == (10, 4)
    with pytest.raises(UsageError, match="desired '\\(9, 4\\)' vs stored '\\(10, 4\\)'"):
        params.get("weight", shape=(9, 4))
    shared = ParameterDict("net_", shared=params)
    assert shared.get("weight") is weight
    constant = params.get_constant("c", [1, 2])
    assert params.get_constant("c", [1, 2]) is constant
    with pytest.raises(UsageError, match="doesn't match the new value"):
        params.get_constant("c", [1, 3])
    with pytest.raises(KeyError, match="specify value"):
        params.get_constant("d")
    with pytest.raises(UsageError, match="it is not a constant"):
        params.get_constant("weight", [1])
    other = ParameterDict("net_")
    other.get("weight")
    with pytest.raises(UsageError, match="different Parameters with the same name"):
        params.update(other)


def test_dicts_are_saved_and_loaded(tmp_path: Path) -> None:
    path = str(tmp_path / "x.params")
    params = ParameterDict("net_")
    params.get("w1", shape=(2, 2))
    params.get("w2", shape=(3,))
    params.initialize(mx.init.One(), ctx=TWO)
    params.save(path, "net_")
    assert sorted(mx.nd.load(path)) == ["w1", "w2"]
    params.setattr("grad_req", "null")
    params.initialize(mx.init.Zero(), ctx=TWO, force_reinit=True)
    params.load(path, restore_prefix="net_")
    assert params["net_w2"].data(mx.cpu(1)).asnumpy().tolist() == [1, 1, 1]
    fresh = ParameterDict("net_")
    fresh.get("w1", shape=(2, 0), allow_deferred_init=True)
    with pytest.raises(AssertionError, match=r"'net_w2' loaded from file.*ignore_extra"):
        fresh.load(path, mx.cpu(), restore_prefix="net_")
    fresh.load(path, mx.cpu(), ignore_extra=True, restore_prefix="net_")
    assert fresh["net_w1"].shape == (2, 2)
    fresh.get("w3", shape=(1,))
    with pytest.raises(AssertionError, match="'net_w3' is missing"):
        fresh.load(path, ignore_extra=True, restore_prefix="net_")
    with pytest.raises(UsageError, match=r"on \[cpu\(3\)\] because it was previously"):
        params.load(path, mx.cpu(3), restore_prefix="net_")
    with pytest.raises(ValueError, match="is to be stripped"):
        params.save(path, "other_")


def test_saved_dtypes_must_match_or_be_cast() -> None:
    params = ParameterDict()
    params.get("w", shape=(1,))
    stored = {"arg:w": mx.nd.ones((1,), dtype="float64")}
    with pytest.raises(UsageError, match="expected float32 vs saved float64"):
        params.load_dict(stored)
    params.load_dict(stored, cast_dtype=True)
    assert params["w"].data().dtype == np.float32
    params.load_dict(stored, cast_dtype=True, dtype_source="saved")
    assert params["w"].data().dtype == np.float64
    with pytest.raises(UsageError, match=r"expected \(1,\) vs saved \(2,\)"):
        params.load_dict({"w": mx.nd.ones((2,), dtype="float64")})


def test_repr_of_a_dict_matches_mxnets() -> None:
    params = mx.gluon.ParameterDict("pre_")
    params.get("a", shape=(2, 3))
    params.get_constant("c", mx.nd.ones((1, 2)))
    assert repr(params) == (
        "pre_ (\n"
        "  Parameter pre_a (shape=(2, 3), dtype=<class 'numpy.float32'>)\n"
        "  Constant pre_c (shape=(1, 2), dtype=<class 'numpy.float32'>)\n)"
    )
