"""BucketingModule: shared parameters, optimizer and memory; switching buckets; checkpoints."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import core as mx
from core.errors import ShapeError, StageError

HIDDEN = 4


def generate(key: int) -> tuple[mx.sym.Symbol, list[str], list[str]]:
    x = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=HIDDEN, flatten=False, name="in")
    x = mx.sym.sum(mx.sym.Activation(x, act_type="tanh"), axis=1)
    x = mx.sym.FullyConnected(x, num_hidden=3, name="out")
    return mx.sym.SoftmaxOutput(x, name="softmax"), ["data"], ["softmax_label"]


def batch(key: int, size: int = 2) -> mx.io.DataBatch:
    random = np.random.RandomState(key)
    return mx.io.DataBatch(
        [mx.nd.array(random.rand(size, key, 5))],
        [mx.nd.array(random.randint(0, 3, size))],
        bucket_key=key,
        provide_data=[("data", (size, key, 5))],
        provide_label=[("softmax_label", (size,))],
    )


def ready(default: int = 8) -> mx.mod.BucketingModule:
    mx.random.seed(1)
    module = mx.mod.BucketingModule(generate, default_bucket_key=default)
    module.bind([("data", (2, default, 5))], [("softmax_label", (2,))])
    module.init_params(mx.init.Xavier())
    module.init_optimizer(optimizer="sgd", optimizer_params={"learning_rate": 0.5, "momentum": 0.9})
    return module


def step(module: mx.mod.BucketingModule, key: int) -> None:
    module.forward_backward(batch(key))
    module.update()


def weights(module: mx.mod.BucketingModule) -> dict[str, np.ndarray]:
    return {name: values.asnumpy().copy() for name, values in module.get_params()[0].items()}


def _without_names(key: int) -> tuple[mx.sym.Symbol, list[str], list[str]]:
    x = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=HIDDEN, flatten=False)
    x = mx.sym.FullyConnected(mx.sym.sum(mx.sym.tanh(x), axis=1), num_hidden=3)
    return mx.sym.SoftmaxOutput(x, name="softmax"), ["data"], ["softmax_label"]


def test_unnamed_layers_get_the_same_names_in_every_bucket() -> None:
    mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=1)  # names counted outside the module
    module = mx.mod.BucketingModule(_without_names, default_bucket_key=8)
    assert module.output_names == ["softmax_output"]
    module.bind([("data", (2, 8, 5))], [("softmax_label", (2,))])
    module.init_params(mx.init.Xavier())
    module.init_optimizer()
    before = weights(module)
    for key in (3, 8, 5):
        step(module, key)
        arguments = module.symbol.list_arguments()
        assert arguments[1:3] == ["fullyconnected0_weight", "fullyconnected0_bias"]
    after = weights(module)
    assert all((before[name] != after[name]).any() for name in before)


def test_buckets_share_parameters_and_optimizer() -> None:
    module = ready()
    for key in (8, 3, 5, 3):
        step(module, key)
    assert module.bucket_keys == [8, 3, 5]
    arrays = [
        m._exec_group.execs[0].arg_dict["in_weight"].dense() for m in module._buckets.values()
    ]
    assert all(np.shares_memory(arrays[0], other) for other in arrays[1:])
    assert len({id(m._optimizer) for m in module._buckets.values()}) == 1


def test_training_over_buckets_matches_training_each_shape_alone() -> None:
    module = ready()
    plain = mx.mod.Module(*generate(8))
    plain.bind([("data", (2, 8, 5))], [("softmax_label", (2,))])
    plain.init_params(arg_params=module.get_params()[0], aux_params={})
    plain.init_optimizer(optimizer="sgd", optimizer_params={"learning_rate": 0.5, "momentum": 0.9})
    for key in (8, 3, 5):
        step(module, key)
        plain.forward_backward(batch(key))
        plain.update()
    expected, got = plain.get_params()[0], weights(module)
    for name in got:
        np.testing.assert_allclose(got[name], expected[name].asnumpy(), rtol=1e-5, atol=1e-7)


def test_an_update_in_one_bucket_is_visible_in_all() -> None:
    module = ready()
    before = weights(module)
    step(module, 3)
    after = weights(module)
    assert not np.array_equal(before["in_weight"], after["in_weight"])


def test_a_deleted_bucket_is_bound_again() -> None:
    module = ready()
    step(module, 3)
    module.drop_bucket(3)
    assert module.bucket_keys == [8]
    before = weights(module)
    module.forward(batch(3, size=6), is_train=False)
    assert module.bucket_keys == [8, 3]
    assert module.get_outputs()[0].shape == (6, 3)
    for name, values in weights(module).items():
        np.testing.assert_array_equal(values, before[name])
    module.drop_bucket(5)
    with pytest.raises(ValueError, match="the default one"):
        module.drop_bucket(8)


def test_prepare_binds_without_switching() -> None:
    module = ready()
    module.forward(batch(8))
    module.prepare(batch(3))
    assert module.bucket_keys == [8, 3]
    assert module.data_shapes[0].shape == (2, 8, 5)


@pytest.mark.parametrize("default", [3, 8])
def test_memory_is_that_of_the_largest_bucket(default: int) -> None:
    """MXNet issue 5035: memory grew when the default bucket was not the largest."""
    module = ready(default)
    for key in (3, 4, 5, 6, 7, 8):
        step(module, key)
    alone = ready(8)
    step(alone, 8)
    assert arena_bytes(module) <= 1.1 * arena_bytes(alone)
    assert 0 < module._total_exec_bytes <= 1.1 * alone._total_exec_bytes


def arena_bytes(module: mx.mod.BucketingModule) -> int:
    return module._buckets[8]._exec_group.execs[0].memory_report().arena


def test_a_bucket_with_extra_parameters_is_refused() -> None:
    def other(key: int) -> tuple[mx.sym.Symbol, list[str], list[str]]:
        x = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3, name=f"fc{key}")
        return mx.sym.SoftmaxOutput(x, name="softmax"), ["data"], ["softmax_label"]

    module = mx.mod.BucketingModule(other, default_bucket_key=1)
    module.bind([("data", (2, 1))], [("softmax_label", (2,))])
    module.init_params()
    with pytest.raises(ShapeError, match="'fc2_weight' is not among the shared parameters"):
        module.switch_bucket(2, [("data", (2, 2))], [("softmax_label", (2,))])
    assert module.bucket_keys == [1]


def test_batch_without_a_key_is_refused() -> None:
    with pytest.raises(StageError, match="bucket_key"):
        ready().forward(mx.io.DataBatch([mx.nd.zeros((2, 8, 5))]))


def test_default_key_is_required() -> None:
    with pytest.raises(ValueError, match="default_bucket_key is None"):
        mx.mod.BucketingModule(generate)


def test_calls_before_bind_are_refused() -> None:
    module = mx.mod.BucketingModule(generate, default_bucket_key=8)
    assert module.data_names == ["data"]
    assert module.output_names == ["softmax_output"]
    for call in (
        lambda: module.init_params(),
        lambda: module.symbol,
        lambda: module.forward(batch(8)),
    ):
        with pytest.raises(StageError, match=r"call bind\("):
            call()


def test_rebinding_keeps_parameters() -> None:
    module = ready()
    step(module, 3)
    before = weights(module)
    module.bind([("data", (4, 8, 5))], [("softmax_label", (4,))], force_rebind=True)
    after = weights(module)
    for name in before:
        np.testing.assert_array_equal(before[name], after[name])


def test_a_checkpoint_holds_every_bucket(tmp_path: Path) -> None:
    module = ready()
    step(module, 3)
    module.save_checkpoint(str(tmp_path / "net"), 1)
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "net-0001.params",
        "net-3-symbol.json",
        "net-8-symbol.json",
        "net.buckets",
    ]
    loaded = mx.mod.BucketingModule.load(str(tmp_path / "net"), 1)
    loaded.bind([("data", (2, 8, 5))], [("softmax_label", (2,))])
    for name, values in weights(module).items():
        np.testing.assert_array_equal(loaded.get_params()[0][name].asnumpy(), values)
    (tmp_path / "net.buckets").unlink()
    with pytest.raises(ValueError, match="pass the sym_gen"):
        mx.mod.BucketingModule.load(str(tmp_path / "net"), 1, default_bucket_key=8)


def test_created_from_symbols_and_parameters() -> None:
    trained = ready()
    for key in (8, 3):
        step(trained, key)
    expected = weights(trained)
    doubled = 2 * generate(3)[0]
    module = mx.mod.BucketingModule.load_dict({3: doubled}, generate, 8, *trained.get_params())
    module.bind([("data", (2, 8, 5))], [("softmax_label", (2,))])
    for name, values in weights(module).items():
        np.testing.assert_array_equal(values, expected[name])
    for key, factor in ((3, 2), (8, 1)):
        trained.forward(batch(key), is_train=False)
        module.forward(batch(key), is_train=False)
        np.testing.assert_allclose(
            module.get_outputs()[0].asnumpy(),
            factor * trained.get_outputs()[0].asnumpy(),
            rtol=1e-6,
        )
    with pytest.raises(AssertionError, match="needs sym_dict"):
        mx.mod.BucketingModule.load_dict(None, generate, 8, {}, {})
    with pytest.raises(AssertionError, match="needs arg_params"):
        mx.mod.BucketingModule.load_dict({}, generate, 8)
