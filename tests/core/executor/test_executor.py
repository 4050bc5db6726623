"""The public interface of executors: passes, outputs, gradients, parameters, and calls out of
order."""

import dataclasses
from functools import partial

import numpy as np
import pytest

import core.symbol as sym
from core.device import cpu
from core.errors import KernelError, MXNetError, ShapeError
from core.executor import Executor
from core.kernels.chain import Chain
from core.ndarray import NDArray


def array(values):
    return NDArray(np.array(values, np.float32), cpu())


@pytest.fixture
def layer() -> Executor:
    """Return 2 (x w' + b), bound with gradients for all arguments."""
    net = sym.FullyConnected(sym.Variable("x"), num_hidden=2, name="fc") * 2
    exe = net.simple_bind(cpu(), x=(1, 3))
    exe.copy_params_from({"fc_weight": array([[1, 2, 3], [4, 5, 6]]), "fc_bias": array([1, -1])})
    return exe


def test_forward_copies_arguments_in_and_returns_the_outputs(layer):
    outputs = layer.forward(x=array([[1, 1, 1]]))
    assert outputs is layer.outputs
    np.testing.assert_array_equal(outputs[0].asnumpy(), [[14, 28]])
    layer.forward(x=np.array([[1, 0, 0]], np.float64))
    np.testing.assert_array_equal(outputs[0].asnumpy(), [[4, 6]])


def test_outputs_exist_before_the_first_pass(layer):
    (out,) = layer.outputs
    assert out.shape == (1, 2)
    layer.forward(x=array([[1, 1, 1]]))
    np.testing.assert_array_equal(out.asnumpy(), [[14, 28]])
    layer.forward(is_train=True, x=array([[0, 0, 0]]))
    np.testing.assert_array_equal(out.asnumpy(), [[2, -2]])


@pytest.mark.parametrize(
    "head", [array([[1, 10]]), [array([[1, 10]])], {"_mulscalar0_output": array([[1, 10]])}]
)
def test_backward_takes_head_gradients_in_every_form(layer, head):
    if isinstance(head, dict):
        head = dict(zip(layer.output_dict, head.values(), strict=True))
    layer.forward(is_train=True, x=array([[1, 2, 3]]))
    layer.backward(head)
    grads = {name: gradient.asnumpy().tolist() for name, gradient in layer.grad_dict.items()}
    assert grads == {
        "x": [[82, 104, 126]],
        "fc_weight": [[2, 4, 6], [20, 40, 60]],
        "fc_bias": [2, 20],
    }


def test_forward_backward_does_both(layer):
    (out,) = layer.forward_backward(array([[1, 0]]), x=array([[1, 1, 1]]))
    np.testing.assert_array_equal(out.asnumpy(), [[14, 28]])
    np.testing.assert_array_equal(layer.grad_dict["x"].asnumpy(), [[2, 4, 6]])


def test_an_argument_that_is_also_an_output_is_the_same_array():
    # As in MXNet 1.9.1: writing to either changes both.
    x = sym.Variable("x")
    exe = sym.Group([x, x * 2, sym.Reshape(x, shape=(2, 1))]).simple_bind(cpu(), x=(2,))
    outputs = exe.forward(x=array([5, 5]))
    exe.arg_dict["x"][:] = 7
    assert [out.asnumpy().ravel().tolist() for out in outputs] == [[7, 7], [10, 10], [5, 5]]
    outputs[0][:] = 9
    assert exe.arg_dict["x"].asnumpy().tolist() == [9, 9]


def test_dicts_are_keyed_by_name(layer):
    assert list(layer.arg_dict) == ["x", "fc_weight", "fc_bias"] == list(layer.grad_dict)
    assert layer.aux_dict == {}
    assert len(layer.output_dict) == 1
    assert layer.arg_dict["x"] is layer.arg_arrays[0]


def test_duplicate_names_allow_lists_but_no_dict():
    exe = (sym.Variable("p") + sym.Variable("p")).simple_bind(cpu(), p=(2,))
    assert len(exe.arg_arrays) == 2
    with pytest.raises(ValueError, match="Duplicate names detected"):
        _ = exe.arg_dict


# -- invalid calls ----------------------------------------------------------------------------


def test_an_unknown_argument_is_refused(layer):
    with pytest.raises(TypeError, match="no argument 'fc_wieght'; did you mean 'fc_weight'"):
        layer.forward(fc_wieght=array([[1, 2]]))


def test_an_argument_of_another_shape_is_refused(layer):
    with pytest.raises(ValueError, match=r"'x' is bound with shape \(1, 3\), got \(3,\)"):
        layer.forward(x=array([1, 2, 3]))


def test_an_argument_of_another_type_is_refused(layer):
    with pytest.raises(ValueError, match=r"'x' is list; expected an NDArray or numpy.ndarray"):
        layer.forward(x=[[1, 2, 3]])


