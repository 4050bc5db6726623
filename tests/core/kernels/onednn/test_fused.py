"""Fused layers against the same graph run step by step on references."""

from __future__ import annotations

import numpy as np
import pytest

import core as mx
from core.compiler.compile import CompileOptions
from core.executor import bind
from core.kernels.kernel import KernelUnavailable, Version
from core.kernels.onednn import is_available
from core.kernels.onednn.primitive import Primitive

pytestmark = pytest.mark.skipif(not is_available(), reason="oneDNN is not installed")

REFERENCE = CompileOptions(table=None)
CHECKED = CompileOptions(check_kernels=True)


def convolution(x, name="c", **attributes):
    given = {"kernel": (3, 3), "pad": (1, 1), "num_filter": 20, **attributes}
    return mx.sym.Convolution(x, name=name, **given)


def norm(x, name="b", **attributes):
    return mx.sym.BatchNorm(x, name=name, eps=1e-3, **attributes)


def arrays_of(symbol, data, *, versions):
    """Return arguments and auxiliary states with random values, and the raw arrays by name."""
    random = np.random.RandomState(0)
    arg_shapes, _, aux_shapes = symbol.infer_shape(data=data)
    names = [*symbol.list_arguments(), *symbol.list_auxiliary_states()]
    raw = {
        name: random.uniform(0.5, 1.5, shape).astype(np.float32) - ("var" not in name) * 1.0
        for name, shape in zip(names, [*arg_shapes, *aux_shapes], strict=True)
    }
    arrays = {
        name: mx.nd.NDArray(
            array, mx.cpu(), version=Version() if versions and name != "data" else None
        )
        for name, array in raw.items()
    }
    return arrays, raw


def bound(symbol, data, options=None, *, versions=True, **more):
    arrays, raw = arrays_of(symbol, data, versions=versions)
    executor = bind(
        symbol,
        mx.cpu(),
        {name: arrays[name] for name in symbol.list_arguments()},
        aux_states={name: arrays[name] for name in symbol.list_auxiliary_states()},
        options=options,
        **more,
    )
    return executor, raw


def kernels_of(executor):
    steps = next(iter(executor._plans.values())).compiled.program.steps
    return [step.kernel.name.split(":")[-1] for step in steps if step.kernel is not None]


def expected(symbol, data):
    return bound(symbol, data, REFERENCE)[0].forward()[0].asnumpy()


def assert_equal_to_reference(symbol, data, kernel):
    executor, _ = bound(symbol, data)
    assert kernel in kernels_of(executor), kernels_of(executor)
    wanted = expected(symbol, data)
    scale = np.abs(wanted).max()
    for _ in range(2):
        got = executor.forward()[0].asnumpy()
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5 * scale)
    bound(symbol, data, CHECKED)[0].forward()


X = mx.sym.Variable("data")
IMAGES, ROWS, VOLUMES = (2, 8, 9, 11), (2, 8, 13), (1, 4, 5, 6, 7)

FOLDED = {
    "plain": (norm(convolution(X)), IMAGES),
    "no_bias": (norm(convolution(X, no_bias=True)), IMAGES),
    "fixed_gamma": (norm(convolution(X), fix_gamma=True), IMAGES),
    "free_gamma": (norm(convolution(X), fix_gamma=False), IMAGES),
    "global_statistics": (norm(convolution(X), use_global_stats=True), IMAGES),
    "groups": (norm(convolution(X, num_group=4), fix_gamma=False), IMAGES),
    "depthwise": (norm(convolution(X, num_group=8, num_filter=8), fix_gamma=False), IMAGES),
    "strided": (norm(convolution(X, stride=(2, 2), kernel=(1, 1), pad=(0, 0))), IMAGES),
    "dilated": (norm(convolution(X, dilate=(2, 2), pad=(2, 2))), IMAGES),
    "one_axis": (norm(convolution(X, kernel=(3,), pad=(1,)), fix_gamma=False), ROWS),
    "three_axes": (norm(convolution(X, kernel=(2, 2, 2), pad=()), fix_gamma=False), VOLUMES),
    "relu": (mx.sym.Activation(norm(convolution(X)), act_type="relu"), IMAGES),
    "residual": (
        mx.sym.Activation(
            norm(convolution(X, "c1"), "b1") + norm(convolution(X, "c2"), "b2"), act_type="relu"
        ),
        IMAGES,
    ),
    "residual_by_broadcast": (
        mx.sym.broadcast_add(
            norm(convolution(X, "c1"), "b1"), norm(convolution(X, "c2"), "b2"), name="sum"
        ),
        IMAGES,
    ),
}


