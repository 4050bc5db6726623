"""Fused float layers from MXNet's files are taken apart, and fused again by the plan."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core as mx
from core.kernels.onednn import is_available
from oracle import golden_file
from oracle.compare import assert_close
from oracle.topics import fused_layers
from oracle.topics.fused_layers import CASES

_FLOATS = sorted(name for name, case in CASES.items() if not case.is_quantized)


def _bound(name: str) -> Any:
    symbol = mx.sym.load_json(fused_layers.graph(CASES[name]))
    arrays = fused_layers.arrays_of(CASES[name], name, symbol)
    # Arrays bound with given shapes may change on every pass; only the others can be folded.
    shapes = {key: arrays[key].shape for key in ("data", "other") if key in arrays}
    executor = symbol.simple_bind(mx.cpu(), "null", **shapes)
    for key, array in arrays.items():
        {**executor.arg_dict, **executor.aux_dict}[key][:] = array
    return executor


@pytest.mark.parametrize("name", _FLOATS)
def test_layers_taken_apart_match_mxnet(name: str) -> None:
    executor = _bound(name)
    assert "_sg_mkldnn" not in executor.debug_str()
    (output,) = executor.forward()
    assert_close(name, output.asnumpy(), golden_file.topic("fused_layers")[f"{name}/0"])


@pytest.mark.skipif(not is_available(), reason="oneDNN is not installed")
def test_the_batch_norm_is_folded_again() -> None:
    text = _bound("float_all").debug_str()
    assert "by onednn:convolution_folded" in text
    assert not {"BatchNorm", "elemwise_add", "Activation"} & set(text.split())


def test_a_training_pass_uses_and_keeps_the_moving_statistics() -> None:
    executor = _bound("float_norm_relu")
    expected = executor.forward()[0].asnumpy()
    before = {key: array.asnumpy() for key, array in executor.aux_dict.items()}
    np.testing.assert_allclose(executor.forward(is_train=True)[0].asnumpy(), expected, rtol=1e-5)
    for key, array in executor.aux_dict.items():
        np.testing.assert_array_equal(array.asnumpy(), before[key])


def test_a_monitor_sees_the_fused_layer_of_the_file() -> None:
    executor, seen = _bound("float_norm_relu"), []
    executor.set_monitor_callback(lambda name, array: seen.append(name))
    executor.forward()
    assert seen == ["fused_output"]
