"""A module's symbol and the parameters of a checkpoint as an ONNX model."""

from __future__ import annotations

import json
from typing import IO

from app.domain.onnx_request import OnnxRequest
from app.errors.tree import Conflict, Damaged, Invalid
from core.checkpoint import load_params_by_name
from core.errors import FormatError, MXNetError
from core.symbol import load_json
from core.types import to_dtype

__all__ = ["write_onnx"]

_INSTALL = (
    "ONNX models are written by the package onnx, which is not installed; install it "
    "on the server with: pip install 'modserve[onnx]'"
)


def write_onnx(request: OnnxRequest, target: IO[bytes]) -> list[str]:
    """Write the model; return notes on how it differs from the module.

    Raises:
        Conflict: the package onnx is not installed.
        Invalid: ONNX cannot express the symbol; the message names the node.
        Damaged: the parameters cannot be read.
    """
    try:
        from core.onnx_export import export_onnx
    except ModuleNotFoundError as error:
        if error.name != "onnx":
            raise
        raise Conflict(_INSTALL) from None
    try:
        arrays = load_params_by_name(request.params)
    except (FormatError, ValueError) as error:
        raise Damaged("params", str(error), "a complete parameter file") from None
    try:
        made = export_onnx(
            load_json(json.dumps(request.symbol)),
            {name: one.asnumpy() for name, one in arrays.items()},
            {one.name: one.shape for one in request.inputs},
            dtypes={one.name: to_dtype(one.dtype) for one in request.inputs},
            batch_axes={one.name: one.batch_axis for one in request.inputs},
            more_inputs=request.state_names,
        )
        target.write(made.model.SerializeToString())
    except (MXNetError, ValueError) as error:  # protobuf's error for more than 2 GiB
        raise Invalid("symbol", str(error), "a symbol that ONNX can express") from None
    notes = []
    if made.fixed_batch is not None:
        shapes = ", ".join(f"{one.name} {list(one.shape)}" for one in request.inputs)
        notes.append(f"the model only takes inputs of {shapes}: {made.fixed_batch}")
    if made.left_out:
        notes.append(f"left out, because they need a label: {', '.join(made.left_out)}")
    return notes
