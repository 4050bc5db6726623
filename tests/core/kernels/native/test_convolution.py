"""Winograd kernels run 3x3 convolutions where they are faster, and match the reference."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import core as mx
from core.compiler.compile import CompileOptions
from core.executor import bind
from core.kernels.kernel import Version
from core.kernels.native import is_available, library
from core.kernels.native.convolution import Convolution
from core.kernels.onednn.memory import channels_last, layout_of
from oracle.compare import assert_close

pytestmark = pytest.mark.skipif(
    not is_available(), reason="the kernels are not compiled, or there is no AVX-512"
)

REFERENCE = CompileOptions(table=None)
CHECKED = CompileOptions(check_kernels=True)
Symbol = mx.sym.Symbol


@pytest.fixture
def any_saving(monkeypatch: pytest.MonkeyPatch) -> None:
    """Convolve even the images for which direct convolutions are faster."""
    for name in ("_LEAST_SAVING", "_FEWEST_RESULTS"):
        monkeypatch.setattr(sys.modules[Convolution.__module__], name, 0)


@pytest.fixture(params=[2, 4], ids=["tiles of 2x2", "tiles of 4x4"])
def results(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Convolve with each size of tiles, whichever is faster."""
    for name in ("_RESULTS", "_RESULTS_IN_TRAINING"):
        monkeypatch.setattr(sys.modules[Convolution.__module__], name, (request.param,))


def layer(data: Symbol, name: str, filters: int, size: int = 3, **others: Any) -> Symbol:
    return mx.sym.Convolution(data, name=name, num_filter=filters, kernel=(size, size), **others)


def between(filters: tuple[int, int], **others: Any) -> Symbol:
    """A 3x3 convolution between two others."""
    before, after = filters
    out = layer(mx.sym.Variable("data"), "first", before, 1)
    return layer(layer(out, "middle", after, **others), "last", 8, 1)


def bound(
    symbol: Symbol,
    data: tuple[int, ...],
    options: CompileOptions | None,
    grad_req: Any = "write",
    *,
    has_versions: bool = True,
) -> Any:
    """Return an executor with fixed values; with versions, its arrays are like a module's."""
    random = np.random.RandomState(3)
    shapes, _, states = symbol.infer_shape(data=data)
    arguments = {
        name: mx.nd.array(random.uniform(-1, 1, shape))
        for name, shape in zip(symbol.list_arguments(), shapes, strict=True)
    }
    auxiliary = {
        name: mx.nd.array(random.uniform(0.5, 1.5, shape))
        for name, shape in zip(symbol.list_auxiliary_states(), states, strict=True)
    }
    if has_versions:
        for one in (*arguments.values(), *auxiliary.values()):
            one.version = Version()
    gradients = {name: mx.nd.ones(one.shape) for name, one in arguments.items()}
    return bind(symbol, mx.cpu(), arguments, gradients, grad_req, auxiliary, options=options)


def trained(executor: Any) -> Any:
    """Run a training step from a fixed gradient."""
    (out,) = executor.forward(is_train=True)
    executor.backward([mx.nd.array(np.random.RandomState(4).randn(*out.shape))])
    return executor


def program_of(executor: Any, *, is_train: bool) -> Any:
    programs = [plan.compiled.program for plan in executor._plans.values()]
    (found,) = (program for program in programs if program.is_train == is_train)
    return found


def kernels(executor: Any, *, is_train: bool) -> list[str]:
    """Return the names of the kernels that an executor runs."""
    steps = program_of(executor, is_train=is_train).steps
    return [step.kernel.name for step in steps if step.kernel is not None]


def assert_trained_equally(executor: Any, expected: Any) -> None:
    assert_close("output", executor.outputs[0].asnumpy(), expected.outputs[0].asnumpy())
    for name, wanted in expected.grad_dict.items():
        if wanted is not None:
            assert_close(name, executor.grad_dict[name].asnumpy(), wanted.asnumpy())


