"""Gradient graphs: what is computed, and where and in which order contributions are summed."""

import numpy as np
import pytest

import core as mx
from core.compiler.ir import Place
from core.compiler.primitives import Accumulate, Copy, Zeros
from core.errors import GraphError
from core.ops import Operator, Reads


class Rounding(Operator):
    """An operator without a gradient."""

    names = ("_test_rounding",)

    def forward(self, run, inputs, outputs):
        run.xp.rint(inputs[0], out=outputs[0])


class TwoOutputs(Operator):
    """Doubles and triples its input."""

    names = ("_test_two_outputs",)

    def output_names(self):
        return ("double", "triple")

    def backward_reads(self):
        return Reads()

    def forward(self, run, inputs, outputs):
        run.xp.multiply(inputs[0], 2, out=outputs[0])
        run.xp.multiply(inputs[0], 3, out=outputs[1])

    def backward(self, run, out_grads, inputs, outputs, in_grads):
        in_grads[0][...] = 2 * out_grads[0] + 3 * out_grads[1]


def kinds(compiled):
    program = compiled.program
    return [type(step.op) for step in program.backward_steps]


def test_gradient_of_a_chain_equals_the_product_of_slopes(net):
    x = net.var("x")
    exe = net.bind(net.op("tanh", "outer", net.op("square", "inner", x)), x=(3,))
    exe.arg_dict["x"].dense_for_write()[...] = [0.1, -0.5, 1.0]
    exe.forward(is_train=True)
    exe.backward(net.array([1, 2, 3]))
    values = np.array([0.1, -0.5, 1.0])
    expected = np.array([1, 2, 3]) * (1 - np.tanh(values**2) ** 2) * 2 * values
    np.testing.assert_allclose(exe.grad_dict["x"].dense(), expected, rtol=1e-5)


def test_a_value_used_three_times_gets_the_sum(net):
    x = net.var("x")
    square = net.op("square", "sq", x)
    twice = net.op("elemwise_add", "sum", square, net.op("exp", "exp", square))
    exe = net.bind(net.op("elemwise_mul", "product", twice, square), x=(2,))
    exe.arg_dict["x"].dense_for_write()[...] = [0.5, -1.0]
    exe.forward(is_train=True)
    exe.backward(net.array([1, 1]))
    s = np.array([0.25, 1.0])
    expected = (2 * s + np.exp(s) * (1 + s)) * 2 * np.array([0.5, -1.0])
    np.testing.assert_allclose(exe.grad_dict["x"].dense(), expected, rtol=1e-5)


def test_a_single_contribution_is_written_in_place(net):
    x, w = net.var("x"), net.var("w")
    compiled = net.compile(net.op("elemwise_mul", "m", x, w), {0: "write", 1: "write"}, x=(2,))
    assert Accumulate not in kinds(compiled)
    assert Copy not in kinds(compiled)


def test_several_contributions_are_summed_in_the_arguments_array(net):
    x = net.var("x")
    compiled = net.compile(net.op("elemwise_mul", "m", x, x), {0: "write"}, x=(2,))
    program = compiled.program
    assert kinds(compiled)[-1] is Accumulate
    total = program.steps[-1].outputs[0]
    assert program.memory(total).place is Place.GRADIENT


def test_add_accumulates_over_backward_passes(net):
    x = net.var("x")
    exe = net.bind(net.op("square", "sq", x), grad_req="add", x=(2,))
    exe.arg_dict["x"].dense_for_write()[...] = [3, 4]
    exe.grad_dict["x"].dense_for_write()[...] = 100
    for _ in range(2):
        exe.forward(is_train=True)
        exe.backward(net.array([1, 1]))
    np.testing.assert_array_equal(exe.grad_dict["x"].dense(), [112, 116])


def test_add_with_several_contributions(net):
    x = net.var("x")
    exe = net.bind(net.op("elemwise_mul", "m", x, x), grad_req="add", x=(2,))
    exe.arg_dict["x"].dense_for_write()[...] = [3, 4]
    exe.grad_dict["x"].dense_for_write()[...] = 1
    exe.forward(is_train=True)
    exe.backward(net.array([1, 1]))
    np.testing.assert_array_equal(exe.grad_dict["x"].dense(), [7, 9])