@pytest.mark.parametrize("case", FOLDED)
def test_batch_norm_is_folded(case):
    symbol, shape = FOLDED[case]
    assert_equal_to_reference(symbol, shape, "convolution_folded")


@pytest.mark.parametrize("fix_gamma", [True, False])
@pytest.mark.parametrize("shape", [IMAGES, ROWS, VOLUMES, (5, 7)])
def test_batch_norm_runs_with_and_without_a_relu(fix_gamma, shape):
    alone = norm(X, fix_gamma=fix_gamma)
    assert_equal_to_reference(alone, shape, "batch_norm_fused")
    symbol = mx.sym.Activation(alone, act_type="relu")
    assert_equal_to_reference(symbol, shape, "batch_norm_fused")
    assert "activation" not in kernels_of(bound(symbol, shape)[0])


def test_batch_norm_before_a_convolution_keeps_its_layout():
    pooled = mx.sym.Pooling(convolution(X, num_filter=32), kernel=(1, 1), pool_type="max")
    symbol = convolution(mx.sym.Activation(norm(pooled), act_type="relu"), "c2")
    assert_equal_to_reference(symbol, (2, 32, 9, 11), "batch_norm_fused")


@pytest.mark.parametrize("channels", [16, 32])
def test_lrn_runs_in_the_layout_of_a_convolution(channels):
    attributes = {"nsize": 5, "alpha": 2e-2, "beta": 0.75, "knorm": 1.5}
    layer = convolution(X, num_filter=channels)
    symbol = convolution(mx.sym.LRN(layer, **attributes), "c2")
    assert_equal_to_reference(symbol, (2, 16, 9, 11), "local_response")


FUNCTIONS = {
    "relu": lambda x: mx.sym.Activation(x, act_type="relu"),
    "sigmoid": lambda x: mx.sym.Activation(x, act_type="sigmoid"),
    "softrelu": lambda x: mx.sym.Activation(x, act_type="softrelu"),
    "tanh": lambda x: mx.sym.Activation(x, act_type="tanh"),
    "leaky": lambda x: mx.sym.LeakyReLU(x, act_type="leaky", slope=0.1),
    "elu": lambda x: mx.sym.LeakyReLU(x, act_type="elu", slope=0.3),
    "gelu": lambda x: mx.sym.LeakyReLU(x, act_type="gelu"),
    "relu6": lambda x: mx.sym.clip(x, a_min=0, a_max=0.6),
    "relu_operator": mx.sym.relu,
    "sigmoid_operator": mx.sym.sigmoid,
    "tanh_operator": mx.sym.tanh,
}


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("no_bias", [True, False])
def test_activation_is_fused(function, no_bias):
    layer = convolution(X, no_bias=no_bias)
    symbol = FUNCTIONS[function](layer)
    assert_equal_to_reference(symbol, IMAGES, "convolution_fused")
    dense = mx.sym.FullyConnected(X, num_hidden=7, no_bias=no_bias, name="f")
    symbol = FUNCTIONS[function](dense)
    executor, _ = bound(symbol, (3, 5))
    assert kernels_of(executor)[-1] == "inner_product"
    assert len([k for k in kernels_of(executor) if k != "reorder"]) == 1
    np.testing.assert_allclose(
        executor.forward()[0].asnumpy(), expected(symbol, (3, 5)), rtol=1e-4, atol=1e-6
    )


def test_a_residual_that_is_needed_later_is_copied():
    first = mx.sym.Activation(convolution(X, "c1"), act_type="relu")
    second = convolution(first, "c2") + first
    # The residual is read again later, so it must not be overwritten.
    symbol = second * 2 + first
    assert_equal_to_reference(symbol, IMAGES, "convolution_fused")


