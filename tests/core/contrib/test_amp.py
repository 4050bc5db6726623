"""``mx.contrib.amp`` against MXNet 1.9.1."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import core as mx
from core.contrib import amp
from core.gluon import nn
from core.ops.registry import registered_names
from oracle import golden_file
from oracle.topics import amp as topic


def _golden() -> dict[str, Any]:
    return golden_file.topic("amp")


@pytest.mark.parametrize("case_id", topic.CASES)
def test_converted_graphs_match_mxnets(case_id: str) -> None:
    got, expected = topic.converted_json(mx, case_id), str(_golden()[f"json/{case_id}"])
    assert json.loads(got)["nodes"] == json.loads(expected)["nodes"]
    assert got == expected


def test_functions_are_importable_from_mxnets_submodules() -> None:
    from core.contrib.amp import amp as module

    assert module.convert_bucketing_module is amp.convert_bucketing_module
    assert set(module.__all__) == set(amp.__all__) - {"LossScaler", "amp", "lists"}


def test_cast_nodes_are_named_as_in_mxnet() -> None:
    expected = json.loads(str(_golden()["cast_names"]))
    got = topic.cast_names(mx)
    both = expected.keys() & got.keys()
    assert len(both) > 450
    assert {name: got[name] for name in both} == {name: expected[name] for name in both}


@pytest.mark.parametrize("dtype", topic.DTYPES)
def test_operator_lists_match_mxnets(dtype: str) -> None:
    expected = json.loads(str(_golden()[f"lists/{dtype}"]))
    got = topic.lists(mx, dtype)
    for name in ("conditional_fp32_ops", "loss_output_functions"):
        assert json.loads(json.dumps(got.pop(name))) == expected[name]
    listed = set().union(*(expected[name] for name in got))
    listed -= {"Activation", "LeakyReLU"}  # MXNet has it in two lists
    here = set(registered_names())
    if dtype == "bfloat16":
        here.add("BatchNormWithReLU")  # MXNet lists it under a name no operator has
    for name, found in got.items():
        assert set(found) & listed == set(expected[name]) & here & listed, name


@pytest.mark.parametrize("case_id", topic.COMPUTED)
def test_a_bfloat16_model_gives_mxnets_output(case_id: str) -> None:
    got, whole = topic.compute(mx, case_id)
    expected = _golden()[f"output/{case_id}"]
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, expected, atol=0.01)
    assert 0 < np.abs(got - whole).max() < 0.02


@pytest.mark.parametrize("case_id", ["branches float16", "branches float16 cast"])
def test_a_float16_model_stays_close(case_id: str) -> None:
    got, whole = topic.compute(mx, case_id)
    assert got.dtype == np.float32
    assert 0 < np.abs(got - whole).max() < 0.002


@pytest.mark.parametrize("dtype", topic.DTYPES)
def test_after_init_functions_cast_their_inputs(dtype: str) -> None:
    expected = json.loads(str(_golden()[f"init/{dtype}"]))
    got = topic.under_init("core", dtype)
    assert json.loads(got["json"])["nodes"] == json.loads(expected["json"])["nodes"]
    assert got["dtypes"] == expected["dtypes"]
    assert got["gradient"] == expected["gradient"]


def test_operators_run_in_one_precision_only_for_the_listed_attribute_values() -> None:
    fc = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2)
    with pytest.raises(mx.MXNetError, match="target_dtype_ops and fp32_ops both contain FullyConn"):
        amp.convert_symbol(fc, target_dtype_ops=["FullyConnected"], fp32_ops=["FullyConnected"])
    with pytest.raises(mx.MXNetError, match="dot cannot be chosen"):
        amp.convert_symbol(fc, fp32_ops=["dot"])
    with pytest.raises(mx.MXNetError, match="target_dtype is 'int8'; expected 'float16' or"):
        amp.convert_symbol(fc, "int8")
    with pytest.raises(mx.MXNetError, match="excluded_sym_names is str; expected a list"):
        amp.convert_symbol(fc, excluded_sym_names="fc")


@pytest.mark.parametrize("cast", [False, True])
def test_a_block_is_converted_with_its_parameters(cast: bool) -> None:
    net = nn.HybridSequential()
    net.add(nn.Conv2D(4, 3), nn.BatchNorm(), nn.Activation("relu"), nn.Dense(3))
    net.initialize(mx.init.Uniform(0.5))
    x = mx.nd.array(np.random.default_rng(0).random((2, 3, 6, 6)))
    with pytest.raises(mx.MXNetError, match=r"call block\.hybridize"):
        amp.convert_hybrid_block(net)
    net.hybridize()
    expected = net(x).asnumpy()
    converted = amp.convert_hybrid_block(net, cast_optional_params=cast)
    got = converted(x)
    assert got.dtype == np.float32
    assert 0 < np.abs(got.asnumpy() - expected).max() < 0.01
    dtypes = {name: param.dtype for name, param in converted.collect_params().items()}
    for name, dtype in dtypes.items():
        is_low = cast and ("conv" in name or "dense" in name)
        assert np.dtype(dtype) == ("float16" if is_low else "float32"), name
    again = amp.convert_hybrid_block(converted, excluded_sym_names=[net[3]._name + "_fwd"])
    np.testing.assert_array_equal(again(x).asnumpy(), got.asnumpy())


def test_every_bucket_of_a_bucketing_module_is_converted() -> None:
    def generate(length: int) -> tuple[mx.sym.Symbol, list[str], list[str]]:
        data = mx.sym.Variable("data")
        x = mx.sym.Embedding(data, input_dim=10, output_dim=4, name="embedding")
        x = mx.sym.FullyConnected(mx.sym.sum(x, axis=1), num_hidden=3, name="fc")
        return mx.sym.SoftmaxOutput(x, name="softmax"), ["data"], ["softmax_label"]

    def batch(length: int) -> mx.io.DataBatch:
        return mx.io.DataBatch(
            [mx.nd.arange(2 * length).reshape((2, length)) % 10],
            [mx.nd.zeros((2,))],
            bucket_key=length,
            provide_data=[("data", (2, length))],
            provide_label=[("softmax_label", (2,))],
        )

    module = mx.mod.BucketingModule(generate, default_bucket_key=5)
    with pytest.raises(mx.MXNetError, match="call bind and init_params first"):
        amp.convert_bucketing_module(module)
    module.bind([("data", (2, 5))], [("softmax_label", (2,))], for_training=False)
    module.init_params(mx.init.Uniform(1.0))
    module.forward(batch(3))
    expected = module.get_outputs()[0].asnumpy()
    converted = amp.convert_bucketing_module(module, cast_optional_params=True)
    converted.bind([("data", (2, 5))], [("softmax_label", (2,))], for_training=False)
    converted.forward(batch(3))
    got = converted.get_outputs()[0].asnumpy()
    assert 0 < np.abs(got - expected).max() < 0.01
    assert converted.get_params()[0]["fc_weight"].dtype == np.float16
    assert module.get_params()[0]["fc_weight"].dtype == np.float32


def test_the_loss_scale_changes_as_in_mxnet() -> None:
    assert topic.scales(mx) == json.loads(str(_golden()["scales"]))


_TRAINING = """
import numpy as np, core as mx
from core.contrib import amp
net = mx.gluon.nn.Dense(1, in_units=2, use_bias=False)
net.initialize(mx.init.Constant(0.5))
trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.25})
try:
    amp.init_trainer(trainer)
