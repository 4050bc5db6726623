"""Choosing kernels: layouts, reorders, workspaces, cached weights, fallbacks and check mode.

The backend here is made up: its layout stores a tensor backwards, padded by 64 bytes.
"""

import dataclasses
import logging

import numpy as np
import pytest

from core.capabilities.arrays import POINTWISE
from core.capabilities.layers import FULLY_CONNECTED
from core.compiler.compile import CompileOptions
from core.compiler.ir import Place
from core.compiler.primitives import Reorder
from core.config import read_config
from core.device import cpu
from core.executor import bind
from core.executor.check import KernelMismatch
from core.kernels.kernel import (
    Kernel,
    KernelLayouts,
    KernelTable,
    KernelUnavailable,
    Version,
    kernels,
    register_layout,
)
from core.ndarray import NDArray

FLOAT = np.dtype("float32")


@dataclasses.dataclass(frozen=True)
class Backwards:
    """The layout."""

    is_rounded = False

    def nbytes(self, shape, dtype):
        return int(np.prod(shape)) * dtype.itemsize + 64


class Reverse(Kernel):
    name = "test:reorder"

    def __init__(self, source, target):
        self.source, self.target = source, target

    def bind(self, arrays, resources):
        source, target = view(arrays.inputs[0], self.source), view(arrays.outputs[0], self.target)

        def call():
            target[...] = source

        return call


register_layout(Backwards, Reverse)


def view(array, spec):
    """Return a flat view in the plain order of elements."""
    if spec.layout is None:
        return array.reshape(-1)
    assert array.dtype == np.uint8
    assert array.nbytes == spec.layout.nbytes(spec.shape, spec.dtype)
    return array[:-64].view(spec.dtype)[::-1]


BLOCKED = Backwards()


class Elementwise(Kernel):
    """Computes on flat views, whatever the layout."""

    name = "test:elementwise"
    layouts = KernelLayouts(inputs=(BLOCKED,), outputs=(BLOCKED,))

    def __init__(self, request, function):
        self.request, self.function = request, function

    def bind(self, arrays, resources):
        spec = dataclasses.replace(self.request.inputs[0], layout=BLOCKED)
        x, y = view(arrays.inputs[0], spec), view(arrays.outputs[0], spec)
        return lambda: self.function(x, out=y)


class SquareBackward(Kernel):
    """Takes every array backwards and reads only the input."""

    name = "test:square_backward"
    layouts = KernelLayouts(inputs=(BLOCKED,), out_grads=(BLOCKED,), in_grads=(BLOCKED,))
    backward_inputs = (0,)

    def __init__(self, request):
        self.spec = dataclasses.replace(request.inputs[0], layout=BLOCKED)

    def bind(self, arrays, resources):
        x = view(arrays.inputs[0], self.spec)
        dy, dx = view(arrays.out_grads[0], self.spec), view(arrays.in_grads[0], self.spec)

        def call():
            slope = resources.scratch(x.shape, FLOAT)
            np.multiply(x, 2, out=slope)
            np.multiply(slope, dy, out=dx)

        return call


def of_squares(prepare):
    """Return a kernel factory for the operator ``square`` alone."""
    return lambda request: prepare(request) if request.operator.names[0] == "square" else None


@pytest.fixture
def table():
    found = KernelTable()
    functions = {"square": np.square, "negative": np.negative}

    def elementwise(request):
        function = functions.get(request.operator.names[0])
        return None if function is None else Elementwise(request, function)

    found.register("numpy", POINTWISE, elementwise, of_squares(SquareBackward))
    return found


def reorders(compiled):
    return [step.node for step in compiled.program.steps if isinstance(step.op, Reorder)]


def compile_with(net, table, heads, requests=None, **kw):
    options = CompileOptions(table=table)
    return net.compile(heads, requests, options=options, is_train=bool(requests), **kw)


