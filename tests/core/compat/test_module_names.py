"""Private names of MXNet's modules, which scripts and subclasses of theirs use."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core as mx
from core.errors import ShapeError, StageError, UsageError
from core.model import _initialize_kvstore
from core.module.executor_group import DataParallelExecutorGroup

LABEL = [("softmax_label", (2,))]


def _network(key: int) -> tuple[mx.sym.Symbol, list[str], list[str]]:
    x = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=4, flatten=False, name="in")
    x = mx.sym.FullyConnected(mx.sym.sum(x, axis=1), num_hidden=3, name="out")
    return mx.sym.SoftmaxOutput(x, name="softmax"), ["data"], ["softmax_label"]


def _trained() -> mx.mod.BucketingModule:
    module = mx.mod.BucketingModule(_network, 8)
    module.bind([("data", (2, 8, 5))], LABEL)
    module.init_params(mx.init.One())
    module.init_optimizer()
    batch = mx.io.DataBatch(
        [mx.nd.ones((2, 3, 5))], [mx.nd.zeros(2)], None, None, 3, [("data", (2, 3, 5))], LABEL
    )
    module.forward_backward(batch)
    module.update()
    return module


def test_a_bucketing_module_reports_bytes_and_whether_devices_have_newer_parameters() -> None:
    module = mx.mod.BucketingModule(_network, 8, fixed_param_names=["in_weight"])
    assert module._total_exec_bytes == 0
    assert module._context == mx.cpu(0)
    assert module._fixed_param_names == ["in_weight"]
    assert module._params_dirty is False
    trained = _trained()
    assert trained._params_dirty is True
    trained.get_params()
    assert trained._params_dirty is False


def test_subclasses_set_the_current_bucket() -> None:
    module = _trained()
    before = module._curr_module, module._curr_bucket_key
    module._curr_module, module._curr_bucket_key = None, None
    assert not module.binded
    module._curr_module, module._curr_bucket_key = before
    assert module.binded


def test_every_module_reports_the_bytes_of_its_executors() -> None:
    assert mx.mod.PythonLossModule()._total_exec_bytes == 0
    inner = _trained()._curr_module
    chain = mx.mod.SequentialModule().add(inner)
    assert chain._total_exec_bytes == inner._total_exec_bytes > 0


class Rcnn(mx.mod.MutableModule):
    """Reads, as subclasses of the example's ``MutableModule`` do, the module bound last."""

    def bound_parameters(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return self._curr_module.get_params()


def test_the_current_module_of_a_mutable_module_is_itself() -> None:
    module = Rcnn(_network(8)[0], ["data"], ["softmax_label"])
    module.bind([("data", (2, 8, 5))], LABEL)
    module.init_params(mx.init.One())
    assert module._curr_module is module
    assert module._total_exec_bytes > 0
    assert module.bound_parameters()[0]["in_weight"].asnumpy().min() == 1


def _linear(**options: Any) -> mx.mod.Module:
    """Return a module that computes the sum of its four inputs, bound for two rows."""
    dense = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=1, no_bias=True, name="fc")
    module = mx.mod.Module(mx.sym.MakeLoss(dense), label_names=None, **options)
    module.bind([("data", (2, 4))])
    module.init_params(mx.init.One())
    return module


def _weight(module: Any) -> list[float]:
    values: list[float] = module.get_params()[0]["fc_weight"].asnumpy().ravel().tolist()
    return values


def _step(module: mx.mod.Module) -> None:
    module.forward_backward(mx.io.DataBatch([mx.nd.ones((2, 4))]))
    module.update()


def test_a_module_marked_unbound_is_bound_anew_and_keeps_what_it_learned() -> None:
    module = _linear()
    module.init_optimizer(optimizer_params={"learning_rate": 1.0, "rescale_grad": 1.0})
    _step(module)
    module.binded = False
    with pytest.raises(StageError, match="bind"):
        module.forward(mx.io.DataBatch([mx.nd.ones((2, 4))]))
    module.bind([("data", (3, 4))], for_training=False)
    assert module.binded
    module.forward(mx.io.DataBatch([mx.nd.ones((3, 4))]))
    assert module.get_outputs()[0].asnumpy().ravel().tolist() == [-4.0] * 3  # 1 - 2 * 1 each


def test_reset_bind_frees_the_executors() -> None:
    module = _linear()
    module._reset_bind()
    assert not module.binded
    assert module._exec_group is None
    assert _weight(module) == [1.0] * 4


def test_an_optimizer_is_replaced_after_its_flag_is_cleared() -> None:
    module = _linear()
    module.init_optimizer()
    module.optimizer_initialized = False
    with pytest.raises(StageError, match="init_optimizer"):
        module.update()
    module.init_optimizer(optimizer="adam")
    assert isinstance(module._optimizer, mx.optimizer.Adam)
    assert module.optimizer_initialized