except mx.MXNetError as error:
    assert "amp.init()" in str(error), error
try:
    with amp.scale_loss(mx.nd.ones(1), trainer):
        pass
except mx.MXNetError as error:
    assert "init_trainer()" in str(error), error
amp.init()
amp.init()
amp.init_trainer(trainer)
x = mx.nd.array([[1.0, 2.0]])
for is_finite in (True, False, True):
    with mx.autograd.record():
        out = net(x)
        assert out.dtype == np.float16
        with amp.scale_loss(mx.nd.sum(out.astype("float32")) / 4, trainer) as scaled:
            mx.autograd.backward(scaled)
    before = net.weight.data().asnumpy()
    if not is_finite:
        net.weight.grad()[:] = np.inf
    scale = trainer._amp_loss_scaler.loss_scale
    trainer.step(1)
    after = net.weight.data().asnumpy()
    print(scale, (before - after).tolist())
with mx.autograd.record():
    with amp.scale_loss([mx.nd.sum(net(x).astype("float32")) / 4], trainer) as scaled:
        mx.autograd.backward(scaled)
print(net.weight.grad().asnumpy().tolist())
amp.unscale(trainer)
print(net.weight.grad().asnumpy().tolist())
"""


def test_steps_with_overflowing_gradients_are_skipped() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _TRAINING], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.splitlines() == [
        "65536.0 [[0.0625, 0.125]]",
        "65536.0 [[0.0, 0.0]]",
        "65536.0 [[0.0625, 0.125]]",
        "[[8192.0, 16384.0]]",
        "[[0.25, 0.5]]",
    ]
