"""Binding: all forms of arguments, gradient requests, shared memory, and invalid calls."""

import numpy as np
import pytest

import core.symbol as sym
from core.attribute import AttrScope
from core.device import cpu, gpu
from core.errors import DeviceError, MXNetError, ShapeError, TypeInferenceError
from core.executor import binding
from core.ndarray import NDArray


def array(values, dtype="float32"):
    return NDArray(np.array(values, dtype), cpu())


def product():
    return sym.Variable("a") * sym.Variable("b")


def norm():
    return sym.BatchNorm(sym.Variable("x"), name="bn")


# -- bind --------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [list, dict, tuple])
def test_arguments_as_list_or_dict(form):
    a, b = array([1, 2]), array([3, 4])
    args = {"b": b, "a": a} if form is dict else form([a, b])
    exe = product().bind(cpu(), args)
    assert exe.forward()[0].asnumpy().tolist() == [3, 8]
    assert exe.arg_arrays == [a, b]
    assert exe.grad_arrays == [None, None]


def test_arrays_are_shared_not_copied():
    a = array([1, 2])
    exe = product().bind(cpu(), [a, a])
    a[:] = 5
    assert exe.forward()[0].asnumpy().tolist() == [25, 25]


@pytest.mark.parametrize("form", [list, dict])
def test_gradients_for_some_arguments(form):
    gradient = array([0, 0])
    given = {"b": gradient} if form is dict else [None, gradient]
    exe = product().bind(cpu(), [array([1, 2]), array([3, 4])], args_grad=given)
    exe.forward(is_train=True)
    exe.backward(array([1, 10]))
    assert gradient.asnumpy().tolist() == [1, 20]
    assert exe.grad_dict == {"a": None, "b": gradient}


@pytest.mark.parametrize(
    ("grad_req", "expected"),
    [
        ("write", ([3, 4], [1, 2])),
        ("add", ([103, 104], [101, 102])),
        ("null", ([100, 100], [100, 100])),
        (["write", "add"], ([3, 4], [101, 102])),
        ({"b": "write"}, ([100, 100], [1, 2])),
    ],
)
def test_gradient_requests_write_add_or_ignore(grad_req, expected):
    grads = [array([100, 100]), array([100, 100])]
    exe = product().bind(cpu(), [array([1, 2]), array([3, 4])], grads, grad_req)
    exe.forward(is_train=True)
    exe.backward(array([1, 1]))
    assert [gradient.asnumpy().tolist() for gradient in grads] == [list(e) for e in expected]


@pytest.mark.parametrize(
    ("args", "error", "match"),
    [
        ({"a": array([1])}, ValueError, "key `b` is missing in `args`.*needs a, b"),
        ({"a": array([1]), "bb": array([1])}, ValueError, "`b` is missing.*did you mean 'bb'"),
        ([array([1])], ValueError, "Length of args does not match.*got 1 for 2"),
        (array([1]), TypeError, "args is NDArray; expected a list or dict"),
        ([np.ones(1), array([1])], TypeError, "args: 'a' is ndarray; expected an NDArray"),
        ([array([1]), None], TypeError, "args: 'b' is NoneType"),
        ([array([1, 2]), array([1, 2, 3])], ShapeError, "elemwise_mul|broadcast_mul|_mul"),
        ([array([1]), array([1], "float64")], TypeInferenceError, "float64"),
    ],
)
def test_wrong_arguments_are_refused(args, error, match):
    with pytest.raises(error, match=match):
        product().bind(cpu(), args)


def test_wrong_gradient_arrays_are_refused():
    args = [array([1]), array([1])]
    with pytest.raises(ShapeError, match=r"args_grad: 'b' has shape \(2,\)"):
        product().bind(cpu(), args, {"b": array([1, 2])})
    with pytest.raises(ShapeError, match="dtype float64"):
        product().bind(cpu(), args, {"b": array([1], "float64")})
    with pytest.raises(ValueError, match="Length of args_grad"):
        product().bind(cpu(), args, [array([1])])


