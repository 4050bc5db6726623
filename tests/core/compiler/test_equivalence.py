"""Random graphs: memory planning changes no bit of the results, and gradients are derivatives."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from core.compiler.compile import CompileOptions

SHAPE = (4, 4)
UNARY = ("exp", "tanh", "sigmoid", "square", "_copy", "negative", "sin")
BINARY = ("elemwise_add", "elemwise_sub", "elemwise_mul")


@st.composite
def graphs(draw, unary=UNARY):
    """Return a list of (operator, indices of its inputs); entries 0 to 2 are variables."""
    steps = []
    for position in range(draw(st.integers(1, 12))):
        count = position + 3
        index = st.integers(max(0, count - 6), count - 1)
        if draw(st.booleans()):
            steps.append((draw(st.sampled_from(unary)), [draw(index)]))
        else:
            steps.append(
                (
                    draw(st.sampled_from((*BINARY, "FullyConnected"))),
                    [draw(index)] * 2
                    if draw(st.integers(0, 4)) == 0
                    else [draw(index), draw(index)],
                )
            )
    heads = draw(st.lists(st.integers(3, len(steps) + 2), min_size=1, max_size=3))
    return steps, heads


def build(net, graph):
    steps, heads = graph
    entries = [net.var(name) for name in "abc"]
    for position, (op, inputs) in enumerate(steps):
        attributes = {"num_hidden": 4, "no_bias": True} if op == "FullyConnected" else {}
        # Halving keeps values in range however deep the graph is.
        value = net.op(op, f"n{position}", *(entries[i] for i in inputs), **attributes)
        entries.append(net.op("tanh", f"t{position}", value) if op != "_copy" else value)
    return [entries[head] for head in heads]


def run(net, heads, options, grad_req="write", dtype="float32"):
    shapes = {name: SHAPE for name in "abc"}
    exe = net.bind_with(heads, options, grad_req, dtype, **shapes)
    net.fill(exe)
    results = []
    for is_train in (True, False, True):
        results += [out.dense().copy() for out in exe.forward(is_train=is_train)]
    exe.backward([net.array(np.full(SHAPE, 0.5 + i), dtype) for i in range(len(heads))])
    return results, [gradient.dense().copy() for gradient in exe.grad_arrays], exe


@settings(max_examples=150, deadline=None)
@given(
    graph=graphs(unary=(*UNARY, "BlockGrad", "make_loss")),
    request=st.sampled_from(["write", "add"]),
)
def test_planned_equals_unplanned(net, graph, request):
    heads = build(net, graph)
    planned = run(net, heads, CompileOptions(), request)
    plain = run(net, heads, CompileOptions(plan=False, rewrite=False), request)
    for got, expected in zip(planned[0] + planned[1], plain[0] + plain[1], strict=True):
        np.testing.assert_array_equal(got, expected)


@settings(max_examples=60, deadline=None)
@given(graph=graphs())
def test_gradient_is_the_directional_derivative(net, graph):
    heads = build(net, graph)
    _, gradients, exe = run(net, heads, CompileOptions(), dtype="float64")
    random = np.random.default_rng(1)
    directions = [random.normal(size=SHAPE) for _ in exe.arg_arrays]
    start = [array.dense().copy() for array in exe.arg_arrays]
    step = 1e-5
    sums = []
    for sign in (1, -1):
        for array, origin, direction in zip(exe.arg_arrays, start, directions, strict=True):
            array.dense_for_write()[...] = origin + sign * step * direction
        outputs = exe.forward(is_train=False)
        sums.append(sum((0.5 + i) * out.dense().sum() for i, out in enumerate(outputs)))
    expected = sum(np.vdot(g, d) for g, d in zip(gradients, directions, strict=True))
    np.testing.assert_allclose((sums[0] - sums[1]) / (2 * step), expected, rtol=1e-5, atol=1e-6)
