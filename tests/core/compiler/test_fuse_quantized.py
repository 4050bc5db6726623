"""A quantized sum and its requantization become one step."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import core as mx
from core.config import config
from core.kernels.onednn import is_available

pytestmark = pytest.mark.skipif(not is_available(), reason="oneDNN is not installed")

_RANGES = {"int8": (-3.0, 4.0), "uint8": (0.0, 5.0)}


def _sums(kind: str, data: Any) -> Any:
    contrib = mx.sym.contrib
    match kind:
        case "conv":
            return contrib.quantized_conv(
                data, kernel=(3, 3), num_filter=8, pad=(1, 1), name="sums"
            )
        case "conv_groups":
            return contrib.quantized_conv(
                data, kernel=(3, 3), num_filter=8, num_group=4, no_bias=True, name="sums"
            )
        case "dense":
            return contrib.quantized_fully_connected(data, num_hidden=8, name="sums")
        case _:
            return contrib.quantized_elemwise_add(data, mx.sym.var("sums_rhs"), name="sums")


def _values(name: str, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    random = np.random.RandomState(len(name))
    if dtype == np.float32:
        return np.full(shape, -0.5 if "min" in name else 0.75, "float32")
    low, high = (0, 256) if dtype == np.uint8 else (-127, 128)
    return random.randint(low, high, shape).astype(dtype)


def _bound(symbol: Any, kind: str) -> Any:
    shapes = {"data": (2, 8, 5, 6)}
    types = {"data": kind, **({"sums_rhs": "int8"} if "sums_rhs" in symbol.list_inputs() else {})}
    executor = symbol.simple_bind(mx.cpu(), "null", type_dict=types, **shapes)
    for name, array in executor.arg_dict.items():
        array[:] = mx.nd.array(_values(name, array.shape, array.dtype), dtype=array.dtype)
    return executor


def _bytes(sums: Any, out: str) -> Any:
    low, high = _RANGES[out]
    return mx.sym.contrib.requantize(
        *sums, out_type=out, min_calib_range=low, max_calib_range=high, name="out"
    )


@pytest.mark.parametrize("out", ["int8", "uint8"])
@pytest.mark.parametrize("data", ["int8", "uint8"])
@pytest.mark.parametrize("kind", ["conv", "conv_groups", "dense", "add"])
def test_sum_and_requantization_are_fused(
    kind: str, data: str, out: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "core.executor.executor.config", dataclasses.replace(config, check_kernels=True)
    )
    executor = _bound(_bytes(_sums(kind, mx.sym.var("data")), out), data)
    text = executor.debug_str()
    assert "_plan_requantized" in text
    assert "by reference" not in text
    first = [output.asnumpy() for output in executor.forward()]
    assert first[0].dtype == np.dtype(out)
    assert len(np.unique(first[0])) > 5
    low = 0.0 if out == "uint8" else -_RANGES[out][1]
    assert (first[1].item(), first[2].item()) == (low, _RANGES[out][1])
    name = "sums_max_data" if "sums_max_data" in executor.arg_dict else "sums_lhs_max"
    executor.arg_dict[name][:] = 0.1
    assert (executor.forward()[0].asnumpy() != first[0]).any()


@pytest.mark.parametrize("reason", ["the range is not known", "sums go out", "two read them"])
def test_other_sums_are_not_fused(reason: str) -> None:
    sums = _sums("dense", mx.sym.var("data"))
    symbol = _bytes(sums, "int8")
    if reason == "the range is not known":
        symbol = mx.sym.contrib.requantize(*sums, name="out")
    elif reason == "sums go out":
        symbol = mx.sym.Group([symbol, sums])
    else:
        symbol = mx.sym.Group([symbol, _bytes(sums, "uint8")])
    assert "_plan_requantized" not in _bound(symbol, "int8").debug_str()