@pytest.mark.parametrize(
    ("grad_req", "match"),
    [
        ("wirte", "grad_req of 'a' is 'wirte'; expected one of write, add, null"),
        (["write"], "grad_req has 1 entries; expected one for each of 2 arguments"),
        ({"b": "put"}, "grad_req of 'b' is 'put'"),
    ],
)
def test_wrong_gradient_requests_are_refused(grad_req, match):
    with pytest.raises(ValueError, match=match):
        product().simple_bind(cpu(), grad_req=grad_req, a=(1,), b=(1,))


def test_missing_auxiliary_states_are_refused():
    args = {"x": array(np.ones((2, 3))), "bn_gamma": array([1] * 3), "bn_beta": array([0] * 3)}
    with pytest.raises(ValueError, match=r"aux_states.*got 0 for 2 .bn_moving_mean, bn_moving_var"):
        norm().bind(cpu(), args)


def test_a_list_of_contexts_is_refused():
    with pytest.raises(TypeError, match="ctx is str; expected a Context"):
        product().bind("cpu", [array([1]), array([1])])
    with pytest.raises(TypeError, match="ctx is str"):
        product().simple_bind("cpu", a=(1,))


# -- simple_bind ---------------------------------------------------------------------------


def test_simple_bind_makes_zeros_of_inferred_shapes():
    exe = norm().simple_bind(cpu(), x=(2, 3))
    assert {name: value.shape for name, value in exe.arg_dict.items()} == {
        "x": (2, 3),
        "bn_gamma": (3,),
        "bn_beta": (3,),
    }
    assert exe.aux_dict["bn_moving_var"].asnumpy().tolist() == [0, 0, 0]
    assert all(gradient.asnumpy().sum() == 0 for gradient in exe.grad_arrays)
    assert all(value.dense().ctypes.data % 64 == 0 for value in exe.arg_arrays)


def test_simple_bind_infers_dtypes():
    exe = product().simple_bind(cpu(), type_dict={"a": "float64"}, a=(2,), b=(2,))
    assert [value.dtype for value in exe.arg_arrays] == [np.float64] * 2
    assert exe.outputs[0].dtype == np.float64


def test_simple_bind_names_the_unknown_shapes():
    with pytest.raises(ShapeError, match="cannot infer the shape of x") as caught:
        sym.FullyConnected(sym.Variable("x"), num_hidden=2).simple_bind(cpu(), xx=(2, 3))
    assert "'xx' is not a variable of the symbol; did you mean 'x'?" in caught.value.__notes__


def test_simple_bind_ignores_shapes_of_unknown_names():
    # As in MXNet, whose modules pass the shapes of labels that a symbol may not have.
    exe = product().simple_bind(cpu(), a=(1,), b=(1,), label=(1,))
    assert list(exe.arg_dict) == ["a", "b"]


def test_unknown_storage_types_are_refused():
    with pytest.raises(MXNetError, match="'coo' storage of 'a'; expected one of default"):
        product().simple_bind(cpu(), stype_dict={"a": "coo"}, a=(1,), b=(1,))
    product().simple_bind(cpu(), stype_dict={"a": "default"}, a=(1,), b=(1,))


# -- sharing -------------------------------------------------------------------------------


def net():
    return norm() * sym.Variable("scale")


def test_shared_arguments_gradients_and_states():
    first = net().simple_bind(cpu(), x=(4, 3), scale=(4, 3))
    second = net().simple_bind(
        cpu(), shared_exec=first, shared_arg_names=["bn_gamma", "bn_beta"], x=(2, 3), scale=(2, 3)
    )
    assert second.arg_dict["bn_gamma"] is first.arg_dict["bn_gamma"]
    assert second.grad_dict["bn_beta"] is first.grad_dict["bn_beta"]
    assert second.aux_dict["bn_moving_mean"] is first.aux_dict["bn_moving_mean"]
    assert second.arg_dict["x"] is not first.arg_dict["x"]
    assert second.arena is first.arena


def test_shared_arguments_must_agree_in_name_and_shape():
    first = net().simple_bind(cpu(), x=(4, 3), scale=(4, 3))
    with pytest.raises(ShapeError, match=r"'scale' is shared with shape \(4, 3\)"):
        net().simple_bind(
            cpu(), shared_exec=first, shared_arg_names=["scale"], x=(2, 3), scale=(2, 3)
        )
    with pytest.raises(ValueError, match=r"'bn_gama', which is not an argument.*'bn_gamma'"):
        net().simple_bind(
            cpu(), shared_exec=first, shared_arg_names=["bn_gama"], x=(2, 3), scale=(2, 3)
        )