def test_only_requested_gradients_are_computed(net):
    x, w = net.var("x"), net.var("w")
    hidden = net.op("tanh", "t", net.op("square", "sq", x))
    compiled = net.compile(net.op("elemwise_mul", "m", hidden, w), {1: "write"}, x=(2,))
    names = [step.node for step in compiled.program.backward_steps]
    assert names == ["m"]
    assert compiled.program.steps[-1].in_grads[0] is None


def test_without_requests_there_is_no_backward_pass(net):
    compiled = net.compile(net.op("square", "sq", net.var("x")), {}, x=(2,))
    assert len(compiled.program.steps) == compiled.program.forward_length == 1


def test_blocked_gradient_is_zero(net):
    x, w = net.var("x"), net.var("w")
    blocked = net.op("BlockGrad", "block", net.op("square", "sq", x))
    exe = net.bind(net.op("elemwise_mul", "m", blocked, w), x=(2,), w=(2,))
    net.fill(exe)
    exe.grad_dict["x"].dense_for_write()[...] = 7
    exe.forward(is_train=True)
    exe.backward(net.array([1, 1]))
    np.testing.assert_array_equal(exe.grad_dict["x"].dense(), [0, 0])
    np.testing.assert_allclose(exe.grad_dict["w"].dense(), exe.arg_dict["x"].dense() ** 2)


def test_grad_req_add_leaves_an_unreached_gradient_alone(net):
    x, w = net.var("x"), net.var("w")
    exe = net.bind(
        net.op("elemwise_mul", "m", net.op("BlockGrad", "b", x), w), grad_req="add", x=(2,)
    )
    exe.grad_dict["x"].dense_for_write()[...] = 7
    exe.forward(is_train=True)
    exe.backward(net.array([1, 1]))
    np.testing.assert_array_equal(exe.grad_dict["x"].dense(), [7, 7])


def test_a_loss_needs_no_head_gradient_even_behind_block_grad(net):
    # MXNet 1.9.1: BlockGrad(MakeLoss(2x)) gives x the gradient 2.
    x = net.var("x")
    loss = net.op("make_loss", "loss", net.op("_mul_scalar", "twice", x, scalar=2))
    for head in (loss, net.op("BlockGrad", "block", loss)):
        exe = net.bind(head, x=(2,))
        exe.forward(is_train=True)
        exe.backward()
        np.testing.assert_array_equal(exe.grad_dict["x"].dense(), [2, 2])


def test_gradients_into_a_loss_are_not_computed(net):
    x = net.var("x")
    loss = net.op("make_loss", "loss", x)
    compiled = net.compile(net.op("exp", "after", loss), {0: "write"}, x=(2,))
    program = compiled.program
    assert [step.node for step in program.backward_steps] == ["loss"]
    assert program.head_gradients == [None]


def test_an_input_that_does_not_affect_the_output_gets_zero_gradient(net):
    x = net.var("x")
    double = net.op(TwoOutputs(), "two", x)
    compiled = net.compile(double, {0: "write"}, x=(2,))
    assert Zeros in kinds(compiled)
    exe = net.bind(double, x=(2,))
    exe.forward(is_train=True)
    exe.backward(net.array([1, 10]))
    np.testing.assert_array_equal(exe.grad_dict["x"].dense(), [2, 20])


def test_a_head_that_is_a_variable_gets_its_head_gradient(net):
    x = net.var("x")
    exe = net.bind([x, net.op("_mul_scalar", "twice", x, scalar=2), x], x=(2,))
    exe.forward(is_train=True)
    exe.backward([net.array([3, 3]), net.array([1, 1]), net.array([100, 200])])
    np.testing.assert_array_equal(exe.grad_dict["x"].dense(), [105, 205])


def test_an_operator_without_a_gradient_is_named(net):
    x = net.var("x")
    rounded = net.op(Rounding(), "rounded", net.op("square", "sq", x))
    with pytest.raises(GraphError, match=r"_test_rounding 'rounded' has no gradient.*grad_req"):
        net.bind(rounded, x=(2,))
    net.bind(rounded, grad_req="null", x=(2,)).forward()


def test_views_pass_gradients_on_without_copies(net):
    x = net.var("x")
    same = net.op("_copy", "c", net.op("square", "sq", x))
    compiled = net.compile(net.op("exp", "e", same), {0: "write"}, x=(2,))
    assert [step.node for step in compiled.program.steps] == ["sq", "e", "e", "sq"]


