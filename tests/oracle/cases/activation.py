"""Activation and LeakyReLU."""

from __future__ import annotations

from oracle.case import Case, normal

_TYPES = ("relu", "sigmoid", "tanh", "softrelu", "softsign")

CASES = (
    *(
        Case(f"{kind}_2d", "Activation", {"act_type": kind}, {"data": normal(3, 7, scale=2.0)})
        for kind in _TYPES
    ),
    *(
        Case(
            f"{kind}_float64",
            "Activation",
            {"act_type": kind},
            {"data": normal(2, 3, 4, dtype="float64")},
        )
        for kind in _TYPES
    ),
    *(
        Case(
            f"{kind}_float16",
            "Activation",
            {"act_type": kind},
            {"data": normal(5, 2, dtype="float16")},
        )
        for kind in _TYPES
    ),
    Case("relu_inference", "Activation", {"act_type": "relu"}, {"data": (2, 3, 2, 2)}, train=False),
    Case("tanh_large", "Activation", {"act_type": "tanh"}, {"data": normal(4, 4, scale=60.0)}),
    Case(
        "softrelu_large", "Activation", {"act_type": "softrelu"}, {"data": normal(4, 4, scale=60.0)}
    ),
)
