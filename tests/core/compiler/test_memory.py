"""Memory plans: properties for random lifetimes, and when steps may overwrite their inputs."""

from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from core.compiler.ir import Place
from core.compiler.memory import ALIGNMENT, Lifetime, aligned, plan_memory

lifetimes = st.dictionaries(
    st.integers(0, 1000),
    st.builds(
        lambda start, length, nbytes: Lifetime(start, start + length, nbytes),
        st.integers(0, 30),
        st.integers(0, 12),
        st.integers(0, 5000),
    ),
    max_size=40,
)


@given(lifetimes)
def test_values_alive_together_never_overlap(lives):
    plan = plan_memory(lives)
    assert plan.offsets.keys() == lives.keys()
    for a, b in combinations(lives, 2):
        if lives[a].start <= lives[b].stop and lives[b].start <= lives[a].stop:
            first, second = sorted((a, b), key=lambda v: (plan.offsets[v], lives[v].nbytes))
            assert plan.offsets[first] + lives[first].nbytes <= plan.offsets[second]


@given(lifetimes)
def test_arena_size_is_between_peak_and_total(lives):
    plan = plan_memory(lives)
    sizes = {v: aligned(life.nbytes) for v, life in lives.items()}
    live = [
        sum(sizes[v] for v, life in lives.items() if life.start <= now <= life.stop)
        for now in range(50)
    ]
    assert plan.peak_live == max(live)
    assert plan.unshared == sum(sizes.values())
    assert plan.peak_live <= plan.nbytes <= plan.unshared


@given(lifetimes)
def test_every_value_is_aligned_and_within_the_arena(lives):
    plan = plan_memory(lives)
    for value, offset in plan.offsets.items():
        assert offset % ALIGNMENT == 0
        assert 0 <= offset <= plan.nbytes - lives[value].nbytes


def test_a_chain_of_equal_values_needs_two_blocks(net):
    lives = {i: Lifetime(i, i + 1, 640) for i in range(100)}
    assert plan_memory(lives).nbytes == 2 * 640


def test_a_free_last_block_grows_instead_of_adding_one():
    lives = {0: Lifetime(0, 5, 64), 1: Lifetime(0, 0, 64), 2: Lifetime(1, 2, 640)}
    assert plan_memory(lives).nbytes == 64 + 640


def test_an_elementwise_chain_runs_in_its_outputs_memory(net):
    value = net.var("x")
    for i in range(5):
        value = net.op("exp", f"e{i}", value)
    compiled = net.compile(value, is_train=False, x=(8,))
    assert compiled.memory.nbytes == 0
    for output in compiled.program.steps[1].writes():
        assert compiled.program.memory(output).place is Place.OUTPUT


def test_arguments_are_never_overwritten(net):
    exe = net.bind(net.op("exp", "e", net.var("x")), grad_req="null", x=(4,))
    exe.forward(x=np.ones(4, np.float32))
    np.testing.assert_array_equal(exe.arg_dict["x"].dense(), np.ones(4))


def test_a_value_read_later_is_not_overwritten(net):
    squared = net.op("square", "sq", net.op("exp", "e", net.var("x")))
    both = net.op("elemwise_mul", "m", net.op("negative", "n", squared), squared)
    exe = net.bind(both, grad_req="null", x=(4,))
    (out,) = exe.forward(x=np.zeros(4, np.float32))
    np.testing.assert_array_equal(out.dense(), -np.ones(4))


def test_a_step_that_reads_a_value_twice_does_not_overwrite_it(net):
    squared = net.op("square", "sq", net.var("x"))
    compiled = net.compile(
        net.op("exp", "e", net.op("elemwise_mul", "m", squared, squared)), is_train=False, x=(4,)
    )
    first, second, _ = compiled.program.steps
    memory = compiled.program.memory
    assert memory(first.outputs[0]).id != memory(second.outputs[0]).id


def test_output_survives_later_steps(net):
    squared = net.op("square", "sq", net.var("x"))
    exe = net.bind([squared, net.op("negative", "n", squared)], grad_req="null", x=(2,))
    first, second = exe.forward(x=np.array([2, 3], np.float32))
    np.testing.assert_array_equal(first.dense(), [4, 9])
    np.testing.assert_array_equal(second.dense(), [-4, -9])


def test_training_keeps_values_that_backward_reads(net):
    chain = net.op("square", "outer", net.op("square", "inner", net.var("x")))
    exe = net.bind(chain, x=(2,))
    exe.arg_dict["x"].dense_for_write()[...] = [2, 3]
    exe.forward(is_train=True)
    exe.backward(net.array([1, 1]))
    np.testing.assert_array_equal(exe.grad_dict["x"].dense(), [32, 108])


def test_inference_needs_less_memory_than_training(net):
    value = net.var("x")
    for i in range(10):
        value = net.op(
            "FullyConnected", f"fc{i}", value, net.var(f"w{i}"), no_bias=True, num_hidden=64
        )
    exe = net.bind(net.op("make_loss", "loss", value), x=(32, 64))
    exe.forward()
    plans = exe.memory_report().plans
    assert plans["inference"].arena == 2 * 32 * 64 * 4
    assert plans["training"].arena >= 10 * 32 * 64 * 4
    assert exe.memory_report().arena == plans["training"].arena