def test_a_layout_is_kept_from_kernel_to_kernel(net, table):
    head = net.op("negative", "n", net.op("square", "s", net.var("x")))
    assert reorders(compile_with(net, table, head, x=(3,))) == ["x", "n_output"]


def test_a_reference_between_kernels_gets_plain_data(net, table):
    middle = net.op("exp", "e", net.op("square", "s", net.var("x")))
    compiled = compile_with(net, table, net.op("negative", "n", middle), x=(3,))
    assert reorders(compiled) == ["x", "s_output", "e_output", "n_output"]


def test_a_tensor_is_reordered_once_for_all_its_readers(net, table):
    x = net.var("x")
    both = [net.op("negative", "n", x), net.op("square", "s", x)]
    assert reorders(compile_with(net, table, both, x=(3,))).count("x") == 1


def test_a_view_of_a_blocked_tensor_is_plain(net, table):
    squared = net.op("square", "s", net.var("x"))
    head = net.op("exp", "e", net.op("_copy", "c", squared))
    exe = net.bind_with(head, CompileOptions(table=table), x=(3,))
    exe.arg_dict["x"].dense_for_write()[...] = [1, 2, 3]
    np.testing.assert_allclose(exe.forward()[0].dense(), np.exp([1, 4, 9]), rtol=1e-6)


