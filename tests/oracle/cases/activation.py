"""Activation, LeakyReLU and SoftmaxActivation."""

from __future__ import annotations

from oracle.case import Case, Spec, normal

_LEAKY = ("leaky", "elu", "selu", "gelu")
_TYPES = ("relu", "sigmoid", "tanh", "softrelu", "softsign")


def _leaky(name: str, kind: str, data: Spec) -> Case:
    # MXNet's gradient of selu is not its derivative, and it rounds to float32 in between.
    tolerance = 1e-6 if data.dtype == "float64" else None
    attrs = {"act_type": kind}
    return Case(
        name, "LeakyReLU", attrs, {"data": data}, numeric=kind != "selu", tolerance=tolerance
    )


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
    *(_leaky(f"{kind}_2d", kind, normal(3, 7, scale=2.0)) for kind in _LEAKY),
    *(_leaky(f"{kind}_float64", kind, normal(2, 3, 4, dtype="float64")) for kind in _LEAKY),
    *(_leaky(f"{kind}_large", kind, normal(4, 4, scale=30.0)) for kind in _LEAKY),
    Case("leaky_float16", "LeakyReLU", {}, {"data": normal(5, 2, dtype="float16")}),
    Case("leaky_slope", "LeakyReLU", {"slope": 0.01}, {"data": normal(2, 3, 2)}),
    Case("elu_slope", "LeakyReLU", {"act_type": "elu", "slope": 1.5}, {"data": normal(2, 3, 2)}),
    *(
        Case(
            f"prelu_{len(shape)}d",
            "LeakyReLU",
            {"act_type": "prelu"},
            {"data": normal(*shape), "gamma": normal(3)},
        )
        for shape in ((4, 3), (2, 3, 5), (2, 3, 4, 2))
    ),
    Case(
        "prelu_each",
        "LeakyReLU",
        {"act_type": "prelu"},
        {"data": (2, 3), "gamma": (2, 3)},
    ),
    Case(
        "prelu_each_4d",
        "LeakyReLU",
        {"act_type": "prelu"},
        {"data": (2, 3, 2, 2), "gamma": (2, 3)},
    ),
    Case(
        "prelu_shared",
        "LeakyReLU",
        {"act_type": "prelu"},
        {"data": normal(2, 3, 4), "gamma": normal(1)},
    ),
    Case(
        "prelu_float64",
        "LeakyReLU",
        {"act_type": "prelu"},
        {"data": normal(2, 3, 4, dtype="float64"), "gamma": normal(3, dtype="float64")},
        tolerance=1e-6,
    ),
    # MXNet's forward works along the last axis, its backward along axis 1.
    Case("softmax_instance", "SoftmaxActivation", {}, {"data": normal(2, 3, 4)}, numeric=False),
    Case("softmax_rows", "SoftmaxActivation", {}, {"data": normal(4, 6, scale=5.0)}),
    Case("softmax_channel", "SoftmaxActivation", {"mode": "channel"}, {"data": normal(2, 3, 2, 2)}),
)
