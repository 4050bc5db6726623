"""Whole networks: their symbol JSON as MXNet writes it, and outputs of a forward pass."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from oracle import networks

__all__ = ["INPUTS", "SYMBOLS", "build", "forward", "make_inputs", "record", "write_files"]

VOWEL_BUCKETS = (12, 18, 24, 30)

SYMBOLS: dict[str, Callable[[Any], Any]] = {
    "mlp": networks.mlp,
    "lenet": networks.lenet,
    "resnet20": networks.resnet20,
    "word_model_7": lambda mx: networks.word_model(mx, 7),
    **{
        f"japanese_vowels_{steps}": lambda mx, steps=steps: networks.japanese_vowels(mx, steps)
        for steps in VOWEL_BUCKETS
    },
}

INPUTS: dict[str, dict[str, tuple[int, ...]]] = {
    "mlp": {"data": (5, 12)},
    "lenet": {"data": (4, 1, 28, 28)},
    "resnet20": {"data": (3, 3, 32, 32)},
    "word_model_7": {"data": (3, 7), "softmax_label": (3, 7)},
    **{
        f"japanese_vowels_{steps}": {"data": (4, steps, 12), "lengths": (4,)}
        for steps in VOWEL_BUCKETS
    },
}
"""Shapes of what is fed; a label that is not stays zero."""


def build(mx: Any, name: str) -> Any:
    """Return a network, with automatic names counted from 0."""
    with mx.name.NameManager():
        return SYMBOLS[name](mx)


def make_inputs(name: str) -> dict[str, np.ndarray]:
    """Return the inputs of a network."""
    random = np.random.RandomState(17)
    inputs: dict[str, np.ndarray] = {}
    for key, shape in INPUTS[name].items():
        if key == "lengths":
            steps = INPUTS[name]["data"][1]
            values = random.randint(steps - 5, steps + 1, shape)
        elif name.startswith("word_model"):
            values = random.randint(0, 30, shape)
        else:
            values = random.normal(size=shape)
        inputs[key] = values.astype("float32")
    return inputs


def forward(mx: Any, name: str, symbol: Any) -> np.ndarray:
    """Return the output of an inference pass with parameters derived from their names."""
    inputs = make_inputs(name)
    shapes, _, aux_shapes = symbol.infer_shape(**{key: x.shape for key, x in inputs.items()})
    arguments = dict(zip(symbol.list_arguments(), shapes, strict=True))
    auxiliary = dict(zip(symbol.list_auxiliary_states(), aux_shapes, strict=True))
    fed = {"softmax_label": np.zeros(arguments["softmax_label"], "float32"), **inputs}
    start = networks.make_parameters({k: s for k, s in arguments.items() if k not in fed})
    executor = symbol.bind(
        mx.cpu(),
        {key: mx.nd.array(x) for key, x in {**start, **fed}.items()},
        grad_req="null",
        aux_states={key: mx.nd.array(x) for key, x in networks.make_parameters(auxiliary).items()},
    )
    return np.asarray(executor.forward(is_train=False)[0].asnumpy())


def record(mx: Any) -> dict[str, np.ndarray]:
    """Return the outputs of all networks."""
    return {name: forward(mx, name, build(mx, name)) for name in SYMBOLS}


def write_files(mx: Any, folder: Path) -> None:
    """Write the JSON of all networks."""
    for name in SYMBOLS:
        build(mx, name).save(str(folder / f"{name}-symbol.json"))
