"""Gluon's layers: names, shapes, values and gradients, imperative and hybridized."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["CASES", "compute", "record"]

_WIDTH, _PLANE, _SPACE = (2, 4, 9), (2, 4, 9, 7), (2, 4, 5, 6, 4)

CASES: dict[str, tuple[str, dict[str, Any], tuple[int, ...]]] = {
    "conv1d": ("Conv1D", {"channels": 6, "kernel_size": 3, "groups": 2}, _WIDTH),
    "conv2d": (
        "Conv2D",
        {"channels": 3, "kernel_size": (3, 2), "strides": 2, "padding": (1, 0), "dilation": 2},
        _PLANE,
    ),
    "conv2d_relu": ("Conv2D", {"channels": 3, "kernel_size": 3, "activation": "relu"}, _PLANE),
    "conv2d_plain": ("Conv2D", {"channels": 3, "kernel_size": 1, "use_bias": False}, _PLANE),
    "conv3d": ("Conv3D", {"channels": 3, "kernel_size": (1, 2, 3)}, _SPACE),
    "conv1d_transpose": ("Conv1DTranspose", {"channels": 3, "kernel_size": 3}, _WIDTH),
    "conv2d_transpose": (
        "Conv2DTranspose",
        {
            "channels": 6,
            "kernel_size": 3,
            "strides": 2,
            "output_padding": 1,
            "groups": 2,
            "in_channels": 4,
        },
        _PLANE,
    ),
    "conv3d_transpose": ("Conv3DTranspose", {"channels": 2, "kernel_size": 2}, _SPACE),
    "max_pool1d": ("MaxPool1D", {"pool_size": 3, "strides": 2}, _WIDTH),
    "max_pool2d": ("MaxPool2D", {"pool_size": 2, "padding": 1, "ceil_mode": True}, _PLANE),
    "max_pool3d": ("MaxPool3D", {}, _SPACE),
    "avg_pool1d": ("AvgPool1D", {"pool_size": 2}, _WIDTH),
    "avg_pool2d": ("AvgPool2D", {"padding": 1, "count_include_pad": False}, _PLANE),
    "avg_pool3d": ("AvgPool3D", {"ceil_mode": True}, _SPACE),
    "global_max1d": ("GlobalMaxPool1D", {}, _WIDTH),
    "global_max2d": ("GlobalMaxPool2D", {}, _PLANE),
    "global_max3d": ("GlobalMaxPool3D", {}, _SPACE),
    "global_avg1d": ("GlobalAvgPool1D", {}, _WIDTH),
    "global_avg2d": ("GlobalAvgPool2D", {}, _PLANE),
    "global_avg3d": ("GlobalAvgPool3D", {}, _SPACE),
    "reflection": ("ReflectionPad2D", {"padding": 2}, _PLANE),
    "batch_norm": ("BatchNorm", {"momentum": 0.8, "epsilon": 1e-3}, _PLANE),
    "batch_norm_fixed": ("BatchNorm", {"scale": False, "center": False, "axis": -1}, _PLANE),
    "batch_norm_global": ("BatchNorm", {"use_global_stats": True}, _PLANE),
    "batch_norm_relu": ("BatchNormReLU", {}, _PLANE),
    "sync_batch_norm": ("SyncBatchNorm", {"num_devices": 1, "scale": False}, _PLANE),
    "instance_norm": ("InstanceNorm", {"scale": True}, _PLANE),
    "instance_norm_last": ("InstanceNorm", {"axis": 3}, _PLANE),
    "layer_norm": ("LayerNorm", {"epsilon": 1e-4}, _PLANE),
    "layer_norm_second": ("LayerNorm", {"axis": 1, "center": False}, _PLANE),
    "group_norm": ("GroupNorm", {"num_groups": 2}, _PLANE),
    "leaky": ("LeakyReLU", {"alpha": 0.1}, _WIDTH),
    "prelu": ("PReLU", {"in_channels": 4}, _WIDTH),
    "elu": ("ELU", {"alpha": 0.7}, _WIDTH),
    "selu": ("SELU", {}, _WIDTH),
    "gelu": ("GELU", {}, _WIDTH),
    "swish": ("Swish", {"beta": 1.5}, _WIDTH),
    "activation": ("Activation", {"activation": "softrelu"}, _WIDTH),
    "embedding": ("Embedding", {"input_dim": 5, "output_dim": 3}, (2, 3)),
    "embedding_sparse": (
        "Embedding",
        {"input_dim": 5, "output_dim": 3, "sparse_grad": True},
        (2, 3),
    ),
    "dense": ("Dense", {"units": 3, "flatten": False, "activation": "tanh"}, _WIDTH),
    "flatten": ("Flatten", {}, _PLANE),
}


def compute(mx: Any, case_id: str, *, compiled: bool = False) -> dict[str, np.ndarray]:
    """Return a layer's output, gradients and states, and the names it creates."""
    name, options, shape = CASES[case_id]
    kind = getattr(mx.gluon.nn, name, None) or getattr(mx.gluon.contrib.nn, name)
    with mx.name.NameManager():
        prefix = kind(**options).prefix
    layer = kind(prefix="layer_", **options)
    layer.initialize()
    if compiled:
        layer.hybridize()
    random = np.random.RandomState(len(case_id))
    values = random.randint(0, 5, shape) if name == "Embedding" else random.normal(size=shape)
    x = mx.nd.array(values)
    layer(x)
    params = layer.collect_params()
    for key, param in params.items():
        if param.grad_req == "null" and "running" not in key:
            continue  # MXNet sets a fixed gamma to ones
        param.set_data(mx.nd.array(random.uniform(0.5, 1.5, param.shape)))
    if name != "Embedding":  # plain numbers have no gradient
        x.attach_grad()
    with mx.autograd.record():
        y = layer(x)
    y.backward(mx.nd.array(random.normal(size=y.shape)))
    found = {"output": y.asnumpy()}
    if x.grad is not None:
        found["gradient"] = x.grad.asnumpy()
    for key, param in params.items():
        found[key] = (param.data() if param.grad_req == "null" else param.grad()).asnumpy()
    found["inferred"] = layer(x).asnumpy()
    shapes = [f"{key}: {param.shape} {param.grad_req}" for key, param in params.items()]
    outputs = layer(mx.sym.Variable("data")).list_outputs()
    found["names"] = np.array([prefix, *shapes, *outputs[:1]])
    return found


def record(mx: Any) -> dict[str, np.ndarray]:
    """Return MXNet's results for every case."""
    return {
        f"{case_id}/{key}": array
        for case_id in CASES
        for key, array in compute(mx, case_id).items()
    }
