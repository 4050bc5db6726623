"""Training passes set the gamma of batch norms with ``fix_gamma`` to 1, as MXNet's do."""

from __future__ import annotations

import numpy as np
import pytest

import core as mx


def _gamma_after(symbol: mx.sym.Symbol, *, is_train: bool, **arrays: np.ndarray) -> np.ndarray:
    shapes = {name: array.shape for name, array in arrays.items()}
    types = {name: array.dtype for name, array in arrays.items()}
    executor = symbol.simple_bind(mx.cpu(), grad_req="null", type_dict=types, **shapes)
    for name, array in arrays.items():
        executor.arg_dict[name][:] = mx.nd.array(array, dtype=array.dtype)
    executor.arg_dict["bn_gamma"][:] = 3
    executor.forward(is_train=is_train)
    return executor.arg_dict["bn_gamma"].asnumpy()


@pytest.mark.parametrize("is_synchronized", [False, True])
@pytest.mark.parametrize("fix_gamma", [True, False])
@pytest.mark.parametrize("is_train", [True, False])
def test_gamma_is_set_to_1_in_training(
    is_synchronized: bool, fix_gamma: bool, is_train: bool
) -> None:
    data = mx.sym.Variable("data")
    if is_synchronized:
        symbol = mx.sym.contrib.SyncBatchNorm(data, name="bn", key="bn", fix_gamma=fix_gamma)
    else:
        symbol = mx.sym.BatchNorm(data, name="bn", fix_gamma=fix_gamma)
    gamma = _gamma_after(symbol, is_train=is_train, data=np.ones((2, 4, 3, 3), "float32"))
    assert (gamma == (1 if fix_gamma and is_train else 3)).all()


def test_a_quantized_batch_norm_keeps_its_gamma() -> None:
    """It uses gamma even if it is fixed, and MXNet's operator does not write to it."""
    symbol = mx.sym.contrib.quantized_batch_norm(
        mx.sym.Variable("data"), name="bn", min_calib_range=-1.0, max_calib_range=1.0
    )
    ranges = {"bn_min_data": np.array([-1], "float32"), "bn_max_data": np.array([1], "float32")}
    data = np.ones((2, 4, 3, 3), "int8")
    assert (_gamma_after(symbol, is_train=True, data=data, **ranges) == 3).all()
