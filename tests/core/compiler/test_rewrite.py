"""Steps that plans leave out."""

import numpy as np
import pytest

from core.device import cpu
from core.executor import bind
from core.ndarray import NDArray
from core.ops import Operator, Reads


class DropsInTraining(Operator):
    """Zeros in training, the input in inference; has a hidden output, like Dropout."""

    names = ("_test_drop",)

    def output_names(self):
        return ("output", "mask")

    def visible_outputs(self):
        return 1

    def backward_reads(self):
        return Reads(outputs=(1,))

    def is_identity(self, is_train):
        return not is_train

    def forward(self, run, inputs, outputs):
        outputs[1][...] = 0 if run.is_train else 1
        run.xp.multiply(inputs[0], outputs[1], out=outputs[0])

    def backward(self, run, out_grads, inputs, outputs, in_grads):
        run.xp.multiply(out_grads[0], outputs[1], out=in_grads[0])


def names(compiled):
    return [step.node for step in compiled.program.steps]


def dropped(net):
    squared = net.op("square", "sq", net.var("x"))
    return net.op("exp", "e", net.op(DropsInTraining(), "drop", squared))


def test_an_identity_in_the_current_mode_is_left_out(net):
    assert names(net.compile(dropped(net), is_train=False, x=(2,))) == ["sq", "e"]
    assert names(net.compile(dropped(net), is_train=True, x=(2,))) == ["sq", "drop", "e"]


def test_each_mode_computes_its_own_result(net):
    exe = net.bind(dropped(net), x=(2,))
    exe.arg_dict["x"].dense_for_write()[...] = [1, 2]
    np.testing.assert_allclose(exe.forward()[0].dense(), np.exp([1, 4]), rtol=1e-6)
    np.testing.assert_array_equal(exe.forward(is_train=True)[0].dense(), [1, 1])
    np.testing.assert_allclose(exe.forward()[0].dense(), np.exp([1, 4]), rtol=1e-6)


@pytest.mark.parametrize("is_train", [True, False])
def test_an_output_that_copies_a_computed_value_costs_no_step(net, is_train):
    head = net.op("_copy", "c", net.op("square", "sq", net.var("x")))
    assert names(net.compile(head, is_train=is_train, x=(2,))) == ["sq"]
    exe = net.bind(head, x=(2,))
    np.testing.assert_array_equal(
        exe.forward(is_train, x=np.full(2, 3, np.float32))[0].dense(), [9, 9]
    )


def test_an_output_that_copies_an_argument_is_a_copy(net):
    # As in MXNet: changing the argument afterwards leaves the output as it was.
    exe = net.bind(net.op("_copy", "c", net.var("x")), x=(2,))
    (out,) = exe.forward(x=np.full(2, 3, np.float32))
    exe.arg_dict["x"].dense_for_write()[...] = 8
    np.testing.assert_array_equal(out.dense(), [3, 3])


def test_two_outputs_never_share_memory(net):
    squared = net.op("square", "sq", net.var("x"))
    exe = net.bind([squared, net.op("_copy", "c", squared)], x=(2,))
    first, second = exe.forward(x=np.full(2, 3, np.float32))
    first.dense_for_write()[...] = 0
    np.testing.assert_array_equal(second.dense(), [9, 9])


def test_a_reshaped_strided_argument_is_copied(net):
    strided = np.arange(6, dtype=np.float32).reshape(3, 2).T
    head = net.op("exp", "e", net.op("_copy", "c", net.var("x")))
    exe = bind(net.symbol(head), cpu(), [NDArray(strided, cpu())])
    np.testing.assert_allclose(exe.forward()[0].dense(), np.exp(strided), rtol=1e-6)


@pytest.mark.parametrize(
    ("shape", "expected"), [((2, 3), "elemwise_add"), ((1, 3), "broadcast_add")]
)
def test_a_broadcast_of_equal_shapes_becomes_elementwise(net, shape, expected):
    total = net.op("broadcast_add", "sum", net.var("x"), net.var("y"))
    program = net.compile(total, x=(2, 3), y=shape).program
    assert [step.op.names[0] for step in program.steps] == [expected]
    exe = net.bind(total, x=(2, 3), y=shape)
    exe.arg_dict["x"].dense_for_write()[...] = [[1, 2, 3], [4, 5, 6]]
    exe.arg_dict["y"].dense_for_write()[...] = 10
    np.testing.assert_array_equal(
        exe.forward(is_train=True)[0].dense(), [[11, 12, 13], [14, 15, 16]]
    )
    exe.backward([NDArray(np.full((2, 3), 2, np.float32), cpu())])
    np.testing.assert_array_equal(
        exe.grad_dict["y"].dense(), np.full(shape, 2 if shape[0] > 1 else 4)
    )