def test_a_residual_that_is_an_argument_is_not_overwritten():
    other = mx.sym.Variable("other")
    symbol = convolution(X) + other
    executor, raw = bound(symbol, IMAGES)
    before = raw["other"].copy()
    got = executor.forward()[0].asnumpy()
    np.testing.assert_array_equal(raw["other"], before)
    np.testing.assert_allclose(got, expected(symbol, IMAGES), rtol=1e-4, atol=1e-4)


def test_one_of_two_convolutions_fuses_their_sum():
    symbol = FOLDED["residual"][0]
    executor, _ = bound(symbol, IMAGES)
    assert kernels_of(executor).count("convolution_folded") == 2
    assert "arithmetic" not in kernels_of(executor)


PARTS = {
    "eltwise": ["convolution_folded", "convolution_folded", "activation"],
    "sum": ["convolution_folded", "convolution_folded", "arithmetic", "activation"],
    "bias": [*["convolution", "batch_norm_fused"] * 2, "arithmetic", "activation"],
}
"""What cannot be done within a convolution, and the kernels that then run instead."""


@pytest.mark.parametrize("missing", PARTS)
def test_what_cannot_be_fused_runs_as_separate_kernels(monkeypatch, caplog, missing):
    make = Primitive.of

    def of(kind, *parameters, post=()):
        is_missing = missing in {one[0] for one in post}
        if missing == "bias":
            # Neither layer has a bias of its own; only a folded batch norm brings one.
            is_missing = parameters[4:5] not in ((), (None,))
        if kind == "convolution_forward" and is_missing:
            raise KernelUnavailable(f"no {missing}")
        return make(kind, *parameters, post=post)

    first, second = (convolution(X, name, no_bias=True) for name in ("c1", "c2"))
    symbol = mx.sym.Activation(norm(first, "b1") + norm(second, "b2"), act_type="relu")
    wanted = expected(symbol, IMAGES)
    monkeypatch.setattr(Primitive, "of", staticmethod(of))
    executor, _ = bound(symbol, IMAGES)
    assert [name for name in kernels_of(executor) if name != "reorder"] == PARTS[missing]
    assert f"for _plan_convolution is unavailable, trying the next: no {missing}" in caplog.text
    np.testing.assert_allclose(executor.forward()[0].asnumpy(), wanted, rtol=1e-4, atol=1e-4)
    bound(symbol, IMAGES, CHECKED)[0].forward()


def test_what_no_kernel_can_fuse_runs_as_separate_references(monkeypatch):
    def of(kind, *parameters, post=()):
        raise KernelUnavailable("nothing")

    symbol = FOLDED["residual"][0]
    wanted = expected(symbol, IMAGES)
    monkeypatch.setattr(Primitive, "of", staticmethod(of))
    executor, _ = bound(symbol, IMAGES)
    assert kernels_of(executor) == []
    np.testing.assert_allclose(executor.forward()[0].asnumpy(), wanted, rtol=1e-4, atol=1e-4)


