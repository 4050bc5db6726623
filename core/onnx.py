"""Export of models to ONNX under MXNet's names (``mx.onnx``); needs the package ``onnx``."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from . import symbol as sym_module
from .errors import UsageError
from .ndarray import NDArray
from .ndarray import load as load_arrays
from .ops.registry import get_operator, registered_names
from .symbol import Symbol
from .types import Shape, to_dtype

__all__ = ["export_model", "get_operator_support"]

_INSTALL = (
    "ONNX models are written by the package onnx, which is not installed; install it with: "
    "pip install 'modserve[onnx]'"
)


def export_model(
    sym: Symbol | str,
    params: Any,
    in_shapes: Sequence[Sequence[int]] | None = None,
    in_types: Any = np.float32,
    onnx_file_path: str = "model.onnx",
    verbose: bool = False,
    dynamic: bool = False,
    dynamic_input_shapes: Sequence[Sequence[int | str | None]] | None = None,
    run_shape_inference: bool = False,
    input_type: Any = None,
    input_shape: Sequence[Sequence[int]] | None = None,
) -> str:
    """Write a model as an ONNX file; return the file's path.

    Args:
        sym: the symbol or its file.
        params: the parameters' file; a dict of them, whose names may begin with ``arg:`` and
            ``aux:``; or a list of two dicts, arguments and auxiliary states.
        in_shapes: shapes of the inputs, in the symbol's order, without labels.
        in_types: one dtype for all inputs, or a list.
        onnx_file_path: the file to write.
        verbose: log the inputs and outputs of the model.
        dynamic: accept any batch size; otherwise only that of ``in_shapes``.
        dynamic_input_shapes: for ``dynamic``, the inputs' shapes with None or a name for the batch
            size; by default it is the first axis of every input.
        run_shape_inference: add the shapes of intermediate values.
        input_type, input_shape: older names of ``in_types`` and ``in_shapes``.

    Raises:
        ImportError: the package onnx is not installed.
        UsageError: the shapes are not those of the inputs, or another axis than one of the batch
            is dynamic.
        ConversionError: ONNX cannot express the symbol; the message names the node.
    """
    try:
        from .onnx_export import export_onnx
    except ModuleNotFoundError as error:
        raise _missing(error) from None
    symbol = sym_module.load(sym) if isinstance(sym, str) else sym
    if not isinstance(symbol, Symbol):
        raise ValueError(f"sym is {type(sym).__name__}; expected a Symbol or its file")
    parameters = _parameters(params)
    shapes = input_shape if input_shape is not None else in_shapes
    inputs = dict(zip(*_matched(symbol, parameters, "in_shapes", shapes), strict=True))
    kinds = in_types if input_type is None else input_type
    if not isinstance(kinds, (list, tuple)):
        kinds = [kinds] * len(inputs)
    dtypes = dict(zip(*_matched(symbol, parameters, "in_types", kinds), strict=True))
    made = export_onnx(
        symbol,
        parameters,
        {name: tuple(shape) for name, shape in inputs.items()},
        dtypes={name: to_dtype(kind) for name, kind in dtypes.items()},
        batch_axes=_batch_axes(inputs, dynamic, dynamic_input_shapes),
    )
    if dynamic and made.fixed_batch is not None:
        warnings.warn(
            f"the model only accepts inputs of {dict(inputs)}: {made.fixed_batch}", stacklevel=2
        )
    model = made.model
    if run_shape_inference:
        from onnx import shape_inference

        model = shape_inference.infer_shapes(model)
    Path(onnx_file_path).write_bytes(model.SerializeToString())
    if verbose:
        logging.info("Inputs: %s", ", ".join(one.name for one in model.graph.input))
        logging.info("Outputs: %s", ", ".join(one.name for one in model.graph.output))
    logging.info("Input shape of the model %s ", list(inputs.values()))
    logging.info("Exported ONNX file %s saved to disk", onnx_file_path)
    return onnx_file_path


def get_operator_support(opset_version: int | None = None) -> list[str]:
    """Return MXNet's names of the operators that can be exported, sorted.

    Args:
        opset_version: ONNX's version of operators; None for the one that is written.

    Raises:
        ImportError: the package onnx is not installed.
        UsageError: an older version.
    """
    try:
        from .onnx_export import OPSET
        from .onnx_export.conversion import is_convertible
    except ModuleNotFoundError as error:
        raise _missing(error) from None
    if opset_version is not None and opset_version < OPSET:
        raise UsageError(f"opset_version is {opset_version}; models are written for opset {OPSET}")
    return sorted(name for name in registered_names() if is_convertible(get_operator(name)))


def _missing(error: ModuleNotFoundError) -> ImportError:
    return ImportError(_INSTALL) if error.name == "onnx" else error


def _parameters(params: Any) -> dict[str, np.ndarray[Any, Any]]:
    if isinstance(params, str):
        loaded = load_arrays(params)
        if not isinstance(loaded, Mapping):
            raise UsageError(f"{params}: its arrays have no names")
        params = loaded
    if isinstance(params, (list, tuple)) and len(params) == 2:
        params = {**params[0], **params[1]}
    if not isinstance(params, Mapping):
        raise ValueError(
            f"params is {type(params).__name__}; expected a file, a dict of arrays or a list of "
            "two dicts"
        )
    return {
        name.removeprefix("arg:").removeprefix("aux:"): (
            array.asnumpy() if isinstance(array, NDArray) else np.asarray(array)
        )
        for name, array in params.items()
    }


def _matched(
    symbol: Symbol, parameters: Mapping[str, Any], what: str, given: Sequence[Any] | None
) -> tuple[list[str], Sequence[Any]]:
    """Return the names of the inputs and what is given for them."""
    names = list(_input_names(symbol, parameters))
    if given is None or len(given) != len(names):
        count = "none" if given is None else f"{len(given)}"
        raise UsageError(
            f"{what} has {count} for the {len(names)} inputs {', '.join(names)}; give one for "
            "each, in this order, or the missing parameters"
        )
    return names, given


def _input_names(symbol: Symbol, parameters: Mapping[str, Any]) -> Iterator[str]:
    for name in symbol.list_inputs():
        # As in MXNet: labels are not needed in inference, and have this name.
        if name not in parameters and not name.endswith("label"):
            yield name


def _batch_axes(
    inputs: Mapping[str, Shape],
    dynamic: bool,
    shapes: Sequence[Sequence[int | str | None]] | None,
) -> dict[str, int]:
    """Return the batch axis of every input, -1 for none."""
    if not dynamic:
        return dict.fromkeys(inputs, -1)
    if shapes is None:
        return dict.fromkeys(inputs, 0)
    if len(shapes) != len(inputs):
        raise UsageError(f"dynamic_input_shapes has {len(shapes)} shapes for {len(inputs)} inputs")
    axes = {}
    for (name, fixed), shape in zip(inputs.items(), shapes, strict=True):
        open_axes = [axis for axis, length in enumerate(shape) if not isinstance(length, int)]
        if len(open_axes) > 1 or len(shape) != len(fixed):
            raise UsageError(
                f"dynamic_input_shapes: {name!r} has shape {tuple(shape)}; only its batch axis "
                f"may be None, the others are those of {tuple(fixed)}"
            )
        axes[name] = open_axes[0] if open_axes else -1
    return axes


def __getattr__(name: str) -> Any:
    """Explain that there is no import of ONNX models."""
    if name in ("import_model", "import_to_gluon", "get_model_metadata"):
        raise AttributeError(
            f"modserve writes ONNX models and does not read them, so that there is no {name}; run "
            "the model with onnxruntime, or train it where it was made"
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