@pytest.mark.usefixtures("any_saving", "results")
@pytest.mark.parametrize("size", [(6, 6), (7, 9), (5, 3)], ids=str)
@pytest.mark.parametrize("pad", [0, 1, 2])
@pytest.mark.parametrize("filters", [(16, 32), (48, 80), (112, 16)], ids=str)
def test_training_equals_the_reference(
    filters: tuple[int, int], pad: int, size: tuple[int, int]
) -> None:
    """Tiles that overlap every edge; panels of 16, 32 and 64 columns and their combinations."""
    symbol = between(filters, pad=(pad, pad))
    executor = trained(bound(symbol, (40, 4, *size), None))
    names = kernels(executor, is_train=True)
    assert {"winograd:convolution", "winograd:convolution_backward"} <= {*names}
    assert_trained_equally(executor, trained(bound(symbol, (40, 4, *size), REFERENCE)))


@pytest.mark.usefixtures("any_saving", "results")
@pytest.mark.parametrize(
    ("size", "dilation", "pad"),
    [((12, 12), 2, 2), ((13, 15), 2, 0), ((17, 10), 3, 3), ((21, 22), 2, 4)],
    ids=str,
)
def test_training_dilated_convolutions_equals_the_reference(
    size: tuple[int, int], dilation: int, pad: int
) -> None:
    """Image sizes that the dilation divides and ones it does not, so that rows differ in tiles."""
    symbol = between((16, 32), pad=(pad, pad), dilate=(dilation, dilation))
    executor = trained(bound(symbol, (6, 4, *size), None))
    names = kernels(executor, is_train=True)
    assert {"winograd:convolution", "winograd:convolution_backward"} <= {*names}
    assert_trained_equally(executor, trained(bound(symbol, (6, 4, *size), REFERENCE)))


@pytest.mark.usefixtures("any_saving", "results")
@pytest.mark.parametrize("dilation", range(1, 8))
@pytest.mark.parametrize("size", [(5, 6), (8, 3), (9, 9)], ids=str)
def test_tiles_cover_every_output_once_at_any_dilation(
    size: tuple[int, int], dilation: int
) -> None:
    """Even where the dilation exceeds the image."""
    symbol = between((16, 16), pad=(dilation, dilation), dilate=(dilation, dilation))
    executor, expected = (bound(symbol, (2, 4, *size), options) for options in (None, REFERENCE))
    (got,), (wanted,) = (one.forward(is_train=False) for one in (executor, expected))
    assert "winograd:convolution" in kernels(executor, is_train=False)
    assert_close("output", got.asnumpy(), wanted.asnumpy())


def test_weights_without_a_version_are_transformed_on_every_pass() -> None:
    symbol = between((32, 48), pad=(1, 1))
    executor, expected = (
        bound(symbol, (4, 4, 9, 8), options, has_versions=False) for options in (None, REFERENCE)
    )
    for one in (executor, expected):
        trained(one)
        one.arg_dict["middle_weight"].dense_for_write()[...] += 1
        trained(one)
    names = kernels(executor, is_train=True)
    assert {"winograd:convolution", "winograd:convolution_backward"} <= {*names}
    assert_trained_equally(executor, expected)


@pytest.mark.usefixtures("results")
@pytest.mark.parametrize("threads", [1, 2, 3, 4, 6, 16])
@pytest.mark.parametrize("no_bias", [False, True], ids=["bias", "no_bias"])
def test_large_weight_gradients_are_divided_among_threads(
    monkeypatch: pytest.MonkeyPatch, threads: int, no_bias: bool
) -> None:
    """By rows of places and bands of output channels, of which there are 10 vectors."""
    monkeypatch.setattr(library, "threads", lambda: threads)
    symbol = between((144, 160), pad=(1, 1), no_bias=no_bias)
    executor = trained(bound(symbol, (9, 4, 12, 12), None))
    assert "winograd:convolution_backward" in kernels(executor, is_train=True)
    assert_trained_equally(executor, trained(bound(symbol, (9, 4, 12, 12), REFERENCE)))