def test_nothing_is_folded_where_arrays_may_change_unnoticed():
    symbol = norm(convolution(X))
    executor, raw = bound(symbol, IMAGES, versions=False)
    assert "convolution_folded" not in kernels_of(executor)
    executor.forward()
    raw["b_moving_mean"][...] += 3
    raw["c_weight"][...] *= 2
    got = executor.forward()[0].asnumpy()
    reference, other = bound(symbol, IMAGES, REFERENCE, versions=False)
    other["b_moving_mean"][...] += 3
    other["c_weight"][...] *= 2
    np.testing.assert_allclose(got, reference.forward()[0].asnumpy(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["c_weight", "c_bias", "b_beta", "b_moving_mean", "b_moving_var"])
def test_changing_any_array_is_noticed(name):
    symbol = norm(convolution(X))
    executor, _ = bound(symbol, IMAGES)
    reference, _ = bound(symbol, IMAGES, REFERENCE)
    before = executor.forward()[0].asnumpy()
    for one in (executor, reference):
        target = {**one.arg_dict, **one.aux_dict}[name]
        target[0:1] = 2.5
    after = executor.forward()[0].asnumpy()
    assert not np.allclose(before, after)
    np.testing.assert_allclose(after, reference.forward()[0].asnumpy(), rtol=1e-4, atol=1e-4)


def test_a_module_predicts_with_the_weights_training_left():
    body = mx.sym.Activation(norm(convolution(X), fix_gamma=False), act_type="relu")
    symbol = mx.sym.SoftmaxOutput(
        mx.sym.FullyConnected(body, num_hidden=3, name="f"), name="softmax"
    )
    module = mx.mod.Module(symbol, context=mx.cpu())
    module.bind([("data", IMAGES)], [("softmax_label", (2,))])
    mx.random.seed(1)
    module.init_params(mx.init.Xavier())
    module.init_optimizer(optimizer="sgd", optimizer_params=(("learning_rate", 0.5),))
    random = np.random.RandomState(1)
    batch = mx.io.DataBatch([mx.nd.array(random.randn(*IMAGES))], [mx.nd.array([1, 2])])
    for _ in range(3):
        module.forward_backward(batch)
        module.update()
        module.forward(batch, is_train=False)
        got = module.get_outputs()[0].asnumpy()
        arguments, auxiliary = module.get_params()
        fresh = bind(
            symbol,
            mx.cpu(),
            {**arguments, "data": batch.data[0], "softmax_label": batch.label[0]},
            aux_states=auxiliary,
            options=REFERENCE,
        )
        np.testing.assert_allclose(got, fresh.forward()[0].asnumpy(), rtol=1e-4, atol=1e-5)


def test_executors_sharing_an_arena_keep_one_copy_of_folded_weights():
    symbol, shape = FOLDED["plain"]
    arrays, _ = arrays_of(symbol, shape, versions=True)
    executor, kept = None, []
    for rows in (2, 1):
        data = mx.nd.ones((rows, *shape[1:]))
        executor = bind(
            symbol,
            mx.cpu(),
            {name: arrays[name] for name in symbol.list_arguments() if name != "data"}
            | {"data": data},
            aux_states={name: arrays[name] for name in symbol.list_auxiliary_states()},
            shared_exec=executor,
        )
        executor.forward()
        kept.append(executor.memory_report().kept)
    assert kept[0] == kept[1] > 0


def test_dense_blocks_stay_channels_last():
    x = mx.sym.Convolution(X, kernel=(3, 3), pad=(1, 1), stride=(2, 2), num_filter=32, name="c0")
    for i in range(2):
        y = mx.sym.Activation(norm(x, f"b{i}"), act_type="relu")
        x = mx.sym.Concat(x, convolution(y, f"c{i + 1}", num_filter=32))
    executor, _ = bound(x, (2, 3, 32, 32))
    program = next(iter(executor._plans.values())).compiled.program
    joined = [step for step in program.steps if step.op.names[0] == "Concat"]
    layouts = [program.values[slot].layout for step in joined for slot in step.inputs]
    assert None not in layouts
    assert_equal_to_reference(x, (2, 3, 32, 32), "concat")


def test_inputs_in_different_layouts_are_concatenated():
    first = convolution(X, "c1", num_filter=64, kernel=(7, 7), pad=(3, 3), stride=(2, 2))
    pooled = mx.sym.Pooling(first, kernel=(2, 2), stride=(2, 2), pool_type="max")
    branch = convolution(pooled, "c2", num_filter=32, kernel=(1, 1), pad=(0, 0))
    symbol = mx.sym.Concat(pooled, branch, dim=1)
    assert_equal_to_reference(symbol, (2, 3, 64, 64), "concat")


def test_simple_bind_folds_everything_but_inputs():
    symbol = norm(convolution(X))
    executor = symbol.simple_bind(mx.cpu(), grad_req="null", data=IMAGES)
    assert "convolution_folded" in kernels_of(executor)
    assert executor.arg_dict["data"].version is None
    _, raw = arrays_of(symbol, IMAGES, versions=False)
    for round_ in range(2):
        for name, target in {**executor.arg_dict, **executor.aux_dict}.items():
            target[:] = raw[name] + 0.1 * round_
        reference, other = bound(symbol, IMAGES, REFERENCE)
        for name, array in other.items():
            array[...] = raw[name] + np.float32(0.1 * round_)
        np.testing.assert_allclose(
            executor.forward()[0].asnumpy(),
            reference.forward()[0].asnumpy(),
            rtol=1e-4,
            atol=1e-4,
        )
