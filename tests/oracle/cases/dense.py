"""FullyConnected."""

from __future__ import annotations

from oracle.case import Case, normal


def _dense(name: str, data: tuple[int, ...], features: int, **attrs: object) -> Case:
    inputs = {"data": data, "weight": (5, features)}
    if not attrs.get("no_bias"):
        inputs["bias"] = (5,)
    return Case(name, "FullyConnected", {"num_hidden": 5, **attrs}, inputs)


CASES = (
    _dense("rows", (3, 4), 4),
    _dense("no_bias", (3, 4), 4, no_bias=True),
    _dense("images", (3, 2, 4, 3), 24),
    _dense("one_feature", (3, 1), 1),
    _dense("sequence", (2, 3, 4), 4, flatten=False),
    _dense("sequence_no_bias", (2, 3, 2, 4), 4, flatten=False, no_bias=True),
    _dense("vector", (4,), 4, flatten=False),
    Case(
        "float64",
        "FullyConnected",
        {"num_hidden": 2},
        {
            "data": normal(3, 4, dtype="float64"),
            "weight": normal(2, 4, dtype="float64"),
            "bias": normal(2, dtype="float64"),
        },
    ),
    Case(
        "inference",
        "FullyConnected",
        {"num_hidden": 2},
        {"data": (3, 4), "weight": (2, 4), "bias": (2,)},
        train=False,
    ),
)