def test_results_match_the_references(net, table):
    x, w = net.var("x"), net.var("w")
    squared = net.op("square", "s", net.op("elemwise_mul", "m", x, w))
    heads = [net.op("negative", "n", squared), net.op("square", "s2", squared)]
    results = []
    for options in (CompileOptions(table=table), CompileOptions(table=None, plan=False)):
        exe = net.bind_with(heads, options, x=(2, 3), w=(2, 3))
        net.fill(exe)
        found = [out.dense().copy() for out in exe.forward(is_train=True)]
        exe.backward([net.array(np.full((2, 3), 2.0))] * 2)
        results.append(found + [gradient.dense() for gradient in exe.grad_arrays])
    for got, expected in zip(*results, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_the_memory_plan_uses_blocked_sizes(net, table):
    head = net.op("negative", "n", net.op("square", "s", net.var("x")))
    compiled = compile_with(net, table, head, x=(16,))
    sizes = {life.nbytes for life in compiled.lives.values()}
    assert sizes == {16 * 4 + 64}


def test_a_kernel_declares_what_its_backward_reads(net):
    class Wasteful(SquareBackward):
        layouts = KernelLayouts()
        backward_inputs = ()
        backward_outputs = (0,)

        def bind(self, arrays, resources):
            assert arrays.inputs[0] is None
            root, dy, dx = arrays.outputs[0], arrays.out_grads[0], arrays.in_grads[0]
            return lambda: np.copyto(dx, 2 * np.sqrt(root) * dy)

    table = KernelTable()
    table.register("numpy", POINTWISE, backward=Wasteful)
    exe = net.bind_with(net.op("square", "s", net.var("x")), CompileOptions(table=table), x=(2,))
    exe.forward(is_train=True, x=np.array([2, 3], np.float32))
    exe.backward(net.array([1, 1]))
    np.testing.assert_allclose(exe.grad_dict["x"].dense(), [4, 6], rtol=1e-6)


def test_a_workspace_is_passed_from_forward_to_backward(net):
    class Forward(Kernel):
        workspace_bytes = 12

        def __init__(self, request):
            pass

        def bind(self, arrays, resources):
            kept = arrays.workspace.view(FLOAT)

            def call():
                kept[...] = arrays.inputs[0]
                np.square(kept, out=arrays.outputs[0])

            return call

    class Backward(Kernel):
        backward_inputs = ()

        def bind(self, arrays, resources):
            kept = arrays.workspace.view(FLOAT)
            return lambda: np.copyto(arrays.in_grads[0], 2 * kept * arrays.out_grads[0])

    table = KernelTable()
    table.register(
        "numpy",
        POINTWISE,
        of_squares(lambda request: Forward(request) if request.is_train else None),
        of_squares(lambda request: Backward() if isinstance(request.forward, Forward) else None),
    )
    x = net.var("x")
    head = net.op("square", "s", net.op("negative", "n", x))
    exe = net.bind_with(head, CompileOptions(table=table), x=(3,))
    exe.forward(is_train=True, x=np.array([1, 2, 3], np.float32))
    exe.backward(net.array([1, 1, 1]))
    np.testing.assert_array_equal(exe.grad_dict["x"].dense(), [2, 4, 6])
    assert exe.forward()[0].dense().tolist() == [1, 4, 9]


# -- weights whose changes are tracked by version -------------------------------------------


class Transposed(Kernel):
    """A fully connected layer that wants its weight backwards; it counts reorders."""

    name = "test:fully_connected"
    layouts = KernelLayouts(inputs=(None, BLOCKED), outputs=(None,))

    def __init__(self, request):
        assert request.is_constant == (False, True)
        self.spec = dataclasses.replace(request.inputs[1], layout=BLOCKED)

    def bind(self, arrays, resources):
        assert isinstance(resources.versions[1], Version)
        weight = view(arrays.inputs[1], self.spec)
        shape = self.spec.shape
        return lambda: np.matmul(arrays.inputs[0], weight.reshape(shape).T, out=arrays.outputs[0])


def test_a_weight_is_reordered_again_only_when_its_version_changes(net):
    table = KernelTable()
    table.register("numpy", FULLY_CONNECTED, Transposed)
    x, w = net.var("x"), net.var("w")
    head = net.op("FullyConnected", "fc", x, w, num_hidden=2, no_bias=True)
    raw = np.ones((2, 3), np.float32)
    weight = NDArray(raw, cpu(), version=Version())
    exe = bind(
        net.symbol(head),
        cpu(),
        {"x": net.array(np.ones((1, 3))), "w": weight},
        options=CompileOptions(table=table),
    )
    assert exe.forward()[0].dense().tolist() == [[3, 3]]
    raw[...] = 2
    assert exe.forward()[0].dense().tolist() == [[3, 3]], "a change without a version is not seen"
    weight.version.bump()
    assert exe.forward()[0].dense().tolist() == [[6, 6]]
    exe.copy_params_from({"w": net.array(np.full((2, 3), 5))})
    assert exe.forward()[0].dense().tolist() == [[15, 15]]
    exe.forward(w=np.zeros((2, 3), np.float32))
    assert exe.outputs[0].dense().tolist() == [[0, 0]]


def test_a_cached_weight_is_shared_by_executors_of_one_arena(net):
    table = KernelTable()
    table.register("numpy", FULLY_CONNECTED, Transposed)
    x, w = net.var("x"), net.var("w")
    head = net.op("FullyConnected", "fc", x, w, num_hidden=2, no_bias=True)
    weight = NDArray(np.ones((2, 3), np.float32), cpu(), version=Version())
    first = None
    cached = []
    for rows in (4, 2):
        first = bind(
            net.symbol(head),
            cpu(),
            {"x": net.array(np.ones((rows, 3))), "w": weight},
            shared_exec=first,
            options=CompileOptions(table=table),
        )
        cached.append(first.arena.cached((weight.version,), BLOCKED, 24 + 64))
    assert cached[0] is cached[1]


# -- fallbacks and the check mode -----------------------------------------------------------


def test_an_unavailable_kernel_falls_back_to_the_reference(net, caplog):
    def unavailable(request):
        raise KernelUnavailable("out of primitives")

    table = KernelTable()
    table.register("numpy", POINTWISE, unavailable)
    with caplog.at_level(logging.WARNING):
        compiled = compile_with(net, table, net.op("square", "s", net.var("x")), x=(2,))
    assert compiled.program.steps[0].kernel is None
    assert "kernel for square is unavailable, trying the next: out of primitives" in caplog.text


def test_the_last_registered_kernel_comes_first_and_can_be_unregistered(net, table):
    def never(request):
        return None

    head = net.op("square", "s", net.var("x"))
    table.register("numpy", POINTWISE, never)
    assert reorders(compile_with(net, table, head, x=(2,)))

    class Plain(Kernel):
        pass

    def plain(request):
        return Plain()

    table.register("numpy", POINTWISE, plain)
    assert isinstance(compile_with(net, table, head, x=(2,)).program.steps[0].kernel, Plain)
    table.unregister("numpy", POINTWISE, plain)
    assert reorders(compile_with(net, table, head, x=(2,)))


def test_kernels_of_another_backend_are_not_used(net):
    table = KernelTable()
    table.register("cupy", POINTWISE, lambda request: Kernel())
    compiled = compile_with(net, table, net.op("square", "s", net.var("x")), x=(2,))
    assert compiled.program.steps[0].kernel is None


def test_check_mode_accepts_correct_kernels(net, table):
    options = CompileOptions(table=table, check_kernels=True)
    head = net.op("square", "s2", net.op("square", "s", net.var("x")))
    exe = net.bind_with(head, options, x=(3,))
    exe.forward(is_train=True, x=np.array([1, 2, 3], np.float32))
    exe.backward(net.array([1, 1, 1]))
    np.testing.assert_allclose(exe.grad_dict["x"].dense(), [4, 32, 108])


def test_check_mode_finds_a_wrong_output(net):
    table = KernelTable()
    table.register("numpy", POINTWISE, lambda request: Elementwise(request, np.negative))
    options = CompileOptions(table=table, check_kernels=True)
    exe = net.bind_with(net.op("square", "s", net.var("x")), options, x=(3,))
    with pytest.raises(KernelMismatch, match=r"test:elementwise of square 's': output 0 deviates"):
        exe.forward(x=np.array([1, 2, 3], np.float32))


def test_check_mode_finds_a_wrong_gradient_and_nan(net):
    class Wrong(SquareBackward):
        layouts = KernelLayouts()

        def bind(self, arrays, resources):
            return lambda: arrays.in_grads[0].fill(np.nan)

    table = KernelTable()
    table.register("numpy", POINTWISE, backward=Wrong)
    options = CompileOptions(table=table, check_kernels=True)
    exe = net.bind_with(net.op("square", "s", net.var("x")), options, x=(3,))
    exe.forward(is_train=True, x=np.array([1, 2, 3], np.float32))
    with pytest.raises(KernelMismatch, match="gradient of input 0 deviates"):
        exe.backward(net.array([1, 1, 1]))


def test_an_environment_variable_turns_check_mode_on(net, monkeypatch):
    def wrong(request):
        return Elementwise(request, np.negative)

    kernels.register("numpy", POINTWISE, wrong)
    try:
        monkeypatch.setattr(
            "core.executor.executor.config", read_config({"CORE_CHECK_KERNELS": "1"})
        )
        exe = net.bind(net.op("square", "s", net.var("x")), grad_req="null", x=(3,))
        with pytest.raises(KernelMismatch):
            exe.forward(x=np.array([1, 2, 3], np.float32))
    finally:
        kernels.unregister("numpy", POINTWISE, wrong)


def test_reordered_weights_are_kept_outside_the_arena(net):
    table = KernelTable()
    table.register("numpy", FULLY_CONNECTED, Transposed)
    x, w = net.var("x"), net.var("w")
    head = net.op("FullyConnected", "fc", x, w, num_hidden=2, no_bias=True)
    exe = bind(
        net.symbol(head),
        cpu(),
        {
            "x": net.array(np.ones((1, 3))),
            "w": NDArray(np.ones((2, 3), np.float32), cpu(), version=Version()),
        },
        options=CompileOptions(table=table),
    )
    assert f"in {Place.CACHE.value}[1]" in exe.debug_str()
    assert exe.memory_report().arena == 0