def test_operator_that_needs_every_gradient_gets_memory_for_unwanted_ones(net):
    # Concat splits the gradient of its output: where a part begins depends on the parts before it.
    parts = [net.var("a"), net.var("b"), net.var("c")]
    exe = net.bind(
        net.op("Concat", "join", *parts, num_args=3, dim=0),
        grad_req={"b": "write"},
        a=(1,),
        b=(2,),
        c=(3,),
    )
    exe.forward(is_train=True)
    exe.backward(net.array([1, 2, 3, 4, 5, 6]))
    np.testing.assert_array_equal(exe.grad_dict["b"].dense(), [2, 3])
    assert exe.grad_dict["a"] is exe.grad_dict["c"] is None


def layers_of_one_weight(net, count):
    weight, data = net.var("weight"), net.var("data")
    for index in range(count):
        data = net.op("FullyConnected", f"fc{index}", data, weight, num_hidden=3, no_bias=True)
        data = net.op("tanh", f"tanh{index}", data)
    return data


def weight_gradients(compiled):
    return [
        step
        for step in compiled.program.backward_steps
        if step.is_backward
        and step.op.names[0] == "FullyConnected"
        and step.in_grads[1] is not None
    ]


@pytest.mark.parametrize(("count", "products"), [(3, 3), (4, 1), (10, 1)])
def test_a_shared_weight_gets_its_gradient_from_one_product(net, count, products):
    requests = {0: "write", 1: "write"}
    compiled = net.compile(layers_of_one_weight(net, count), requests, data=(2, 3), weight=(3, 3))
    (first, *others) = weight_gradients(compiled)
    assert len(others) == products - 1
    if products == 1:
        rows, columns = compiled.program.values[first.out_grads[0]].shape
        assert (rows, columns) == (2 * count, 3)


@pytest.mark.parametrize("grad_req", ["write", "add"])
def test_a_shared_weights_gradient_is_the_sum_over_its_layers(net, grad_req):
    head = layers_of_one_weight(net, 5)
    random = np.random.RandomState(2)
    data, weight = random.normal(size=(2, 3)), random.normal(size=(3, 3))
    executor = net.bind(head, grad_req, data=(2, 3), weight=(3, 3))
    executor.arg_dict["data"][:] = data
    executor.arg_dict["weight"][:] = weight
    executor.grad_dict["weight"][:] = 1
    executor.forward(is_train=True)
    executor.backward([executor.outputs[0].ones_like()])
    values, expected = [data], np.zeros((3, 3))
    for _ in range(5):
        values.append(np.tanh(values[-1] @ weight.T))
    grad = np.ones((2, 3))
    for before, after in zip(values[-2::-1], values[:0:-1], strict=True):
        grad = grad * (1 - after**2)
        expected += grad.T @ before
        grad = grad @ weight
    got = executor.grad_dict["weight"].asnumpy() - (grad_req == "add")
    np.testing.assert_allclose(got, expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "output", "gradient"),
    [
        # MXNet 1.9.1 computes these,
        ("_plus_scalar", [3.5, 5.5], [3, 3]),
        ("_scatter_minus_scalar", [-1.5, 0.5], [3, 3]),
        # and refuses these gradients: 3 times -2.5 / x**2, and 3 times x / output.
        ("_rdiv_scalar", [2.5, 2.5 / 3], [-7, 0]),
        ("_hypot_scalar", [7.25**0.5, 15.25**0.5], [1, 2]),
    ],
)
def test_gradients_of_integers_combined_with_a_fraction(name, output, gradient) -> None:
    """The output is float64; the gradient has the integers' dtype and is truncated."""
    data = mx.sym.Variable("data", dtype="int32")
    symbol = getattr(mx.sym._internal, name)(data, scalar=2.5, is_int=False)
    executor = symbol.bind(
        mx.cpu(),
        {"data": mx.nd.array([1, 3], dtype="int32")},
        args_grad={"data": mx.nd.zeros(2, dtype="int32")},
    )
    (got,) = executor.forward(is_train=True)
    executor.backward(mx.nd.full(2, 3.0, dtype="float64"))
    assert got.dtype == np.float64
    np.testing.assert_allclose(got.asnumpy(), output, rtol=1e-6)
    assert executor.grad_dict["data"].asnumpy().tolist() == gradient