@pytest.mark.parametrize("wanted", ["middle_weight", "first_weight", "middle_bias"])
def test_only_the_requested_gradients_are_computed(wanted: str) -> None:
    symbol = between((32, 32), pad=(1, 1))
    requests = {wanted: "write"}
    executor = trained(bound(symbol, (4, 4, 8, 8), None, requests))
    assert_trained_equally(executor, trained(bound(symbol, (4, 4, 8, 8), REFERENCE, requests)))


def test_gradients_are_added_with_grad_req_add() -> None:
    symbol = between((32, 32), pad=(1, 1))
    executor = trained(trained(bound(symbol, (4, 4, 8, 8), None, "add")))
    assert "winograd:convolution_backward" in kernels(executor, is_train=True)
    expected = trained(trained(bound(symbol, (4, 4, 8, 8), REFERENCE, "add")))
    assert_trained_equally(executor, expected)


def test_changed_weights_are_transformed_again() -> None:
    symbol = between((32, 32), pad=(1, 1))
    executor, expected = (
        trained(bound(symbol, (4, 4, 8, 8), options)) for options in (None, REFERENCE)
    )
    for one in (executor, expected):
        one.arg_dict["middle_weight"][:] *= -0.5
        one.arg_dict["middle_weight"][3, 5, 1, 2] = 7.0
        trained(one)
    assert_trained_equally(executor, expected)
    for one in (executor, expected):
        one.arg_dict["middle_weight"][:] *= 2
        one.forward(is_train=False)
    assert_close("output", executor.outputs[0].asnumpy(), expected.outputs[0].asnumpy())


def residual_block(activation: str | None, *, has_norm: bool, no_bias: bool) -> Symbol:
    data = layer(mx.sym.Variable("data"), "first", 32, 1)
    out = layer(data, "middle", 32, pad=(1, 1), no_bias=no_bias)
    if has_norm:
        out = mx.sym.BatchNorm(out, fix_gamma=False, name="norm")
    out = out + data
    if activation == "leaky":
        out = mx.sym.LeakyReLU(out, act_type=activation, slope=0.3)
    elif activation is not None:
        out = mx.sym.Activation(out, act_type=activation)
    return layer(out, "last", 8, 1)


@pytest.mark.usefixtures("results")
@pytest.mark.parametrize("activation", [None, "relu", "leaky", "tanh"])
@pytest.mark.parametrize("has_norm", [False, True], ids=["plain", "norm"])
@pytest.mark.parametrize("no_bias", [False, True], ids=["bias", "no_bias"])
def test_inference_fuses_the_following_steps(
    no_bias: bool, has_norm: bool, activation: str | None
) -> None:
    """ReLU, residual and batch norm; other activations run afterwards, within the same step."""
    symbol = residual_block(activation, has_norm=has_norm, no_bias=no_bias)
    executor, checked, expected = (
        bound(symbol, (4, 4, 9, 8), options) for options in (None, CHECKED, REFERENCE)
    )
    for one in (executor, checked, expected):
        one.forward(is_train=False)
    names = kernels(executor, is_train=False)
    assert "winograd:convolution" in names
    assert not {"onednn:arithmetic", "onednn:activation"} & {*names}
    for one in (executor, checked):
        assert_close("output", one.outputs[0].asnumpy(), expected.outputs[0].asnumpy())
    if has_norm:
        for one in (executor, expected):
            one.aux_dict["norm_moving_mean"][:] += 1
            one.forward(is_train=False)
        assert_close("output", executor.outputs[0].asnumpy(), expected.outputs[0].asnumpy())


