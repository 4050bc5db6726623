"""The smallest network of the API tests: one fully connected layer and SoftmaxOutput."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

__all__ = ["BATCH", "BIND", "CLASSES", "FEATURES", "NETWORK", "examples_npz", "fit_body"]

BATCH, FEATURES, CLASSES = 4, 5, 3

NETWORK: dict[str, Any] = {
    "nodes": [
        {"op": "null", "name": "data", "inputs": []},
        {"op": "null", "name": "fc_weight", "attrs": {"num_hidden": "3"}, "inputs": []},
        {"op": "null", "name": "fc_bias", "attrs": {"num_hidden": "3"}, "inputs": []},
        {
            "op": "FullyConnected",
            "name": "fc",
            "attrs": {"num_hidden": "3"},
            "inputs": [[0, 0, 0], [1, 0, 0], [2, 0, 0]],
        },
        {"op": "null", "name": "softmax_label", "inputs": []},
        {"op": "SoftmaxOutput", "name": "softmax", "inputs": [[3, 0, 0], [4, 0, 0]]},
    ],
    "arg_nodes": [0, 1, 2, 4],
    "heads": [[5, 0, 0]],
    "attrs": {"mxnet_version": ["int", 10901]},
}

BIND: dict[str, Any] = {
    "data_shapes": [{"name": "data", "shape": [BATCH, FEATURES]}],
    "label_shapes": [{"name": "softmax_label", "shape": [BATCH]}],
}


def examples_npz(count: int = 20) -> bytes:
    """Return an npz dataset: ``data``, where a feature per class is raised, and its labels."""
    random = np.random.RandomState(3)
    labels = random.randint(0, CLASSES, count)
    data = random.rand(count, FEATURES).astype(np.float32)
    data[np.arange(count), labels] += 2
    stream = io.BytesIO()
    np.savez(stream, data=data, softmax_label=labels.astype(np.float32))
    return stream.getvalue()


def fit_body(**changes: Any) -> dict[str, Any]:
    """Return the body of a fit over dataset ``examples``."""
    body = {
        "dataset": "examples",
        "epochs": 2,
        "batch_size": BATCH,
        "optimizer": {"name": "sgd", "options": {"learning_rate": 0.1}},
    }
    return {**body, **changes}
