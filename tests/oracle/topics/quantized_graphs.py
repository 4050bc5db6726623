"""Outputs of four real quantized graphs in the folder beside the repository."""

from __future__ import annotations

from typing import Any

import numpy as np

from oracle.shared import SHARED

__all__ = ["SHAPES", "record", "run_graph"]

SHAPES = {
    "0c0214fd6f5f": (1, 3, 64, 64),
    "431de08289a8": (1, 3, 64, 64),
    "61199df9aac2": (1, 3, 64, 64),
    "7360253ed02b": (1, 3, 300, 300),
}
"""Shape of the data by the graph's name."""


def run_graph(mx: Any, name: str) -> list[np.ndarray]:
    """Return the outputs of a graph."""
    symbol = mx.sym.load(str(SHARED / "symbols" / f"{name}.json"))
    shapes, _, states = symbol.infer_shape(data=SHAPES[name])
    random = np.random.RandomState(1)

    def number(key: str, shape: tuple[int, ...]) -> Any:
        reach = 1 / np.sqrt(np.prod(shape[1:])) if key.endswith("weight") else 1
        reach *= 2 if key == "data" else 1
        return mx.nd.array(random.uniform(-reach, reach, shape))

    arguments = {
        key: number(key, shape) for key, shape in zip(symbol.list_arguments(), shapes, strict=True)
    }
    auxiliary = {
        key: mx.nd.array(random.uniform(0.5, 1.5, shape))
        for key, shape in zip(symbol.list_auxiliary_states(), states, strict=True)
    }
    executor = symbol.bind(mx.cpu(), arguments, aux_states=auxiliary, grad_req="null")
    return [output.asnumpy() for output in executor.forward()]


def record(mx: Any) -> dict[str, np.ndarray]:
    """Return all outputs by graph and number."""
    return {
        f"{name}/{index}": output
        for name in SHAPES
        for index, output in enumerate(run_graph(mx, name))
    }
