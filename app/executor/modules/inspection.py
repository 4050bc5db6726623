"""The inputs of a model whose files nobody has described."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.errors import Damaged
from app.executor.background import Waits, awaited, in_background
from app.executor.modules.input_shapes import guess_shapes, is_label
from app.link.calls import InspectModel
from core.checkpoint import load_params_file
from core.errors import MXNetError
from core.symbol import load_json

__all__ = ["inspect_model"]


def inspect_model(call: InspectModel) -> Waits[Mapping[str, Any]]:
    """Answer the call beside the device's thread.

    Raises:
        Damaged: the symbol or the parameters cannot be read.
    """
    return (yield from awaited(in_background(_inspect, call)))


def _inspect(call: InspectModel) -> Mapping[str, Any]:
    try:
        symbol = load_json(call.symbol)
    except MXNetError as error:
        raise Damaged("symbol", str(error), "the JSON of a symbol that loads here") from None
    try:
        arguments, auxiliary = load_params_file(call.params)
    except (MXNetError, ValueError) as error:
        raise Damaged("params", str(error), "a file of parameters that MXNet wrote") from None
    stored = {name: array.shape for name, array in (*arguments.items(), *auxiliary.items())}
    given = {name: tuple(shape) for name, shape in call.shapes.items()}
    variables = [name for name in symbol.list_arguments() if name not in stored]
    labels = [name for name in variables if is_label(name) and name not in given]
    inputs = [name for name in variables if name not in labels]
    if all(name in given for name in inputs):
        found: Mapping[str, tuple[int, ...]] | None = given
    else:
        found = guess_shapes(symbol, stored, given)
    shapes = None if found is None else {name: list(found[name]) for name in inputs}
    outputs = symbol.list_outputs()
    return {"inputs": inputs, "labels": labels, "outputs": outputs, "shapes": shapes}