def test_a_flag_alone_does_not_make_an_optimizer() -> None:
    module = _linear()
    module.optimizer_initialized = True
    module.forward_backward(mx.io.DataBatch([mx.nd.ones((2, 4))]))
    with pytest.raises(StageError, match="init_optimizer"):
        module.update()


class Installing(mx.mod.Module):
    """Sets the parts of its optimizer itself, as subclasses copied from MXNet's do."""

    def init_optimizer(self, *args: Any, **kwargs: Any) -> None:
        optimizer = mx.optimizer.SGD(learning_rate=1.0)
        kvstore = mx.kv.create("local") if self.on_kvstore else None
        self._optimizer = optimizer
        self._kvstore = kvstore
        self._update_on_kvstore = self.on_kvstore
        self._updater = None
        if kvstore:
            kvstore.set_optimizer(optimizer)
            _initialize_kvstore(
                kvstore,
                self._exec_group.param_arrays,
                self._arg_params,
                self._param_names,
                self.on_kvstore,
            )
        else:
            self._updater = mx.optimizer.get_updater(optimizer)
        self.optimizer_initialized = True

    on_kvstore = False


@pytest.mark.parametrize("on_kvstore", [False, True])
def test_a_subclass_sets_the_parts_of_its_optimizer(on_kvstore: bool) -> None:
    module = Installing(_linear()._symbol, label_names=None)
    module.on_kvstore = on_kvstore
    module.bind([("data", (2, 4))])
    module.init_params(mx.init.One())
    module.init_optimizer()
    _step(module)
    assert _weight(module) == [-1.0] * 4


def test_a_function_set_as_updater_updates() -> None:
    module = _linear()
    module.init_optimizer()

    def updater(indices: list[int], grads: list[Any], weights: list[Any]) -> None:
        for weight, grad in zip(weights, grads, strict=True):
            weight[:] = weight + 10 * grad

    module._updater = updater
    _step(module)
    assert _weight(module) == [21.0] * 4
    with pytest.raises(UsageError, match="has no states"):
        module.save_optimizer_states("never-written.states")
    module._updater = None
    with pytest.raises(UsageError, match="neither an updater nor a store"):
        _step(module)


def test_values_written_to_the_executors_are_fetched_on_request() -> None:
    module = _linear()
    assert _weight(module) == [1.0] * 4
    module._exec_group.param_arrays[0][0][:] = 7
    assert _weight(module) == [1.0] * 4  # as in MXNet, which cannot know of it
    module._sync_params_from_devices()
    assert _weight(module) == [7.0] * 4


def test_arrays_assigned_to_the_group_are_used() -> None:
    module = _linear()
    module.init_optimizer(optimizer_params={"learning_rate": 1.0, "rescale_grad": 1.0})
    group: Any = module._exec_group
    module.forward_backward(mx.io.DataBatch([mx.nd.ones((2, 4))]))
    group.grad_arrays[0][0] = mx.nd.ones((1, 4)) * 5
    module.update()
    assert _weight(module) == [-4.0] * 4
    group.param_arrays = [[mx.nd.ones((1, 4)) * 3]]
    module.forward(mx.io.DataBatch([mx.nd.ones((2, 4))]))
    assert module.get_outputs()[0].asnumpy().ravel().tolist() == [12.0] * 2
    with pytest.raises(ShapeError, match=r"\(1, 4\) was given one of \(4,\)"):
        group.param_arrays[0] = [mx.nd.ones(4)]
    with pytest.raises(UsageError, match="list of 1 arrays"):
        group.param_arrays = []


def test_arrays_assigned_to_a_group_of_mxnets_class_are_used() -> None:
    symbol = _linear()._symbol
    group = DataParallelExecutorGroup(
        symbol, [mx.cpu()], None, [("data", (2, 4))], None, ["fc_weight"], True, False
    )
    group.param_arrays = [[mx.nd.ones((1, 4)) * 2]]
    group.forward(mx.io.DataBatch([mx.nd.ones((2, 4))]))
    np.testing.assert_array_equal(group.get_outputs()[0].asnumpy(), [[8], [8]])


def test_shapes_set_by_a_script_are_bound() -> None:
    module = _linear()
    module._data_shapes = [("data", (5, 4))]
    assert module.output_shapes[0][1] == (5, 1)


def test_a_bucketing_module_marked_unbound_is_bound_anew_and_keeps_its_parameters() -> None:
    module = _trained()
    before = {name: value.asnumpy() for name, value in module.get_params()[0].items()}
    module.binded = False
    assert not module.binded
    module.bind([("data", (4, 8, 5))], [("softmax_label", (4,))])
    for name, value in module.get_params()[0].items():
        np.testing.assert_array_equal(value.asnumpy(), before[name])
    module.init_optimizer()
    module.optimizer_initialized = False
    module.init_optimizer(optimizer="adam")
    assert isinstance(module.default_module.optimizer, mx.optimizer.Adam)
    module.params_initialized = False
    module.init_params(mx.init.Zero())
    assert not module.get_params()[0]["in_weight"].asnumpy().any()