def test_backward_without_forward_runs_it_first():
    """MXNet's test_operator calls backward alone for repeat and tile."""
    exe = sym.square(sym.Variable("x")).simple_bind(cpu(), x=(2,))
    exe.arg_dict["x"][:] = array([1, 2])
    exe.backward(array([1, 10]))
    np.testing.assert_array_equal(exe.grad_dict["x"].asnumpy(), [2, 40])
    np.testing.assert_array_equal(exe.outputs[0].asnumpy(), [1, 4])


def test_extra_head_gradients_are_ignored():
    """MXNet's test_operator passes one for each argument of LeakyReLU."""
    exe = sym.square(sym.Variable("x")).simple_bind(cpu(), x=(2,))
    exe.forward(is_train=True, x=np.array([1, 2]))
    exe.backward([array([1, 10]), array([5, 5, 5])])
    np.testing.assert_array_equal(exe.grad_dict["x"].asnumpy(), [2, 40])


def test_simple_bind_ignores_arguments_that_are_not_shapes():
    exe = sym.square(sym.Variable("x")).simple_bind(cpu(), x=(2,), force_rebind=True, mode="clip")
    assert exe.arg_dict["x"].shape == (2,)


def test_backward_after_inference_differentiates_the_inference_pass():
    """MXNet's test_executor and test_symbol call forward() without is_train, then backward."""
    exe = sym.Dropout(sym.square(sym.Variable("x")), p=0.5).simple_bind(cpu(), x=(100,))
    values = np.arange(100, dtype=np.float32)
    exe.forward(is_train=True, x=np.zeros(100, np.float32))
    for _ in range(2):
        exe.forward(x=values)
        exe.backward(array(np.ones(100)))
        np.testing.assert_array_equal(exe.grad_dict["x"].asnumpy(), 2 * values)
        np.testing.assert_array_equal(exe.outputs[0].asnumpy(), values**2)


def _gradients(exe):
    return {name: one.asnumpy() for name, one in exe.grad_dict.items()}


def test_repeated_backward_gives_the_same_gradients():
    """Convolutions reuse memory in the plan and Dropout draws: both must be restored."""
    x = sym.Convolution(sym.Variable("x"), num_filter=4, kernel=(3, 3), name="conv")
    x = sym.Dropout(sym.Activation(x, act_type="relu"), p=0.5)
    x = sym.FullyConnected(x, num_hidden=3, name="fc")
    exe = sym.SoftmaxOutput(x, name="softmax").simple_bind(cpu(), x=(2, 3, 6, 6))
    random = np.random.RandomState(0)
    for one in exe.arg_arrays:
        one[:] = random.rand(*one.shape)
    exe.forward(is_train=True)
    outputs = exe.outputs[0].asnumpy()
    exe.backward()
    first = _gradients(exe)
    exe.forward(is_train=False)  # the backward pass of this one has no Dropout
    exe.backward()
    assert np.abs(_gradients(exe)["fc_weight"] - first["fc_weight"]).max() > 0.01
    exe.forward(is_train=True)
    exe.backward()
    once = _gradients(exe)
    for one in exe.grad_arrays:
        one[:] = 7
    exe.backward()
    for name, gradient in _gradients(exe).items():
        np.testing.assert_array_equal(gradient, once[name], err_msg=name)
    assert outputs.shape == exe.outputs[0].shape


def test_every_backward_updates_the_moving_statistics():
    """As in MXNet, whose BatchNorm updates them in backward."""
    x = sym.BatchNorm(sym.Variable("x"), name="bn", momentum=0.9)
    exe = sym.LinearRegressionOutput(x, name="out").simple_bind(cpu(), x=(4, 2))
    exe.forward(is_train=True, x=np.array([[1, 2], [3, 4], [5, 6], [7, 8]], np.float32))
    for mean in ([0.4, 0.5], [0.76, 0.95]):
        exe.backward()
        np.testing.assert_allclose(exe.aux_dict["bn_moving_mean"].asnumpy(), mean, rtol=1e-6)


def test_after_a_missing_head_gradient_backward_still_works(layer):
    layer.forward(is_train=True)
    for missing in (None, [], [None]):
        with pytest.raises(MXNetError, match="is not a loss function, so backward needs"):
            layer.backward(missing)
    layer.backward(array([[1, 1]]))


@pytest.mark.parametrize(
    ("head", "error", "match"),
    [
        (array([[1, 1, 1]]), ShapeError, r"has shape \(1, 3\), expected \(1, 2\)"),
        ([np.ones((1, 2))], TypeError, "must be NDArrays, got ndarray"),
        ({"nothing": array([[1, 1]])}, ValueError, "'nothing', which is not an output"),
    ],
)
def test_wrong_head_gradients_are_refused(layer, head, error, match):
    layer.forward(is_train=True)
    with pytest.raises(error, match=match):
        layer.backward(head)


def test_a_failing_operator_is_named(layer, monkeypatch):
    (plan,) = layer._plans.values()
    run = plan._forward

    def fail():
        raise FloatingPointError("underflow")

    chains = [Chain(run.calls[0]), Chain(fail)]
    monkeypatch.setattr(plan, "_forward", dataclasses.replace(run, chains=chains))
    with pytest.raises(FloatingPointError) as caught:
        layer.forward(is_train=True)
    (note,) = caught.value.__notes__
    assert note.startswith("while running _mul_scalar '_mulscalar")


