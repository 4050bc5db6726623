"""Gluon's losses: values, gradients, and symbols."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["CASES", "compute", "record"]

BATCH, WIDTH = 4, 3

_SCORES = ("normal", (BATCH, WIDTH))
_SIGNS = ("signs", (BATCH, WIDTH))
_BITS = ("bits", (BATCH, WIDTH))
_SHARES = ("shares", (BATCH, WIDTH))
_CLASSES = ("classes", (BATCH,))
_WEIGHTS = ("shares", (BATCH, 1))
_COUNTS = ("counts", (BATCH, WIDTH))

CASES: dict[str, tuple[str, dict[str, Any], tuple[Any, ...]]] = {
    "l2": ("L2Loss", {}, (_SCORES, _SCORES)),
    "l2_weighted": ("L2Loss", {"weight": 0.3}, (_SCORES, _SCORES, _WEIGHTS)),
    "l1": ("L1Loss", {"weight": 2.0}, (_SCORES, ("normal", (BATCH, WIDTH, 1)))),
    "huber": ("HuberLoss", {"rho": 0.5}, (_SCORES, _SCORES)),
    "hinge": ("HingeLoss", {"margin": 2}, (_SCORES, _SIGNS)),
    "squared_hinge": ("SquaredHingeLoss", {}, (_SCORES, _SIGNS)),
    "logistic": ("LogisticLoss", {}, (_SCORES, _SIGNS)),
    "logistic_binary": ("LogisticLoss", {"label_format": "binary"}, (_SCORES, _BITS, _WEIGHTS)),
    "sigmoid": ("SigmoidBCELoss", {}, (_SCORES, _BITS)),
    "sigmoid_positive": ("SigmoidBCELoss", {}, (_SCORES, _BITS, _WEIGHTS, ("shares", (1, WIDTH)))),
    "sigmoid_shares": ("SigmoidBCELoss", {"from_sigmoid": True}, (_SHARES, _BITS)),
    "softmax": ("SoftmaxCELoss", {}, (_SCORES, _CLASSES)),
    "softmax_dense": ("SoftmaxCELoss", {"sparse_label": False}, (_SCORES, _SHARES, _WEIGHTS)),
    "softmax_axis": (
        "SoftmaxCELoss",
        {"axis": 1, "from_logits": True},
        (("normal", (BATCH, WIDTH, 2)), ("classes", (BATCH, 2))),
    ),
    "kl": ("KLDivLoss", {"from_logits": False}, (_SCORES, _SHARES)),
    "ctc": ("CTCLoss", {}, (("normal", (2, 6, 4)), ("classes", (2, 3)))),
    "triplet": ("TripletLoss", {"margin": 0.5}, (_SCORES, _SCORES, _SCORES)),
    "poisson": ("PoissonNLLLoss", {}, (_SCORES, _COUNTS)),
    "poisson_full": (
        "PoissonNLLLoss",
        {"from_logits": False, "compute_full": True},
        (_SHARES, _COUNTS),
    ),
    "cosine": ("CosineEmbeddingLoss", {"margin": 0.1}, (_SCORES, _SCORES, ("signs", (BATCH,)))),
    "sdml": ("SDMLLoss", {}, (_SCORES, _SCORES)),
}


def _array(kind: str, shape: tuple[int, ...], seed: int) -> np.ndarray:
    random = np.random.RandomState(seed)
    values = {
        "normal": lambda: random.normal(size=shape),
        "signs": lambda: random.randint(0, 2, shape) * 2 - 1,
        "bits": lambda: random.randint(0, 2, shape),
        "shares": lambda: random.uniform(0.1, 0.9, shape),
        "classes": lambda: random.randint(0, 3, shape),
        "counts": lambda: random.randint(1, 6, shape),
    }
    return np.asarray(values[kind]()).astype("float32")


def compute(mx: Any, case_id: str) -> dict[str, np.ndarray]:
    """Return the loss and the gradient of the predictions."""
    name, options, inputs = CASES[case_id]
    arrays = [mx.nd.array(_array(*one, seed)) for seed, one in enumerate(inputs)]
    loss = getattr(mx.gluon.loss, name)(**options)
    if case_id == "poisson_full":  # MXNet cannot record its own +=
        return {"loss": loss(*arrays).asnumpy()}
    arrays[0].attach_grad()
    with mx.autograd.record():
        value = loss(*arrays)
    value.backward()
    return {"loss": value.asnumpy(), "gradient": arrays[0].grad.asnumpy()}


def record(mx: Any) -> dict[str, np.ndarray]:
    """Return the results of every case."""
    return {
        f"{case_id}/{key}": array
        for case_id in CASES
        for key, array in compute(mx, case_id).items()
    }
