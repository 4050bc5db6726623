"""Concatenations whose inputs are written directly into the result."""

from __future__ import annotations

import numpy as np
import pytest

import core as mx
from core.compiler.compile import CompileOptions
from core.executor import bind
from core.kernels.onednn import is_available
from core.kernels.onednn.memory import blocked, layout_of

pytestmark = pytest.mark.skipif(not is_available(), reason="oneDNN is not installed")

Symbol = mx.sym.Symbol
REFERENCE = CompileOptions(table=None)
CHECKED = CompileOptions(check_kernels=True)


def layer(data: Symbol, name: str, filters: int = 16, size: int = 1, **others: object) -> Symbol:
    return mx.sym.Convolution(
        data,
        name=name,
        num_filter=filters,
        kernel=(size, size),
        pad=(size // 2, size // 2),
        **others,
    )


def stem() -> Symbol:
    return layer(mx.sym.Variable("data"), "stem", 32, 3)


def fire() -> Symbol:
    """A fire module, as in SqueezeNet."""
    data = mx.sym.relu(layer(stem(), "squeeze"))
    parts = [mx.sym.relu(layer(data, f"expand{size}", 32, size)) for size in (1, 3)]
    return layer(mx.sym.concat(*parts), "last")


def dense() -> Symbol:
    """A dense block, as in DenseNet: each layer reads all before it."""
    data = mx.sym.Pooling(stem(), kernel=(2, 2), stride=(2, 2), pool_type="max")
    for index in range(3):
        norm = mx.sym.relu(mx.sym.BatchNorm(data, name=f"norm{index}", fix_gamma=False))
        added = layer(layer(norm, f"narrow{index}", 32), f"added{index}", 16, 3)
        data = mx.sym.concat(data, added, name=f"dense{index}")
    return layer(mx.sym.relu(data), "last")


def executor_of(
    symbol: Symbol, options: CompileOptions | None, batch: int = 1, grad_req: str = "null"
) -> mx.executor.Executor:
    rng = np.random.default_rng(3)
    shapes, _, states = symbol.infer_shape(data=(batch, 3, 12, 10))

    def draw(name: str, shape: tuple[int, ...]) -> mx.nd.NDArray:
        is_scale = name.endswith(("gamma", "var"))
        values = rng.uniform(0.5, 1.5, shape) if is_scale else rng.standard_normal(shape) / 4
        return mx.nd.array(values.astype("float32"))

    arguments = {n: draw(n, s) for n, s in zip(symbol.list_arguments(), shapes, strict=True)}
    auxiliaries = {
        n: draw(n, s) for n, s in zip(symbol.list_auxiliary_states(), states, strict=True)
    }
    gradients = {n: mx.nd.zeros(a.shape) for n, a in arguments.items()}
    return bind(
        symbol,
        mx.cpu(),
        arguments,
        gradients if grad_req != "null" else None,
        grad_req,
        auxiliaries,
        options=options,
    )


def names(executor: mx.executor.Executor) -> list[str]:
    (plan,) = executor._plans.values()
    return [step.op.names[0] for step in plan.compiled.program.steps]


def outputs(executor: mx.executor.Executor) -> list[np.ndarray]:
    for _ in range(2):  # The second run would read stale values left in memory by the first.
        found = executor.forward(is_train=False)
    return [one.asnumpy() for one in found]


def compared(symbol: Symbol, joins: int, batch: int = 1) -> None:
    executor = executor_of(symbol, CHECKED, batch)
    got = outputs(executor)
    expected = outputs(executor_of(symbol, REFERENCE, batch))
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4 * np.abs(other).max())
    assert names(executor).count("_plan_joined") == joins


def test_producers_write_directly_into_their_part() -> None:
    compared(fire(), joins=1)


def test_nested_concatenations_share_the_outermost_memory() -> None:
    symbol = dense()
    compared(symbol, joins=3)
    executor = executor_of(symbol, None)
    executor.forward(is_train=False)
    (plan,) = executor._plans.values()
    program = plan.compiled.program
    wholes = [s.outputs[0] for s in program.steps if s.op.names[0] == "_plan_joined"]
    assert len({program.memory(whole).id for whole in wholes}) == 1
    assert "Concat" not in names(executor)


def test_images_in_batches_are_copied() -> None:
    compared(fire(), joins=0, batch=2)


def test_a_value_in_two_concatenations_is_copied_once() -> None:
    data = stem()
    left, right = layer(data, "left"), layer(data, "right", size=3)
    both = layer(mx.sym.concat(left, right), "both")
    other = mx.sym.concat(both, left)
    compared(layer(other, "last"), joins=1)


def test_a_value_concatenated_with_itself_is_copied() -> None:
    data = layer(stem(), "left")
    compared(layer(mx.sym.concat(data, data), "last"), joins=0)


def test_a_part_may_be_read_after_the_whole() -> None:
    left, right = layer(stem(), "left"), layer(stem(), "right", size=3)
    whole = layer(mx.sym.relu(mx.sym.concat(left, right)), "after")
    compared(layer(whole * left, "last"), joins=1)


def test_channels_that_do_not_fill_a_block_are_copied() -> None:
    left, right = layer(stem(), "left", 20), layer(stem(), "right", 12)
    compared(layer(mx.sym.concat(left, right), "last"), joins=0)


