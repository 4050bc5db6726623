"""Private names of MXNet's modules, which scripts and subclasses of theirs use."""

from __future__ import annotations

from typing import Any

import core as mx

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