# -- gradients of the inference pass ---------------------------------------------------------


def test_backward_in_inference_mode():
    x = sym.Variable("x")
    exe = sym.Dropout(sym.square(x), p=0.5).simple_bind(cpu(), x=(100,))
    exe.forward(is_train=False, x=np.arange(100, dtype=np.float32))
    exe.backward(array(np.ones(100)), is_train=False)
    np.testing.assert_array_equal(exe.grad_dict["x"].asnumpy(), 2 * np.arange(100))


def test_a_training_pass_needs_no_gradients():
    exe = (sym.Variable("x") * 2).simple_bind(cpu(), grad_req="null", x=(2,))
    assert exe.forward(is_train=True, x=array([1, 2]))[0].asnumpy().tolist() == [2, 4]
    exe.backward(array([1, 1]))
    assert exe.grad_arrays == [None]


# -- parameters -----------------------------------------------------------------------------


def test_copy_params_converts_dtypes(layer):
    layer.copy_params_from({"fc_bias": NDArray(np.array([3, 4], np.int32), cpu())})
    assert layer.arg_dict["fc_bias"].asnumpy().tolist() == [3, 4]


def test_copy_params_names_the_extra_one(layer):
    extra = {"fc_bais": array([1, 2])}
    with pytest.raises(ValueError, match=r"'fc_bais' is not among the arguments.*'fc_bias'"):
        layer.copy_params_from(extra)
    with pytest.raises(ValueError, match="auxiliary states"):
        layer.copy_params_from({}, extra)
    layer.copy_params_from(extra, extra, allow_extra_params=True)
    layer.copy_params_from(None)


def test_copy_params_refuses_another_shape(layer):
    with pytest.raises(ShapeError, match=r"'fc_bias' is bound with shape \(2,\), got \(3,\)"):
        layer.copy_params_from({"fc_bias": array([1, 2, 3])})


# -- looking inside ---------------------------------------------------------------------------


def test_debug_str_lists_the_steps(layer):
    text = layer.debug_str()
    assert "training plan: 2 forward and 2 backward steps" in text
    assert "backward of FullyConnected 'fc' by " in text
    assert "writes" in text
    assert "fc_weight_grad (2, 3) float32 in gradient[1]" in text
    assert "bytes in the arena" in text


def test_debug_str_reports_memory_as_mxnet_does():
    """MXNet's test_zero_prop parses this line to check that blocked gradients are not kept."""

    def megabytes(net, **options):
        exe = net.simple_bind(cpu(), data=(10, 3, 256, 256), **options)
        # Scripts for MXNet read the number of megabytes from this line and word.
        return int(exe.debug_str().split("\n")[-3].split()[1])

    net = sym.Variable("data")
    for _ in range(4):
        net = net * net
    trained, inferred = megabytes(net), megabytes(net, grad_req="null")
    assert megabytes(sym.BlockGrad(net)) == inferred < trained


def test_memory_report_counts_bytes(layer):
    layer.forward()
    report = layer.memory_report()
    assert report.arguments == report.gradients == 4 * (3 + 6 + 2)
    assert report.outputs == 64
    assert set(report.plans) == {"training", "inference"}
    assert report.plans["inference"].misses == 0


@pytest.mark.parametrize(("status", "error"), [(1, MemoryError), (2, KernelError)])
def test_an_error_from_a_library_names_its_step(status: int, error: type[Exception]) -> None:
    executor = sym.relu(sym.Variable("x"), name="r").simple_bind(cpu(), x=(2, 2))
    executor.forward()
    plan = executor._last
    plan._forward = dataclasses.replace(plan._forward, chains=[Chain(lambda: status)])
    with pytest.raises(error) as refused:
        executor.forward()
    assert "'r'" in refused.value.__notes__[0]


def test_backward_reruns_a_forward_pass_that_failed() -> None:
    shape = (2, 3)
    fc = sym.FullyConnected(sym.Variable("x"), num_hidden=3, name="fc")
    executor = sym.tanh(fc, name="t").simple_bind(cpu(), x=shape)
    for name, argument in executor.arg_dict.items():
        argument[:] = 0.1 * len(name)
    head = array(np.ones(shape))
    executor.forward(is_train=True)
    executor.backward(head)
    expected = executor.grad_dict["x"].asnumpy().copy()
    executor.grad_dict["x"][:] = 0
    plan = executor._last
    working = plan._forward
    plan._forward = dataclasses.replace(working, chains=[Chain(lambda: 2)])
    for attempt in (partial(executor.forward, is_train=True), partial(executor.backward, head)):
        with pytest.raises(KernelError):
            attempt()
    plan._forward = working
    executor.backward(head)
    np.testing.assert_array_equal(executor.grad_dict["x"].asnumpy(), expected)
