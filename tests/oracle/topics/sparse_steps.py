"""Results MXNet computes only for row_sparse arrays: AdaGrad steps, ``SparseEmbedding``."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["record", "run"]

ROWS = [[1.0, 2.0], [0.0, 0.0], [3.0, -4.0], [0.0, 0.0]]
OPTIONS: dict[str, dict[str, float]] = {
    "plain": {"lr": 0.1},
    "all": {"lr": 0.2, "epsilon": 0.01, "rescale_grad": 0.5, "clip_gradient": 1.2},
}


def run(mx: Any) -> dict[str, np.ndarray]:
    """Return weights and histories after two steps, and the gradient of an embedding."""
    found: dict[str, np.ndarray] = {}
    grad = mx.nd.array(ROWS).tostype("row_sparse")
    for name, options in OPTIONS.items():
        for step, history in (
            (mx.nd.sparse.adagrad_update, mx.nd.ones((4, 2))),
            (mx.nd.contrib.group_adagrad_update, mx.nd.ones((4, 1))),
        ):
            weight = mx.nd.arange(8).reshape((4, 2)) + 1
            for _ in range(2):
                step(weight, grad, history, out=weight, **options)
            start = f"{step.__name__} {name}"
            found[f"{start} weight"] = weight.asnumpy()
            found[f"{start} history"] = history.asnumpy()
    weight = mx.nd.arange(12).reshape((4, 3))
    weight.attach_grad(stype="row_sparse")
    with mx.autograd.record():
        words = mx.nd.array([[1, 3], [1, 0]])
        y = mx.nd.contrib.SparseEmbedding(words, weight, input_dim=4, output_dim=3)
        total = (y * y).sum()
    total.backward()
    found["embedding"] = y.asnumpy()
    found["embedding rows"] = weight.grad.indices.asnumpy()
    found["embedding gradient"] = weight.grad.data.asnumpy()
    return found


def record(mx: Any) -> dict[str, np.ndarray]:
    """Return all results."""
    return run(mx)