@pytest.mark.parametrize("is_train", [False, True])
def test_it_adopts_its_neighbours_layout(is_train: bool) -> None:
    """Channels last after a convolution that chose it, blocked elsewhere; the results are equal."""
    out = layer(mx.sym.Variable("data"), "first", 48, 5, num_group=1)
    out = layer(out, "groups", 48, 1, num_group=2)
    out = layer(layer(out, "middle", 32, pad=(1, 1)), "again", 16, pad=(1, 1))
    executor, expected = (bound(out, (6, 4, 12, 12), options) for options in (None, REFERENCE))
    for one in (executor, expected):
        if is_train:
            trained(one)
        else:
            one.forward(is_train=False)
    program = program_of(executor, is_train=is_train)
    (step,) = (
        step
        for step in program.forward_steps
        if step.kernel.name == "winograd:convolution" and step.node == "middle"
    )
    value = program.values[step.inputs[0]]
    assert value.layout == layout_of(channels_last(value.shape))
    assert_close("output", executor.outputs[0].asnumpy(), expected.outputs[0].asnumpy())
    if is_train:
        assert_trained_equally(executor, expected)


@pytest.mark.parametrize(
    "others",
    [
        {"stride": (2, 2)},
        {"dilate": (2, 1)},
        {"dilate": (6, 6), "pad": (6, 6)},
        {"num_group": 2},
        {"pad": (3, 3)},
        {"layout": "NHWC"},
    ],
    ids=str,
)
def test_other_convolutions_are_left_to_onednn(others: dict[str, Any]) -> None:
    symbol = layer(mx.sym.Variable("data"), "only", 32, **others)
    executor = bound(symbol, (2, 8, 8, 32) if "layout" in others else (2, 32, 8, 8), None)
    executor.forward(is_train=False)
    assert not any(name.startswith("winograd") for name in kernels(executor, is_train=False))


@pytest.mark.usefixtures("results")
@pytest.mark.parametrize("activation", [None, "relu", "leaky"])
def test_infinity_does_not_become_nan(activation: str | None) -> None:
    """The bias alone is infinite; multiplying it by zero weights would make NaN."""
    symbol = residual_block(activation, has_norm=False, no_bias=False).get_internals()
    symbol = symbol[symbol.list_outputs()[-4]]
    results = []
    for options in (None, REFERENCE):
        executor = bound(symbol, (4, 4, 9, 8), options)
        executor.arg_dict["middle_bias"][:] = mx.nd.array([np.inf, -np.inf] * 16)
        results.append(executor.forward(is_train=False)[0].asnumpy())
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize(("size", "wins"), [(7, False), (14, True)])
def test_large_weights_need_enough_tiles_to_pay_off(size: int, wins: bool) -> None:
    """The choice ignores the batch size, so that all sizes share the transformed weights."""
    symbol = layer(mx.sym.Variable("data"), "only", 512, pad=(1, 1))
    for images in (1, 8):
        executor = bound(symbol, (images, 512, size, size), None)
        executor.forward(is_train=False)
        assert ("winograd:convolution" in kernels(executor, is_train=False)) == wins


@pytest.mark.parametrize(
    ("images", "size", "wins"),
    [(1, 14, False), (2, 14, True), (2, 7, False), (4, 7, False), (8, 7, True)],
)
def test_training_needs_enough_tiles_and_few_beyond_the_edges(
    images: int, size: int, wins: bool
) -> None:
    """Weights are transformed in each step; of the tiles of 7x7 pixels, a quarter is outside."""
    symbol = layer(mx.sym.Variable("data"), "only", 512, pad=(1, 1))
    executor = trained(bound(symbol, (images, 512, size, size), None))
    assert ("winograd:convolution" in kernels(executor, is_train=True)) == wins


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize(("channels", "size"), [(256, 14), (64, 27), (32, 14), (128, 56)])
def test_tiles_are_divided_evenly_among_threads(
    monkeypatch: pytest.MonkeyPatch, threads: int, channels: int, size: int
) -> None:
    """49 tiles once went 30 to one thread and 19 to the other."""
    monkeypatch.setattr(library, "threads", lambda: threads)
    shape = (1, channels, size, size)
    tiles = Convolution(shape, shape, (1, 1), is_last=True).as_c().tiles
    count = (-(-size // 2)) ** 2
    turns = -(-count // (tiles * threads))
    most = min(count, turns * tiles)
    assert most <= count / threads + 2 * turns
