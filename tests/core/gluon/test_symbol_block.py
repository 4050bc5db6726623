"""Checkpoints imported as blocks: called, trained and exported again."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pytest

import core as mx
from core.errors import UsageError
from oracle import golden_file
from oracle.topics.saved_blocks import DATA, with_symbol_block

SAVED = golden_file.GOLDEN / "saved_blocks"


def _network() -> mx.sym.Symbol:
    x = mx.sym.Convolution(mx.sym.Variable("data"), kernel=(3, 3), num_filter=4, name="conv")
    x = mx.sym.BatchNorm(x, name="bn")
    x = mx.sym.Flatten(mx.sym.Activation(x, act_type="relu"))
    return mx.sym.FullyConnected(x, num_hidden=3, name="fc")


def _checkpoint(tmp_path: Path) -> tuple[str, mx.mod.Module]:
    module = mx.mod.Module(_network(), label_names=None)
    module.bind([("data", (2, 1, 6, 6))])
    mx.random.seed(7)
    module.init_params(mx.init.Xavier())
    prefix = str(tmp_path / "model")
    module.save_checkpoint(prefix, 3)
    return prefix, module


def _data(seed: int = 0, rows: int = 2) -> mx.nd.NDArray:
    return mx.nd.array(np.random.RandomState(seed).normal(size=(rows, 1, 6, 6)))


def _imported(prefix: str) -> mx.gluon.SymbolBlock:
    return mx.gluon.SymbolBlock.imports(f"{prefix}-symbol.json", "data", f"{prefix}-0003.params")


def test_outputs_match_the_module(tmp_path: Path) -> None:
    prefix, module = _checkpoint(tmp_path)
    block = _imported(prefix)
    for rows in (2, 5, 2):
        batch = _data(rows, rows)
        module.forward(mx.io.DataBatch([batch]), is_train=False)
        np.testing.assert_allclose(
            block(batch).asnumpy(), module.get_outputs()[0].asnumpy(), rtol=1e-5, atol=1e-6
        )


def test_gradients_match_the_module(tmp_path: Path) -> None:
    prefix, module = _checkpoint(tmp_path)
    block = _imported(prefix)
    # Two recorded passes before either backward: each must keep its own intermediate values.
    batches = [_data(1), _data(2)]
    with mx.autograd.record():
        outputs = [block(batch) for batch in batches]
    head = mx.nd.ones((2, 3))
    for batch, output in zip(batches, outputs, strict=True):
        output.backward(head)
        module.forward(mx.io.DataBatch([batch]), is_train=True)
        module.backward([head])
        for name, expected in module._exec_group.execs[0].grad_dict.items():
            if expected is not None:
                np.testing.assert_allclose(
                    block.params[name].grad().asnumpy(), expected.asnumpy(), rtol=1e-4, atol=1e-5
                )


def test_executors_are_reused(tmp_path: Path) -> None:
    block = _imported(_checkpoint(tmp_path)[0])
    trainer = mx.gluon.Trainer(block.collect_params(), "sgd", {"learning_rate": 0.01})
    losses = []
    for _ in range(4):
        with mx.autograd.record():
            loss = mx.nd.square(block(_data()) - 1).sum()
        loss.backward()
        trainer.step(2)
        losses.append(loss.asscalar())
    assert losses[-1] < losses[0]
    del loss
    gc.collect()
    (pool,) = block._pools[mx.cpu()].values()
    # A pass may begin before the previous recording is freed, but no earlier ones.
    assert len(pool._idle[True]) in (1, 2)


def test_executors_of_few_input_shapes_are_kept() -> None:
    block = mx.gluon.SymbolBlock(2 * mx.sym.Variable("data"), mx.sym.Variable("data"))
    first = mx.nd.ones((1,))
    first.attach_grad()
    with mx.autograd.record():
        output = block(first)
    for length in range(2, 20):
        assert block(mx.nd.ones((length,))).shape == (length,)
    (pools,) = block._pools.values()
    assert len(pools) == 8
    output.backward()  # its executor is no longer kept by the block
    assert first.grad.asscalar() == 2


def test_running_statistics_change_only_while_recording(tmp_path: Path) -> None:
    block = _imported(_checkpoint(tmp_path)[0])
    mean = block.params["bn_moving_mean"]
    assert mean.grad_req == "null"
    before = mean.data().asnumpy()
    block(_data())
    np.testing.assert_array_equal(mean.data().asnumpy(), before)
    with mx.autograd.record():
        output = block(_data())
    output.backward()
    assert not np.array_equal(mean.data().asnumpy(), before)


def test_shapes_are_inferred_on_the_first_call() -> None:
    block = mx.gluon.SymbolBlock(_network(), mx.sym.Variable("data"))
    block.initialize(mx.init.One())
    assert block(_data()).shape == (2, 3)
    assert block.params["conv_weight"].shape == (4, 1, 3, 3)
    assert list(block.collect_params("fc_.*")) == ["fc_weight", "fc_bias"]


def test_internal_outputs_as_features(tmp_path: Path) -> None:
    prefix, _ = _checkpoint(tmp_path)
    internals = mx.sym.load(f"{prefix}-symbol.json").get_internals()
    outputs = [internals["conv_output"], internals["fc_output"]]
    block = mx.gluon.SymbolBlock(outputs, mx.sym.Variable("data"), _imported(prefix).params)
    assert [one.shape for one in block(_data())] == [(2, 4, 4, 4), (2, 3)]


def test_export_and_import_again(tmp_path: Path) -> None:
    block = _imported(_checkpoint(tmp_path)[0])
    block.export(str(tmp_path / "again"), 3)
    expected = block(_data()).asnumpy()
    np.testing.assert_array_equal(_imported(str(tmp_path / "again"))(_data()).asnumpy(), expected)
    block.save_parameters(str(tmp_path / "p"))
    other = mx.gluon.SymbolBlock(_network(), [mx.sym.Variable("data")])
    other.load_parameters(str(tmp_path / "p"))
    np.testing.assert_array_equal(other(_data()).asnumpy(), expected)
    module = mx.mod.Module.load(str(tmp_path / "again"), 3, label_names=None)
    module.bind([("data", (2, 1, 6, 6))], for_training=False)


def test_calling_with_symbols_gives_symbols() -> None:
    block = mx.gluon.SymbolBlock(_network(), [mx.sym.Variable("data")])
    composed = block(mx.sym.Variable("image"))
    assert composed.list_arguments()[0] == "image"


def test_casting_keeps_batch_norm_in_float32() -> None:
    block = mx.gluon.SymbolBlock(_network(), [mx.sym.Variable("data")])
    block.initialize()
    block(_data())
    block.cast("float16")
    kept = {name for name, one in block.params.items() if one.data().dtype == np.float32}
    assert kept == {"bn_gamma", "bn_beta", "bn_moving_mean", "bn_moving_var"}


def test_invalid_calls_are_refused() -> None:
    with pytest.raises(UsageError, match="must be variables"):
        mx.gluon.SymbolBlock(_network(), [_network()])
    with pytest.raises(UsageError, match="2 inputs for"):
        mx.gluon.SymbolBlock(_network(), [mx.sym.Variable("data")])(_data(), _data())
    table = mx.sym.Variable("w", stype="row_sparse")
    with pytest.raises(UsageError, match="'w' because its storage type"):
        mx.gluon.SymbolBlock(mx.sym.dot(mx.sym.Variable("data"), table), mx.sym.Variable("data"))


def test_a_file_by_mxnet_of_a_block_with_a_symbol_block_is_read() -> None:
    block = with_symbol_block(mx)
    block.load_parameters(str(SAVED / "symbol_block.params"))
    wanted = golden_file.load(SAVED / "expected.npz")["symbol_block"]
    np.testing.assert_allclose(block(mx.nd.array(DATA)).asnumpy(), wanted, rtol=1e-5)


def test_a_symbol_block_is_saved_with_its_parent_under_mxnets_names(tmp_path: Path) -> None:
    theirs = mx.nd.load(str(SAVED / "symbol_block.params"))
    block = with_symbol_block(mx)
    block.load_parameters(str(SAVED / "symbol_block.params"))
    block.save_parameters(str(tmp_path / "net.params"))
    ours = mx.nd.load(str(tmp_path / "net.params"))
    assert ours.keys() == theirs.keys()
    assert "0.0.bn_moving_var" in ours
    for name, value in ours.items():
        np.testing.assert_array_equal(value.asnumpy(), theirs[name].asnumpy())


@pytest.mark.parametrize("stripped", [True, False])
def test_a_symbol_block_reads_its_own_file_with_and_without_the_common_prefix(
    tmp_path: Path, stripped: bool
) -> None:
    def made(value: float) -> mx.gluon.SymbolBlock:
        data = mx.sym.Variable("data")
        layer = mx.sym.FullyConnected(data, num_hidden=3, name="net_fc")
        block = mx.gluon.SymbolBlock(layer, data)
        block.initialize(mx.init.Constant(value))
        block(mx.nd.ones((1, 2)))
        return block

    path = str(tmp_path / "block.params")
    trained, fresh = made(0.5), made(0.1)
    trained.save_parameters(path)
    if stripped:  # as MXNet writes it
        mx.nd.save(path, {k.removeprefix("net_fc_"): v for k, v in mx.nd.load(path).items()})
    fresh.load_parameters(path)
    assert (fresh(mx.nd.ones((1, 2))).asnumpy() == 1.5).all()


def test_a_block_without_parameters_reads_its_empty_file(tmp_path: Path) -> None:
    data = mx.sym.Variable("data")
    for block in (mx.gluon.nn.Flatten(), mx.gluon.SymbolBlock(mx.sym.Flatten(data), data)):
        block.save_parameters(str(tmp_path / "empty.params"))
        block.load_parameters(str(tmp_path / "empty.params"))