def test_a_shared_buffer_lends_arrays_that_are_large_enough():
    pool = {"a": array(np.arange(6))}
    exe = product().simple_bind(cpu(), shared_buffer=pool, a=(2, 2), b=(2, 2))
    assert exe.arg_dict["a"].asnumpy().tolist() == [[0, 1], [2, 3]]
    assert np.shares_memory(exe.arg_dict["a"].dense(), pool["a"].dense())
    assert pool["b"] is exe.arg_dict["b"]
    larger = product().simple_bind(cpu(), shared_buffer=pool, a=(3, 3), b=(3, 3))
    assert pool["a"] is larger.arg_dict["a"]
    assert not np.shares_memory(exe.arg_dict["a"].dense(), larger.arg_dict["a"].dense())


def test_a_shared_buffer_keeps_arrays_not_shared_by_name():
    """Under MXNet's names, gradients included; its Module binds like this without an executor to
    share."""
    x = sym.FullyConnected(sym.Variable("x"), num_hidden=4, name="fc")
    net = sym.SoftmaxOutput(x, name="softmax")
    requests = {"x": "write", "fc_weight": "write", "fc_bias": "write"}
    pool, parameters = {}, ["fc_weight", "fc_bias"]
    first = net.simple_bind(
        cpu(), requests, shared_arg_names=parameters, shared_buffer=pool, x=(8, 10)
    )
    shapes = {name: one.shape for name, one in pool.items()}
    assert shapes == {"x": (8, 10), "grad of x": (8, 10), "softmax_label": (8,)}
    second = net.simple_bind(
        cpu(),
        requests,
        shared_arg_names=parameters,
        shared_exec=first,
        shared_buffer=pool,
        x=(4, 10),
    )
    for mine, yours in ((second.arg_dict, first.arg_dict), (second.grad_dict, first.grad_dict)):
        assert np.shares_memory(mine["x"].dense(), yours["x"].dense())
        assert mine["fc_weight"] is yours["fc_weight"]
    larger = net.simple_bind(cpu(), shared_arg_names=parameters, shared_buffer=pool, x=(16, 10))
    assert pool["grad of x"] is larger.grad_dict["x"]
    assert pool["grad of softmax_label"].shape == (16,)
    assert not set(parameters) & set(pool)


# -- devices --------------------------------------------------------------------------------


def test_groups_on_different_cpu_contexts_run_together():
    with AttrScope(ctx_group="one"):
        a = sym.Variable("a")
    with AttrScope(ctx_group="two"):
        out = a * sym.Variable("b")
    exe = out.simple_bind(cpu(0), group2ctx={"one": cpu(1), "two": cpu(2)}, a=(2,), b=(2,))
    assert exe.arg_dict["a"].context == cpu(1)
    assert exe.arg_dict["b"].context == cpu(2)
    assert exe.forward(a=np.array([1, 2]), b=np.array([3, 4]))[0].asnumpy().tolist() == [3, 8]


def test_an_output_without_a_group_is_on_its_first_inputs_device():
    with AttrScope(ctx_group="one"):
        a = sym.Variable("a") + 1
    b = sym.Variable("b")
    exe = sym.Group([sym.exp(a), b * a, b + 1]).simple_bind(
        cpu(0), group2ctx={"one": cpu(1)}, a=(2,), b=(2,)
    )
    assert [output.context for output in exe.outputs] == [cpu(1), cpu(1), cpu(0)]
    assert exe.arg_dict["b"].context == cpu(0)


def test_arrays_of_another_device_are_refused(monkeypatch):
    monkeypatch.setattr(binding, "backend_of", lambda ctx: ctx.device_type)
    far = NDArray(np.ones(1, np.float32), gpu(0))
    with pytest.raises(DeviceError, match=r"'b' is on gpu\(0\), but bind is for cpu\(0\)"):
        product().bind(cpu(), [array([1]), far])
    with pytest.raises(DeviceError, match="group2ctx places 'g' on gpu"):
        product().bind(cpu(), [array([1]), array([1])], group2ctx={"g": gpu(0)})