def test_convolutions_of_many_channels_keep_the_fastest_layout() -> None:
    whole = mx.sym.concat(layer(stem(), "left"), layer(stem(), "right"))
    symbol = layer(layer(whole, "wide", 512), "large", 512, 3)
    executor = executor_of(symbol, None)
    executor.forward(is_train=False)
    assert names(executor).count("_plan_joined") == 1
    (plan,) = executor._plans.values()
    program = plan.compiled.program
    (large,) = (step for step in program.steps if step.node == "large")
    image = program.values[large.inputs[0]]
    assert image.layout != layout_of(blocked(image.shape))


def test_vectors_are_joined_where_aligned() -> None:
    data = mx.sym.Flatten(mx.sym.Variable("data"))
    parts = [
        mx.sym.FullyConnected(data, num_hidden=size, name=f"part{size}") for size in (16, 32, 5)
    ]
    compared(mx.sym.concat(*parts, dim=1) * 2, joins=1)
    compared(mx.sym.concat(*parts[::-1], dim=1) * 2, joins=0)


def test_rows_are_joined_in_batches_of_any_size() -> None:
    data = mx.sym.Flatten(mx.sym.Variable("data"))
    parts = [mx.sym.FullyConnected(data, num_hidden=16, name=f"part{i}") for i in range(2)]
    compared(mx.sym.concat(*parts, dim=0) * 2, joins=1, batch=3)


def test_arguments_and_outputs_are_copied() -> None:
    left, right = layer(stem(), "left"), layer(stem(), "right")
    whole = mx.sym.concat(left, right)
    compared(mx.sym.Group([layer(whole, "last"), left]), joins=0)
    data = mx.sym.Variable("data")
    compared(mx.sym.concat(data, data * 2, dim=0) * 3, joins=0)


def test_a_residual_is_added_within_a_part() -> None:
    data = stem()
    total = layer(mx.sym.relu(data), "left", 32) + data
    whole = mx.sym.concat(mx.sym.relu(total), layer(data, "right", size=3))
    compared(layer(whole, "last"), joins=1)


def test_an_output_may_overwrite_the_concatenation() -> None:
    data = mx.sym.Flatten(mx.sym.Variable("data"))
    parts = [mx.sym.FullyConnected(data, num_hidden=16, name=f"part{i}") for i in range(2)]
    compared(mx.sym.square(mx.sym.concat(*parts, dim=1)), joins=1)


def test_a_part_may_be_read_in_another_shape() -> None:
    left, right = layer(stem(), "left"), layer(stem(), "right", size=3)
    whole = mx.sym.concat(left, right)
    sums = mx.sym.sum(mx.sym.reshape(left, shape=(0, -1, 5)), axis=1)
    compared(mx.sym.Group([layer(whole, "last"), sums]), joins=1)


@pytest.mark.parametrize("seed", range(6))
def test_random_graphs_match_the_reference(seed: int) -> None:
    """Random mixtures of layers, sums, poolings and concatenations, each reading earlier values."""
    rng = np.random.default_rng(seed)
    values = [(stem(), 32), (layer(stem(), "second"), 16)]
    for index in range(14):
        (one, channels), (other, others) = (values[-1 - rng.integers(min(4, len(values)))],) * 2
        if rng.random() < 0.7:
            other, others = values[rng.integers(len(values))]
        match rng.integers(6):
            case 0:
                values.append((layer(one, f"layer{index}", 16, 3), 16))
            case 1:
                values.append(
                    (layer(one, f"narrow{index}", 32) + layer(other, f"r{index}", 32), 32)
                )
            case 2:
                values.append((mx.sym.relu(one), channels))
            case 3:
                window = {"kernel": (3, 3), "pad": (1, 1), "stride": (1, 1)}
                values.append((mx.sym.Pooling(one, pool_type="avg", **window), channels))
            case _ if channels + others <= 160:
                values.append((mx.sym.concat(one, other), channels + others))
    heads = [
        mx.sym.sum(layer(value, f"head{i}"), axis=1) for i, (value, _) in enumerate(values[-3:])
    ]
    executor = executor_of(mx.sym.Group(heads), CHECKED)
    expected = outputs(executor_of(mx.sym.Group(heads), REFERENCE))
    for one, other in zip(outputs(executor), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4 * np.abs(other).max())


def test_a_new_shape_recomputes_the_placement() -> None:
    executor = executor_of(dense(), CHECKED)
    first = outputs(executor)
    larger = executor.reshape(data=(1, 3, 20, 16), allow_up_sizing=True)
    again = larger.reshape(data=(1, 3, 12, 10))
    data = np.random.default_rng(5).standard_normal((1, 3, 20, 16)).astype("float32")
    larger.arg_dict["data"][:] = data
    outputs(larger)
    reference = executor_of(dense(), REFERENCE)
    again.arg_dict["data"][:] = data[:, :, :12, :10]
    reference.arg_dict["data"][:] = data[:, :, :12, :10]
    (got,), (expected,) = outputs(again), outputs(reference)
    assert first[0].shape == got.shape
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


def test_training_plans_copy() -> None:
    executor = executor_of(fire(), None, grad_req="write")
    executor.forward(is_train=True)
    executor.backward([mx.nd.ones(executor.outputs[0].shape)])
    assert "_plan_joined" not in names(executor)
