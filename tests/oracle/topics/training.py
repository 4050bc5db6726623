"""Three training steps of whole networks from fixed parameters, using Module."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from oracle import networks

__all__ = ["CASES", "TrainingCase", "first_gradients", "record", "summarize", "train"]

STEPS = 3
OPTIMIZER = (("learning_rate", 0.05), ("momentum", 0.9), ("wd", 1e-4))
_SAMPLE = 2000

Shape = tuple[int, ...]
Arrays = dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class TrainingCase:
    """One network and its batches.

    Attributes:
        build: the symbol, from ``mx`` and the bucket key (None if there are no buckets).
        data: shape of ``data`` for a bucket key.
        label: shape of ``softmax_label`` for a bucket key.
        classes: labels (and, for words, data) are whole numbers below.
        words: data are whole numbers too.
        buckets: bucket key of each step; None for a plain Module.
        devices: how many CPU contexts.
    """

    build: Callable[[Any, Any], Any]
    data: Callable[[Any], Shape]
    label: Callable[[Any], Shape]
    classes: int
    words: bool = False
    buckets: tuple[int | None, ...] = (None,) * STEPS
    devices: int = 1

    @property
    def first_key(self) -> int | None:
        """The bucket key that is bound first."""
        return self.buckets[0]

    def make_batch(self, step: int) -> Arrays:
        """Return data and labels of one step."""
        key = self.buckets[step]
        random = np.random.RandomState(100 + step)
        data = (
            random.randint(0, self.classes, self.data(key))
            if self.words
            else random.normal(size=self.data(key))
        )
        label = random.randint(0, self.classes, self.label(key))
        return {"data": data.astype("float32"), "softmax_label": label.astype("float32")}


def _fixed(shape: Shape) -> Callable[[Any], Shape]:
    return lambda key: shape


def _build_fixed_scales(mx: Any, key: Any) -> Any:
    x = mx.sym.Variable("data")
    for layer in range(2):
        x = mx.sym.FullyConnected(x, num_hidden=7, no_bias=True, name=f"fc{layer}")
        x = mx.sym.BatchNorm(x, fix_gamma=True, name=f"norm{layer}")
        x = mx.sym.Activation(x, act_type="tanh", name=f"tanh{layer}")
    return mx.sym.SoftmaxOutput(x, name="softmax")


def _build_residual(mx: Any, key: Any) -> Any:
    return networks.residual(mx, (1, 1), (4, 4, 8), 5)


CASES: dict[str, TrainingCase] = {
    "mlp": TrainingCase(lambda mx, key: networks.mlp(mx), _fixed((6, 12)), _fixed((6,)), 4),
    "mlp_two_devices": TrainingCase(
        lambda mx, key: networks.mlp(mx), _fixed((6, 12)), _fixed((6,)), 4, devices=2
    ),
    "lenet": TrainingCase(
        lambda mx, key: networks.lenet(mx), _fixed((8, 1, 28, 28)), _fixed((8,)), 10
    ),
    "residual": TrainingCase(_build_residual, _fixed((6, 3, 8, 8)), _fixed((6,)), 5),
    "residual_two_devices": TrainingCase(
        _build_residual, _fixed((6, 3, 8, 8)), _fixed((6,)), 5, devices=2
    ),
    "fixed_scales": TrainingCase(_build_fixed_scales, _fixed((6, 12)), _fixed((6,)), 7),
    "fixed_scales_two_devices": TrainingCase(
        _build_fixed_scales, _fixed((6, 12)), _fixed((6,)), 7, devices=2
    ),
    "word_model": TrainingCase(
        networks.word_model,
        lambda key: (4, key),
        lambda key: (4, key),
        30,
        words=True,
        buckets=(7, 4, 7),
    ),
}


def start(mx: Any, case: TrainingCase) -> tuple[Arrays, Arrays]:
    """Return the initial arguments and auxiliary states."""
    symbol = case.build(mx, case.first_key)
    key = case.first_key
    shapes, _, aux_shapes = symbol.infer_shape(data=case.data(key), softmax_label=case.label(key))
    arguments = dict(zip(symbol.list_arguments(), shapes, strict=True))
    auxiliary = dict(zip(symbol.list_auxiliary_states(), aux_shapes, strict=True))
    parameters = {k: v for k, v in arguments.items() if k not in ("data", "softmax_label")}
    return networks.make_parameters(parameters), networks.make_parameters(auxiliary)


def first_gradients(mx: Any, case: TrainingCase) -> Arrays:
    """Return the gradients of the first batch, summed over it, from an executor."""
    arguments, auxiliary = start(mx, case)
    batch = case.make_batch(0)
    shapes = {name: x.shape for name, x in batch.items()}
    symbol = case.build(mx, case.first_key)
    wanted = {name: "null" if name in batch else "write" for name in symbol.list_arguments()}
    executor = symbol.simple_bind(mx.cpu(), grad_req=wanted, **shapes)
    executor.copy_params_from(_to_device(mx, arguments), _to_device(mx, auxiliary))
    executor.forward(is_train=True, **_to_device(mx, batch))
    executor.backward()
    return {name: executor.grad_dict[name].asnumpy() for name in arguments}


def make_module(mx: Any, case: TrainingCase) -> Any:
    """Return the bound module with initial parameters and optimizer."""
    context = [mx.cpu(i) for i in range(case.devices)]
    if case.first_key is None:
        module = mx.mod.Module(case.build(mx, None), context=context)
    else:
        module = mx.mod.BucketingModule(
            lambda key: (case.build(mx, key), ("data",), ("softmax_label",)),
            default_bucket_key=case.first_key,
            context=context,
        )
    key = case.first_key
    module.bind([("data", case.data(key))], [("softmax_label", case.label(key))])
    arguments, auxiliary = start(mx, case)
    module.init_params(arg_params=_to_device(mx, arguments), aux_params=_to_device(mx, auxiliary))
    module.init_optimizer(optimizer="sgd", optimizer_params=OPTIMIZER)
    return module


def train(mx: Any, case: TrainingCase) -> Arrays:
    """Return the outputs of every step, and parameters and auxiliary states after the last."""
    module = make_module(mx, case)
    results: Arrays = {}
    for step in range(STEPS):
        batch, key = case.make_batch(step), case.buckets[step]
        arrays = _to_device(mx, batch)
        module.forward(
            mx.io.DataBatch(
                data=[arrays["data"]],
                label=[arrays["softmax_label"]],
                bucket_key=key,
                provide_data=[("data", case.data(key))],
                provide_label=[("softmax_label", case.label(key))],
            ),
            is_train=True,
        )
        results[f"output{step}"] = module.get_outputs()[0].asnumpy()
        module.backward()
        module.update()
    mx.nd.waitall()  # MXNet does not wait for backward's update of the auxiliary states
    arguments, auxiliary = module.get_params()
    for name, array in {**arguments, **auxiliary}.items():
        results[f"final_{name}"] = array.asnumpy()
    return results


def summarize(arrays: Arrays) -> Arrays:
    """Return the values to store: small arrays whole, a sample and both norms of large ones."""
    summary: Arrays = {}
    for key, array in arrays.items():
        if array.size <= _SAMPLE:
            summary[key] = array
            continue
        chosen = np.random.RandomState(array.size % 2**32).randint(0, array.size, _SAMPLE)
        summary[f"{key}/sample"] = array.ravel()[chosen]
        wide = array.astype("float64")
        summary[f"{key}/norms"] = np.array([np.abs(wide).sum(), np.sqrt((wide**2).sum())])
    return summary


def record(mx: Any) -> Arrays:
    """Return the results of all cases."""
    results: Arrays = {}
    for case_id, case in CASES.items():
        results.update({f"{case_id}/{key}": v for key, v in summarize(train(mx, case)).items()})
        if case.devices == 1:
            gradients = summarize(first_gradients(mx, case))
            results.update({f"{case_id}/gradient_{key}": v for key, v in gradients.items()})
    return results


def _to_device(mx: Any, arrays: Arrays) -> dict[str, Any]:
    return {name: mx.nd.array(x) for name, x in arrays.items()}
