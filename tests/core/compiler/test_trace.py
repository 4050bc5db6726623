"""From graph to forward pass: order of variables, indices of outputs, auxiliary states."""

import core.symbol as sym
from core.compiler.compile import compile_graph
from core.compiler.ir import Place
from core.compiler.trace import Graph, specs_of
from core.graph.infer import infer_graph


def test_arguments_and_auxiliary_states_in_the_symbols_order():
    net = sym.BatchNorm(sym.FullyConnected(sym.Variable("x"), num_hidden=2, name="fc"), name="bn")
    net = net + sym.Variable("offset")
    graph = Graph.of(net.heads)
    assert [node.name for node in graph.arguments] == net.list_arguments()
    assert [node.name for node in graph.auxiliaries] == net.list_auxiliary_states()


def test_values_of_arguments_come_first(net):
    x, w = net.var("x"), net.var("w")
    program = net.compile(net.op("elemwise_mul", "m", w, x), x=(2,)).program
    values = program.values[:2]
    assert [(v.id, v.name, v.place, v.index) for v in values] == [
        (0, "w", Place.ARGUMENT, 0),
        (1, "x", Place.ARGUMENT, 1),
    ]


def test_equal_heads_become_one_output(net):
    squared = net.op("square", "s", net.var("x"))
    program = net.compile([net.op("exp", "e", squared), squared, squared], x=(2,)).program
    assert [program.values[output].index for output in program.outputs] == [0, 1, 1]
    exe = net.bind([squared, squared], x=(2,))
    first, second = exe.forward()
    assert first is second


def test_steps_know_the_states_they_update():
    net = sym.BatchNorm(sym.Variable("x"), fix_gamma=False, name="bn")
    graph = Graph.of(net.heads)
    spec_of = specs_of(infer_graph(graph.heads, {"x": (4, 3)}, {}))
    program = compile_graph(graph, spec_of, {0: "write"}, is_train=True, backend="numpy").program
    names = [program.values[value].name for value in program.steps[0].updates]
    assert names == ["bn_moving_mean", "bn_moving_var"]
