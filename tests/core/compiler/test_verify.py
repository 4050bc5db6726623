"""The verifier finds faults injected into valid programs."""

import dataclasses

import pytest

from core.compiler.compile import CompileOptions
from core.compiler.ir import Place, Step
from core.compiler.memory import Lifetime, MemoryPlan, lifetimes, plan_memory
from core.compiler.primitives import ConcatInPlace
from core.compiler.verify import InvalidPlan, verify_memory, verify_program
from core.types import to_dtype

UNPLANNED = CompileOptions(plan=False, rewrite=False, table=None)


@pytest.fixture
def program(net):
    """Return square -> exp -> mul of both, with gradients and no shared memory."""
    squared = net.op("square", "sq", net.var("x"))
    product = net.op("elemwise_mul", "m", net.op("exp", "e", squared), squared)
    found = net.compile(product, {0: "write"}, options=UNPLANNED, x=(4,)).program
    verify_program(found, {0: "write"}, after="test", operators=True)
    return found


def fails(program, match, requests=None):
    with pytest.raises(InvalidPlan, match=match):
        verify_program(program, requests or {0: "write"}, after="test", operators=True)


def test_steps_out_of_order_are_found(program):
    program.steps[0], program.steps[1] = program.steps[1], program.steps[0]
    fails(program, r"exp 'e' reads value \d+ 'sq_output' before it is written")


def test_a_missing_step_is_found(program):
    del program.steps[1]
    program.forward_length -= 1
    fails(program, "'e_output' before it is written")


def test_a_value_written_twice_is_found(program):
    step = program.steps[0]
    program.steps.insert(1, dataclasses.replace(step))
    program.forward_length += 1
    fails(program, r"square 'sq' writes .* a second time")


def test_a_value_overwritten_while_still_read_is_found(program):
    squared, exponential = program.steps[0].outputs[0], program.steps[1].outputs[0]
    program.values[exponential].base = squared
    fails(program, "'sq_output', which value .* 'e_output' has overwritten")


def test_a_backward_step_in_the_forward_pass_is_found(program):
    program.forward_length += 1
    fails(program, "stands in the forward pass")


def test_a_missing_gradient_is_found(program):
    program.gradients.clear()
    fails(program, "gradient of argument 0 is missing")


def test_a_gradient_in_the_wrong_place_is_found(program):
    program.values[program.memory(program.gradients[0]).id].place = Place.ARENA
    fails(program, "is not in its array")


def test_a_gradient_overwritten_at_the_end_is_found(program):
    gradient = program.memory(program.gradients[0])
    extra = program.new_value("extra", gradient.shape, gradient.dtype)
    extra.base = gradient.id
    program.steps.append(dataclasses.replace(program.steps[0], outputs=(extra.id,)))
    fails(program, "not in its array at the end")


def test_an_output_in_planned_memory_is_found(program):
    program.values[program.outputs[0]].place = Place.ARENA
    fails(program, "output .* lies in planned memory")


def test_an_overwritten_output_is_found(program):
    output = program.values[program.outputs[0]]
    extra = program.new_value("extra", output.shape, output.dtype)
    extra.base = output.id
    program.steps.append(dataclasses.replace(program.steps[0], outputs=(extra.id,)))
    fails(program, "is not there at the end")


def test_a_wrong_shape_is_found(program):
    program.values[program.steps[1].outputs[0]].shape = (2, 2)
    with pytest.raises(ValueError, match="output has shape"):
        verify_program(program, {0: "write"}, after="test", operators=True)


def test_a_gradient_of_another_dtype_is_found(program):
    gradient = next(g for g in program.steps[-1].in_grads if g is not None)
    program.values[gradient].dtype = to_dtype("float64")
    fails(program, "float64 for .* float32")


def test_a_view_of_another_size_is_found(program):
    view = program.new_view(program.outputs[0], program.values[0], "view")
    view.shape = (5,)
    fails(program, "cannot be a view")


def test_a_layout_without_a_kernel_is_found(program):
    class Blocked:
        is_rounded = False

        def nbytes(self, shape, dtype):
            return 16

    program.values[program.steps[0].outputs[0]].layout = Blocked()
    fails(program, "in a layout, but has no kernel")


def test_valid_memory_passes_and_overlap_is_found(program):
    lives = lifetimes(program)
    plan = plan_memory(lives)
    verify_memory(lives, plan)
    everywhere_zero = dataclasses.replace(plan, offsets=dict.fromkeys(plan.offsets, 0))
    with pytest.raises(InvalidPlan, match="overlap"):
        verify_memory(lives, everywhere_zero)


@pytest.mark.parametrize("offset", [-64, 32, 128])
def test_an_address_outside_or_unaligned_is_found(offset):
    lives = {0: Lifetime(0, 1, 64)}
    with pytest.raises(InvalidPlan, match="outside or unaligned"):
        verify_memory(lives, MemoryPlan({0: offset}, 128, 64, 64))


def test_a_value_without_an_address_is_found():
    with pytest.raises(InvalidPlan, match="value 0"):
        verify_memory({0: Lifetime(0, 1, 64)}, MemoryPlan({}, 0, 0, 0))


@pytest.fixture
def joined(net):
    """Return squares of two inputs written side by side, and exp of the whole."""
    parts = [net.op("square", name, net.var(f"{name}_data")) for name in ("left", "right")]
    whole = net.op("exp", "e", net.op("Concat", "both", *parts, num_args=2, dim=0))
    found = net.compile(
        whole, is_train=False, options=UNPLANNED, left_data=(2, 16), right_data=(2, 16)
    ).program
    left, right, concat, _ = found.steps
    (out,) = concat.outputs
    for step, begin in ((left, 0), (right, 128)):
        value = found.values[step.outputs[0]]
        value.base, value.part = out, begin
    found.steps[2] = Step(ConcatInPlace(), concat.node, concat.inputs, concat.outputs)
    verify_program(found, {}, after="test")
    return found


def test_parts_in_the_wrong_place_are_found(joined):
    for step, begin in zip(joined.steps[:2], (128, 0), strict=True):
        joined.values[step.outputs[0]].part = begin
    fails(joined, "at offset 0, got 128", {})


def test_a_part_beyond_the_end_of_the_whole_is_found(joined):
    joined.values[joined.steps[1].outputs[0]].part = 192
    fails(joined, "writes .* at 192 of", {})


def test_a_part_overwritten_by_another_is_found(joined):
    right = joined.steps[1]
    joined.values[right.outputs[0]].part = 0
    fails(joined, "which value .* has overwritten", {})


def test_a_part_overwritten_before_the_whole_is_read_is_found(joined):
    left = joined.steps[0]
    extra = joined.new_value("extra", (2, 16), to_dtype("float32"))
    extra.base = left.outputs[0]
    joined.steps.insert(3, dataclasses.replace(left, outputs=(extra.id,)))
    joined.forward_length += 1
    fails(joined, "'both_output', which value .* 'extra' has overwritten", {})
